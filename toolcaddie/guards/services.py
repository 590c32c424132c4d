"""Starts a program that runs until it is stopped and talks over its pipes, such as an MCP server. On Linux it runs under the
supervisor of `processes`, so all its descendants end with it, also if this process is killed. Elsewhere only its process group
is killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_CLEANING_SECONDS = 6.0
"""Seconds to wait for the end after a kill. The supervisor itself ends after five at the latest."""
_SHOWN_ERRORS = 2_000
"""The largest number of bytes of stderr that are stored, the last ones."""


class Service:
    """A running program. Make one with `start`."""

    def __init__(self, process: asyncio.subprocess.Process, control: int) -> None:
        self._process = process
        self._control = control
        self._errors = bytearray()
        self._reader = asyncio.create_task(self._read_errors())

    @property
    def pid(self) -> int:
        """The number of the process that was started: the supervisor on Linux."""
        return self._process.pid

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def last_words(self) -> str:
        """The end of what the program wrote to stderr."""
        return self._errors.decode(errors="replace").strip()

    async def stop(self, patience: float) -> None:
        """Closes stdin, waits up to `patience` seconds, and kills the program and its descendants. Safe to call again."""
        try:
            self.stdin.close()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._process.wait(), patience)
        finally:
            self._kill()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._process.wait(), _CLEANING_SECONDS)
            self._reader.cancel()
            # A descendant of another user may hold the pipes open; without this, they would stay open here too.
            transport = getattr(self._process, "_transport", None)
            if transport is not None:
                transport.close()

    def _kill(self) -> None:
        if self._control >= 0:
            with contextlib.suppress(OSError):
                os.write(self._control, b"k")
            os.close(self._control)
            self._control = -1
        elif sys.platform != "linux" and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                _kill_group(self._process.pid)

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(65_536):
            self._errors += chunk
            del self._errors[:-_SHOWN_ERRORS]


async def start(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | os.PathLike[str] | None = None, line_limit: int
) -> Service:
    """Starts a program without a shell. `env` is its whole environment; `line_limit`: the largest number of bytes of a line
    that `stdout.readline` returns. Raises `OSError` if it cannot be started."""
    if sys.platform != "linux" or not sys.executable:
        return Service(await _spawned(argv, env, cwd, line_limit), -1)
    _check_command(argv[0], env, cwd)
    control_reader, control = os.pipe()
    status = os.open(os.devnull, os.O_WRONLY)
    os.set_inheritable(control_reader, True)
    command = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(control_reader), str(status), *argv]
    try:
        process = await _spawned(command, env, cwd, line_limit, passed=(control_reader, status))
    except BaseException:
        os.close(control)
        raise
    finally:
        os.close(control_reader)
        os.close(status)
    return Service(process, control)


async def _spawned(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
    line_limit: int,
    passed: tuple[int, ...] = (),
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
        env=dict(env),
        limit=line_limit,
        start_new_session=True,
        pass_fds=passed,
    )


def _check_command(name: str, env: Mapping[str, str], cwd: str | os.PathLike[str] | None) -> None:
    """Raises `FileNotFoundError` or `PermissionError` for a command that does not exist or cannot run. The supervisor would find
    this out too, but has no way to report it here."""
    folders = [""] if os.sep in name else env.get("PATH", os.defpath).split(os.pathsep)
    candidates = [Path(cwd or ".", folder, name) for folder in folders]
    files = [path for path in candidates if path.is_file()]
    if not files:
        raise FileNotFoundError(2, "there is no such command", name)
    if not any(os.access(path, os.X_OK) for path in files):
        raise PermissionError(13, "the file is not executable", name)


def _kill_group(pid: int) -> None:
    if sys.platform == "win32":
        os.kill(pid, signal.SIGTERM)
    else:
        os.killpg(pid, signal.SIGKILL)
