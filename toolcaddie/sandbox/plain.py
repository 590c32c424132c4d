"""Runs commands as ordinary processes of this machine, for machines that cannot hold a wall. It protects nothing.

A command may do whatever the user of this process may. It gets few variables, limits of time, memory, files and output, and its
processes are killed when it ends. `hidden`, `writable`, `egress` and the number of processes of a command are not enforced.

There is no folder `/work` and no `/run/tool`. An argument or a variable that begins with one of these paths gets the real path;
a script finds them in the variables `WORK` and `TOOL_FILES`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from toolcaddie.core.errors import ConfigError, SandboxError
from toolcaddie.guards import supervisor
from toolcaddie.ports import Command, OnOutput, Outcome, SandboxFact, SandboxLimits
from toolcaddie.sandbox.commands import SYSTEM_FOLDERS, Most, allowed, environment, translated
from toolcaddie.sandbox.pipes import sealed
from toolcaddie.sandbox.running import Ended, Pipes, Running, run_to_end
from toolcaddie.sandbox.usage import memory_below
from toolcaddie.util.log import Logger

log = Logger(__name__)

_STATUS_BYTES = 100
"""The largest number of bytes read of the supervisor's status, a line such as `exit 0`."""


class Plain:
    """A sandbox that protects nothing; `holds` is False."""

    name = "plain"
    holds = False

    def __init__(self, most: Most | None = None) -> None:
        """`most`: the most that any command may use."""
        if sys.platform != "linux" or not sys.executable:
            raise ConfigError("commands run on Linux only: elsewhere, the processes that they start might survive them")
        log.warning(
            "sandbox_protects_nothing",
            type=self.name,
            meaning="commands run with all permissions of this process",
            remedy='install bubblewrap and set type = "wall" in [sandbox]',
        )
        self._most = most or Most()
        self._running: set[Running] = set()

    async def run(self, command: Command) -> Outcome:
        return await run_to_end(await self.start(command))

    async def start(self, command: Command, on_output: OnOutput | None = None) -> Running:
        began = time.monotonic()
        command = allowed(command, self._most)
        place = _Place(command)
        try:
            processes, pipes = _started(command, place)
        except OSError as error:
            place.remove()
            raise SandboxError(f"{command.argv[0]} cannot be started: {error}") from error

        def ended() -> None:
            self._running.discard(running)

        running = Running(
            command, processes, pipes, began=began, folder=str(place.work), on_output=on_output, on_end=ended
        )
        self._running.add(running)
        return running

    async def facts(self) -> Sequence[SandboxFact]:
        return [
            SandboxFact(
                name="wall",
                holds=False,
                detail="this sandbox has no wall: commands read, write and reach all that this process can",
                remedy='set type = "wall" in [sandbox]',
            )
        ]

    async def close(self) -> None:
        await asyncio.gather(*(running.kill() for running in list(self._running)))


class _Place:
    """The folders of a command: its work folder, its files, and one for temporary files."""

    def __init__(self, command: Command) -> None:
        self._own = Path(tempfile.mkdtemp(prefix="toolcaddie-"))
        self.files, self.temporary = self._own / "files", self._own / "tmp"
        self.work = command.work or self._own / "work"
        for folder in (self.files, self.temporary, self.work):
            folder.mkdir(exist_ok=True)
        for name, content in command.files.items():
            path = self.files / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def remove(self) -> None:
        """Removes what is the command's own. The program is used because it removes folders of any depth."""
        subprocess.run(["rm", "-rf", "--", str(self._own)], check=False, capture_output=True)


class _Supervised:
    """The processes below a supervisor, the program that kills all of them."""

    def __init__(
        self, program: str, place: _Place, process: subprocess.Popen[bytes], control: int, status: int
    ) -> None:
        self._program = program
        self._place = place
        self._process = process
        self._control = control
        self._status = status
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(status, self._end)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        if self._control >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._control, b"k")

    def check(self, ended: Ended, stderr: bytes) -> None:
        """Does nothing: the supervisor says itself that a command cannot be started."""

    def used_memory(self) -> int:
        return memory_below(self.pid)

    async def ended(self) -> Ended:
        await self._closed
        status = os.read(self._status, _STATUS_BYTES)
        os.close(self._status)
        os.close(self._control)
        self._control = -1  # the number may soon belong to another file
        await asyncio.to_thread(self._process.wait)
        await asyncio.to_thread(self._place.remove)
        match status.split():
            case [b"exit", code]:
                return Ended(code=int(code) if int(code) >= 0 else 128 - int(code))
            case [b"exec", number, *_]:
                raise SandboxError(f"{self._program} cannot be started: {os.strerror(int(number))}")
            case _:
                raise SandboxError(f"{self._program}: its supervisor ended without reporting an exit code")

    def _end(self) -> None:
        """Notes that the status is complete. The supervisor writes it in one piece when everything else is dead."""
        asyncio.get_running_loop().remove_reader(self._status)
        self._closed.set_result(None)


def _started(command: Command, place: _Place) -> tuple[_Supervised, Pipes]:
    """Starts a command below a supervisor. Raises `OSError`."""
    paths = {"work": str(place.work), "files": str(place.files)}
    env = environment(command, path=_search_path(), temporary=str(place.temporary), **paths)
    with contextlib.ExitStack() as child, contextlib.ExitStack() as own:

        def pipe(*, child_reads: bool) -> tuple[int, int]:
            """Returns our end and the child's end of a pipe."""
            ends = os.pipe()
            ours, theirs = reversed(ends) if child_reads else ends
            own.callback(os.close, ours)
            child.callback(os.close, theirs)
            return ours, theirs

        control, their_control = pipe(child_reads=True)
        status, their_status = pipe(child_reads=False)
        stdout, their_stdout = pipe(child_reads=False)
        stderr, their_stderr = pipe(child_reads=False)
        if command.stdin is None:
            stdin, their_stdin = pipe(child_reads=True)
        else:
            stdin, their_stdin = None, sealed(command.stdin)
            child.callback(os.close, their_stdin)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(their_control), str(their_status)]
            + [translated(argument, **paths) for argument in command.argv],
            stdin=their_stdin,
            stdout=their_stdout,
            stderr=their_stderr,
            cwd=place.work / command.folder,
            env=env,
            pass_fds=(their_control, their_status),
            start_new_session=True,
        )
        _limit(process.pid, command.limits)
        own.pop_all()
    pipes = Pipes(stdin=stdin, stdout=stdout, stderr=stderr)
    return _Supervised(command.argv[0], place, process, control, status), pipes


def _search_path() -> str:
    """Returns the folders in which programs are searched: those of the running interpreter, then those of the system."""
    folders = [f"{sys.prefix}/bin", f"{sys.base_prefix}/bin", *SYSTEM_FOLDERS]
    return ":".join(dict.fromkeys(folders))


def _limit(pid: int, limits: SandboxLimits) -> None:
    """Limits a supervisor, which has yet to load, and so the command that it starts."""
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, 2 * limits.memory_bytes),  # a command that uses less is ended by the watch of its memory
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
    ):
        hard = resource.prlimit(pid, kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, kind, (most, most))


def plain(**most: Unpack[Most]) -> Plain:
    """Returns a sandbox that protects nothing. Its settings are the most that any command may use."""
    return Plain(most)
