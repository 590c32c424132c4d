"""Commands that leave nothing behind: when a command ends or is given up, all it has started is killed with it.

Each runs below a small program (`supervisor.py`) that no descendant can slip away from, and that kills them too when our own
process dies. Linux only. This is housekeeping, no wall: a command that means harm can kill its supervisor, which is of the same
user.
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
"""Bytes of stdout, and of stderr, that are kept unless a caller says otherwise."""

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_CLEANING_SECONDS = 6.0
"""The supervisor gives up after five."""

_PIPE_SECONDS = 1.0
_STATUS_BYTES = 100
_CHUNK = 65_536

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command that has ended. `code` is its exit code; below 0: the signal that ended it."""

    code: int
    stdout: bytes
    stderr: bytes
    cut: bool = False
    """There was more output than was kept."""


async def run(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    max_output: int = MAX_OUTPUT,
) -> Completed:
    """Run a command, no shell, and wait for it. Cancelling kills it and whatever it started before the cancellation goes on.

    What it leaves running in the background is killed when it ends. `env` None: the language, home and path of this process
    and no more, because its environment is full of keys. Of stdout and stderr the first `max_output` bytes each are kept.

    Raises OSError where the command cannot be started, and `ConfigError` where this is not Linux.
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
    """`run` for a thread without an event loop, such as that of a tool that is a plain function.

    Nobody can cancel a thread; a call that is given up kills its commands through `commands_ended`, and this returns.
    """
    return asyncio.run(run(argv, stdin=stdin, cwd=cwd, env=env, max_output=max_output))


@contextlib.contextmanager
def commands_ended() -> Iterator[None]:
    """Around a call: whatever command was started inside and still runs at the end is killed, the threads' too.

    A thread that goes on after that can start no further one: it is killed at once.
    """
    commands = _Commands()
    token = _AROUND.set((*_AROUND.get(), commands))
    try:
        yield
    finally:
        _AROUND.reset(token)
        commands.end()


class _Commands:
    """The processes of one call. Threads come and go here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[_Command] = set()
        self._over = False

    def add(self, command: _Command) -> None:
        with self._lock:
            self._running.add(command)
            over = self._over
        if over:
            command.kill()

    def remove(self, command: _Command) -> None:
        with self._lock:
            self._running.discard(command)

    def end(self) -> None:
        with self._lock:
            self._over = True
            running = list(self._running)
        for command in running:
            command.kill()


_AROUND: ContextVar[tuple[_Commands, ...]] = ContextVar("toolcaddie_commands", default=())
"""The calls this one is inside of: a tool may run an agent. Carried into tasks and, by `functions`, into their threads."""


@contextlib.contextmanager
def _registered(command: _Command) -> Iterator[None]:
    around = _AROUND.get()
    for commands in around:
        commands.add(command)
    try:
        yield
    finally:
        for commands in around:
            commands.remove(command)


class _Command:
    """A command below its supervisor. Started when made."""

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
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            control, self._control = os.pipe()
            theirs.callback(os.close, control)
            ours.callback(os.close, self._control)
            status, told = os.pipe()
            self._status = ours.enter_context(open(status, "rb", buffering=0))
            theirs.callback(os.close, told)
            # A file in memory instead of a pipe: nobody has to feed it, and a command that never reads blocks nothing.
            given = theirs.enter_context(open(os.memfd_create("stdin"), "wb"))
            given.write(stdin)
            given.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR), str(control), str(told), *argv],
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=env,
                pass_fds=(control, told),
                start_new_session=True,
            )
            ours.pop_all()

    def kill(self) -> None:
        """From any thread, any number of times. The supervisor does it; nobody waits here."""
        with self._closing:
            if self._control >= 0:
                # The byte as well: a fork of this process made by others may hold the pipe open.
                with contextlib.suppress(BrokenPipeError):
                    os.write(self._control, b"k")
                os.close(self._control)
                self._control = -1

    async def completed(self, max_output: int) -> Completed:
        """Wait for its end. Whatever interrupts this, the command is killed."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        status = _Reader(self._status, _STATUS_BYTES)
        stdout, stderr = _Reader(self._process.stdout, max_output), _Reader(self._process.stderr, max_output)
        try:
            await asyncio.wait({status.closed})
            # One of another user, which we may not kill, can keep them open.
            await asyncio.wait({stdout.closed, stderr.closed}, timeout=_PIPE_SECONDS)
        finally:
            self.kill()
            try:
                await asyncio.wait({status.closed}, timeout=_CLEANING_SECONDS)
            finally:
                for reader in (status, stdout, stderr):
                    reader.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_PIPE_SECONDS if status.kept else 0)  # it has said its last word: microseconds
        return Completed(
            code=self._code(bytes(status.kept)),
            stdout=bytes(stdout.kept),
            stderr=bytes(stderr.kept),
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
    """Reads a pipe to its end, keeps the beginning, and lets the rest go by: a full pipe would stop who writes."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file = file
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.kept = bytearray()
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
            data = os.read(self._file.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        room = self._limit - len(self.kept)
        self.kept += data[:room]
        self.cut = self.cut or len(data) > room


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
