"""Runs commands and kills all their descendants when they end or are cancelled.

Each command runs under a small program (`supervisor.py`) that none of its descendants can escape. The program kills them all if
our own process dies. Linux only. This is cleanup, not a sandbox: a malicious command can kill its supervisor, which runs as the
same user.
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
"""Default for the bytes read of stdout and of stderr."""

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_CLEANING_SECONDS = 6.0
"""Seconds to wait for the supervisor, which gives up after five."""

_PIPE_SECONDS = 1.0
_STATUS_BYTES = 100
_CHUNK = 65_536

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A finished command. `code` is its exit code; below 0: the signal that ended it."""

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
    """Runs a command without a shell and waits for it. Cancelling kills it and its descendants, then raises.

    Processes it leaves in the background are killed when it ends. `env` None: only the language, home and path of this
    process, because its environment is full of keys. The first `max_output` bytes of stdout and of stderr are returned.

    Raises `OSError` if the command cannot be started, and `ConfigError` on systems other than Linux.
    """
    command = _Command(argv, stdin=stdin, cwd=cwd, env=_environment() if env is None else env)
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
    """Runs a command as `run` does, in a thread without an event loop, such as that of a tool that is a plain function.

    A thread cannot be cancelled; a cancelled call kills its commands through `commands_ended`, and then this returns.
    """
    return asyncio.run(run(argv, stdin=stdin, cwd=cwd, env=env, max_output=max_output))


@contextlib.contextmanager
def commands_ended() -> Iterator[None]:
    """When the `with` block ends, kills the commands that it or its threads started and that are still running.

    A command that a remaining thread starts later is killed at once.
    """
    commands = _Commands()
    token = _ENCLOSING.set((*_ENCLOSING.get(), commands))
    try:
        yield
    finally:
        _ENCLOSING.reset(token)
        commands.end()


class _Commands:
    """The commands of one call. Safe to use from several threads."""

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
"""The enclosing calls: a tool may run an agent. Inherited by tasks and, through `functions`, by their threads."""


@contextlib.contextmanager
def _registered(command: _Command) -> Iterator[None]:
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
            raise ConfigError("commands can be run on Linux only: elsewhere what they start cannot be ended with them")
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
            # A file in memory instead of a pipe: it need not be fed, and a command that never reads it blocks nothing.
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
                # The byte as well: another library's fork of this process may hold the pipe open.
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
            # A descendant of another user, which we may not kill, can keep them open.
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
        match status.split():
            case [b"exit", code]:
                return int(code)
            case [b"exec", number, *_]:
                raise OSError(int(number), os.strerror(int(number)), self._name)
            case _:
                raise OSError(f"{self._name} cannot be supervised: its supervisor ended without a word")


class _Reader:
    """Reads a pipe to its end but stores only the beginning: a full pipe would block the writer."""

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


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
