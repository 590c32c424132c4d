"""Runs commands and kills all their descendants when they end or are cancelled.

Each command runs under a supervisor, a small program (`supervisor.py`) that finds all descendants of the command. It kills them
when the command ends, and also if the process of Toolcaddie dies. This works on Linux only. It is cleanup, not a sandbox: a
malicious command can kill its supervisor, which runs as the same user.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from toolcaddie.core.errors import ConfigError

MAX_OUTPUT = 1_000_000
"""Default of the largest number of bytes that is returned of stdout, and of stderr."""

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_CLEANING_SECONDS = 6.0
"""Seconds to wait for the supervisor after a kill. The supervisor itself ends after five at the latest."""

_PIPE_SECONDS = 1.0
"""Seconds to wait for the end of stdout and stderr after the end of the command."""
_STATUS_BYTES = 100
"""The largest number of bytes read of the supervisor's status, a line such as `exit 0`."""
_CHUNK = 65_536
"""The largest number of bytes read from a pipe at once."""

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""Environment variables that a command gets by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A finished command. `code` is its exit code; -9 means that signal 9 ended it."""

    code: int
    stdout: bytes
    stderr: bytes
    cut: bool = False
    """True if the output exceeded the limit."""


async def run(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    max_output: int = MAX_OUTPUT,
) -> Completed:
    """Runs a command without a shell and waits for it. If the call is cancelled, the command and its descendants are killed.

    Processes that the command leaves in the background are killed when it ends. `env` None: the command gets only a few variables
    of this process (path, home, language), because the others may contain keys. The first `max_output` bytes of stdout and of
    stderr are returned.

    Raises `OSError` if the command cannot be started, and `ConfigError` on systems other than Linux.
    """
    command = _Command(argv, stdin=stdin, cwd=cwd, env=filtered_environment() if env is None else env)
    with _registered(command):
        return await command.completed(max_output)


def run_blocking(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    max_output: int = MAX_OUTPUT,
) -> Completed:
    """Runs a command as `run` does, in a thread without an event loop, such as the thread of a tool that is a plain function.

    A thread cannot be cancelled. If the call of the tool is cancelled, `commands_ended` kills the command, and this function
    returns.
    """
    return asyncio.run(run(argv, stdin=stdin, cwd=cwd, env=env, max_output=max_output))


@contextlib.contextmanager
def commands_ended() -> Iterator[None]:
    """At the end of the `with` block, kills the commands that were started in it, also in its threads, and are still running.

    A command that one of these threads starts later is killed at once. Calls of tools run in such a block.
    """
    commands = _Commands()
    token = _ENCLOSING.set((*_ENCLOSING.get(), commands))
    try:
        yield
    finally:
        _ENCLOSING.reset(token)
        commands.end()


class _Commands:
    """The commands that were started in one `commands_ended` block. It may be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[_Command] = set()
        self._ended = False

    def add(self, command: _Command) -> None:
        with self._lock:
            self._running.add(command)
            ended = self._ended
        if ended:
            command.kill()

    def remove(self, command: _Command) -> None:
        with self._lock:
            self._running.discard(command)

    def end(self) -> None:
        with self._lock:
            self._ended = True
            running = list(self._running)
        for command in running:
            command.kill()


_ENCLOSING: ContextVar[tuple[_Commands, ...]] = ContextVar("toolcaddie_commands", default=())
"""The `commands_ended` blocks around the running code. There may be several, because a tool may run an agent that calls other
tools. Tasks inherit the value; threads get it from `functions`, which runs tools that are plain functions."""


@contextlib.contextmanager
def _registered(command: _Command) -> Iterator[None]:
    """During the `with` block, the command belongs to all enclosing `commands_ended` blocks."""
    enclosing = _ENCLOSING.get()
    for commands in enclosing:
        commands.add(command)
    try:
        yield
    finally:
        for commands in enclosing:
            commands.remove(command)


class _Command:
    """A command below its supervisor, started on construction."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str],
    ) -> None:
        if sys.platform != "linux" or not sys.executable:
            raise ConfigError(
                "commands can be run on Linux only: elsewhere, the processes that they start might survive them"
            )
        if not argv:
            raise ValueError("the command is empty")
        self._name = argv[0]
        self._closing = threading.Lock()
        with contextlib.ExitStack() as child_files, contextlib.ExitStack() as own_files:
            control, self._control = os.pipe()
            child_files.callback(os.close, control)
            own_files.callback(os.close, self._control)
            status, status_writer = os.pipe()
            self._status = own_files.enter_context(open(status, "rb", buffering=0))
            child_files.callback(os.close, status_writer)
            # A file in memory instead of a pipe: a command that never reads it blocks nothing.
            input_file = child_files.enter_context(open(os.memfd_create("stdin"), "wb"))
            input_file.write(stdin)
            input_file.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR), str(control), str(status_writer), *argv],
                stdin=input_file,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=env,
                pass_fds=(control, status_writer),
                start_new_session=True,
            )
            own_files.pop_all()

    def kill(self) -> None:
        """Asks the supervisor to kill the command, without waiting. Callable from any thread, any number of times."""
        with self._closing:
            if self._control >= 0:
                # A process that another library has forked may hold the pipe open, so closing it is not enough.
                with contextlib.suppress(BrokenPipeError):
                    os.write(self._control, b"k")
                os.close(self._control)
                self._control = -1

    async def completed(self, max_output: int) -> Completed:
        """Waits for the end of the command, and kills it if the wait is interrupted."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        status = _Reader(self._status, _STATUS_BYTES)
        stdout, stderr = _Reader(self._process.stdout, max_output), _Reader(self._process.stderr, max_output)
        try:
            await asyncio.wait({status.closed})
            # A descendant that runs as another user cannot be killed, and can keep these pipes open.
            await asyncio.wait({stdout.closed, stderr.closed}, timeout=_PIPE_SECONDS)
        finally:
            self.kill()
            try:
                await asyncio.wait({status.closed}, timeout=_CLEANING_SECONDS)
            finally:
                for reader in (status, stdout, stderr):
                    reader.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    # The supervisor ends microseconds after its status.
                    self._process.wait(_PIPE_SECONDS if status.data else 0)
        return Completed(
            code=self._code(bytes(status.data)),
            stdout=bytes(stdout.data),
            stderr=bytes(stderr.data),
            cut=stdout.cut or stderr.cut,
        )

    def _code(self, status: bytes) -> int:
        """Returns the exit code that the supervisor reported. Raises `OSError` if the command could not be started."""
        match status.split():
            case [b"exit", code]:
                return int(code)
            case [b"exec", number, *_]:
                raise OSError(int(number), os.strerror(int(number)), self._name)
            case _:
                raise OSError(f"{self._name} cannot be supervised: its supervisor ended without reporting an exit code")


class _Reader:
    """Reads a pipe to its end, because a full pipe would block the writer, but stores only the first `limit` bytes. `closed` is
    done when the pipe is closed; `cut` is True if bytes were not stored."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file = file
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.data = bytearray()
        self.cut = False
        os.set_blocking(file.fileno(), False)
        self._loop.add_reader(file.fileno(), self._more)

    def close(self) -> None:
        if not self._file.closed:
            self._loop.remove_reader(self._file.fileno())
            self._file.close()
            self.closed.set_result(None)

    def _more(self) -> None:
        """Reads the bytes that have arrived; closes the pipe at its end."""
        try:
            chunk = os.read(self._file.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self.close()
            return
        room = self._limit - len(self.data)
        self.data += chunk[:room]
        self.cut = self.cut or len(chunk) > room


def filtered_environment() -> dict[str, str]:
    """Returns the few harmless variables of this process that a command gets."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
