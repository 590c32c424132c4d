"""Settings of the group `shell`: the table `shell` of the source `host`."""

from __future__ import annotations

from msgspec import Struct

from toolcaddie.core.numbers import Positive, Seconds
from toolcaddie.guards.net import Host
from toolcaddie.guards.workspaces import Per

PROGRAMS = (
    *("ls", "cat", "grep", "find", "head", "tail", "wc", "sort", "uniq", "echo", "pwd", "whoami", "date", "uname"),
    *("df", "du", "free", "uptime", "ps", "top", "ip", "ss", "netstat", "ping", "dig", "curl", "wget", "git"),
    *("docker", "kubectl", "systemctl", "journalctl", "cargo", "rustc", "python", "python3", "pip", "pip3"),
    *("node", "npm", "yarn"),
)
"""The 41 programs that may be named by default."""


class ShellSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which programs run, and where. What is not here is as in the source `exec` (docs/commands.md)."""

    programs: tuple[str, ...] = PROGRAMS
    """Names without a folder; others are refused."""
    workdir: str = "workspace"
    """The work folder of the sandbox."""
    folder_per: tuple[Per, ...] = ()
    timeout: Seconds = 120.0
    """The most seconds that a call can ask for."""
    max_output_length: Positive = 10_000
    max_commands: Positive = 8
    denied_patterns: tuple[str, ...] = ()
    hidden_patterns: tuple[str, ...] = ()
    egress: tuple[Host, ...] = ()


DEFAULT_SHELL = ShellSettings()
