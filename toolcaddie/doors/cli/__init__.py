"""The command line: `toolcaddie`, one file per command or group of commands."""

from toolcaddie.doors.cli.root import cli, main

__all__ = ["cli", "main"]
