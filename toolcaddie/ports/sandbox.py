"""Interfaces (sockets, which plugins fill) for sandboxes, in which commands and programs run that nobody trusts.

A command sees the system's programs and libraries (read-only), an empty `/tmp`, its own files at `FILES` (read-only) and one
folder of the host at `WORK`. Everything else of the host is absent: other files, processes, sockets, secrets and the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

MEGABYTE = 1024 * 1024

WORK = "/work"
"""Where a command sees its work folder; also its home."""
FILES = "/run/tool"
"""Where a command sees `Command.files`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    """Hosts that a command may reach over http(s), through a proxy that reaches public addresses only."""

    hosts: tuple[str, ...]
    """Host names; `*.example.com` stands for every name below `example.com`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """How much one command may use, with all the processes that it starts."""

    memory_bytes: int = 512 * MEGABYTE
    processes: int = 64
    open_files: int = 256
    file_bytes: int = 64 * MEGABYTE
    """The largest size of one file that it writes."""
    disk_bytes: int = 256 * MEGABYTE
    """How much larger the work folder may become."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments, and what it may see and use."""

    argv: tuple[str, ...]
    """The program and its arguments as they are; no shell reads them, unless the program is one."""
    work: Path | None = None
    """The host's folder that the command sees at `WORK`. None: an empty folder that is gone after the command."""
    writable: bool = True
    """False: the command sees its work folder read-only."""
    folder: str = "."
    """The folder in which it starts, relative to `work`."""
    hidden: tuple[str, ...] = ()
    """Files and folders relative to `work` that the command sees empty, such as files with secrets. One that does not
    exist is an error, because it may have just got another name."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Small files that the command sees, by their names in the folder `FILES`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to `PATH`, `HOME`, `LANG` and `TERM`. Nothing of the host's environment is passed on."""
    stdin: bytes | None = b""
    """What it reads from its standard input. None: what `RunningCommand.write` writes."""
    seconds: float = 30.0
    """After this time, its start included, the command and all the processes that it started are killed."""
    output_bytes: int = MEGABYTE
    """The largest number of bytes of each of its two outputs that are kept: the first ones. More is read, counted and dropped."""
    egress: Egress | None = None
    """None: no network at all, not even the host's loopback."""
    limits: SandboxLimits = SandboxLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a command left behind when it ended."""

    exit_code: int | None
    """None: it was killed; `ending` says why. 128 + N: a signal N ended it otherwise."""
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    """The size of the whole output; `stdout` may be only its beginning."""
    stderr_bytes: int
    ending: Literal["exited", "timeout", "killed", "memory", "disk"]
    """`killed`: by `RunningCommand.kill`, or because the sandbox was closed."""
    seconds: float


OnOutput = Callable[[Literal["stdout", "stderr"], bytes], None]
"""Takes each piece of output as it comes, also what is beyond `Command.output_bytes`."""


class RunningCommand(Protocol):
    """A command that has been started."""

    @property
    def pid(self) -> int:
        """Number of a process of the host that lives as long as the command."""
        ...

    async def write(self, data: bytes) -> None:
        """Writes to its standard input, if `Command.stdin` is None. Raises `SandboxError` if it reads none any more."""
        ...

    async def kill(self) -> None:
        """Kills the command and everything that it started. Returns when all of it is dead."""
        ...

    async def wait(self) -> Outcome:
        """Returns when the command has ended and everything that it started is dead. May be called several times."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFact:
    """One thing that a sandbox needs of its machine, and whether the machine has it."""

    name: str
    holds: bool
    detail: str
    """What was looked at and seen, in words."""
    remedy: str = ""
    """What to do if it does not hold."""


class Sandbox(Protocol):
    """Runs commands that nobody trusts."""

    @property
    def name(self) -> str: ...

    @property
    def holds(self) -> bool:
        """True if a command can reach nothing but what it is given. False: it runs with the host's own permissions."""
        ...

    async def run(self, command: Command) -> Outcome:
        """Runs a command to its end. If this is cancelled, the command is killed first. Raises `SandboxError` if the command
        cannot be started; it never runs with less protection instead."""
        ...

    async def start(self, command: Command, on_output: OnOutput | None = None) -> RunningCommand:
        """Starts a command and returns at once. Raises `SandboxError` as `run` does."""
        ...

    async def facts(self) -> Sequence[SandboxFact]:
        """Returns what this sandbox needs of its machine, by looking at the machine."""
        ...

    async def close(self) -> None:
        """Kills all commands that are running. The sandbox may be used again afterwards."""
        ...
