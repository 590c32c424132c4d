"""The command line `toolcaddie`. Each command, or group of commands, has a file of its own."""

from toolcaddie.doors.cli.root import cli, main

__all__ = ["cli", "main"]
