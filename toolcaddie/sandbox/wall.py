"""Runs commands behind a wall: bubblewrap with namespaces of its own, a filter of system calls, and limits.

The wall is the kernel's: it does not depend on what a command is or says. The modules of this room: `view` says what a command
sees, `filter` which system calls it may use, `warden` starts it, and `running` watches it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from toolcaddie.core.errors import ConfigError, SandboxError
from toolcaddie.ports import Command, OnOutput, Outcome, SandboxFact
from toolcaddie.sandbox.blank import Blank, BlankPlace
from toolcaddie.sandbox.channel import Channel, Line
from toolcaddie.sandbox.checks import looked_at
from toolcaddie.sandbox.commands import Most, allowed
from toolcaddie.sandbox.egress import Dial, Proxy, public_connection
from toolcaddie.sandbox.masks import Mask, check_covered, masks
from toolcaddie.sandbox.pipes import sealed
from toolcaddie.sandbox.running import Ended, Pipes, Running, run_to_end
from toolcaddie.sandbox.usage import memory_below
from toolcaddie.sandbox.view import arguments

_NAMES = itertools.count(1)
_PIECE = 65_536
_PRLIMIT = "/usr/bin/prlimit"
_CALM_SECONDS = 0.25
"""After this time a command computes with a lower priority: most have ended, and others are not to slow the server down."""
_FIRST_PRIORITY = -15
_COMPLAINTS = (b"bwrap: ", b"prlimit: ")
"""How the programs that start the command begin an error."""


class Wall:
    """A sandbox that holds: a command reaches nothing but what it is given."""

    name = "wall"
    holds = True

    def __init__(self, *, uid: int = 65532, most: Most | None = None, dial: Dial = public_connection) -> None:
        """`uid`: the user of commands if this process runs as root; `most`: the most that any command may use.
        `dial` opens the connections of commands with `egress`.

        Raises `ConfigError` on a machine that cannot hold a wall.
        """
        self._uid = uid if os.geteuid() == 0 else os.geteuid()
        self._program = _bubblewrap(self._uid)
        self._channel = Channel()
        self._dial = dial
        self._most = most or Most()
        self._running: set[Running] = set()

    async def run(self, command: Command) -> Outcome:
        return await run_to_end(await self.start(command))

    async def start(self, command: Command, on_output: OnOutput | None = None) -> Running:
        began = (
            time.monotonic()
        )  # a command that waits for its start, because many start, does not take longer than others
        command = allowed(command, self._most)
        processes, pipes = await self._send(command)
        folder = None if command.work is None or not command.writable else str(command.work)

        def ended() -> None:
            self._running.discard(running)

        running = Running(command, processes, pipes, began=began, folder=folder, on_output=on_output, on_end=ended)
        self._running.add(running)
        try:
            await processes.begun()
        except asyncio.CancelledError:
            running.end("killed")
            raise
        return running

    async def facts(self) -> Sequence[SandboxFact]:
        made = SandboxFact(name="bubblewrap", holds=True, detail=f"{self._program} can make namespaces")
        return [made, *await looked_at(self)]

    async def close(self) -> None:
        await asyncio.gather(*(running.kill() for running in list(self._running)))
        self._channel.close()

    @cached_property
    def _blank(self) -> Blank:
        """An empty file and an empty folder, which exist as long as this sandbox."""
        self._blank_place = BlankPlace()
        return self._blank_place.blank

    async def _send(self, command: Command) -> tuple[_Walled, Pipes]:
        """Asks the warden to start a command."""
        name = f"{next(_NAMES)}"
        covered = await asyncio.to_thread(masks, command)
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:

            def pipe(*, child_reads: bool) -> tuple[int, int]:
                """Returns our end and the other end of a pipe."""
                ends = os.pipe()
                mine, other = reversed(ends) if child_reads else ends
                ours.callback(os.close, mine)
                theirs.callback(os.close, other)
                return mine, other

            def file(data: bytes) -> int:
                descriptor = sealed(data)
                theirs.callback(os.close, descriptor)
                return descriptor

            stdin, their_stdin = pipe(child_reads=True) if command.stdin is None else (None, file(command.stdin))
            stdout, their_stdout = pipe(child_reads=False)
            stderr, their_stderr = pipe(child_reads=False)
            report, their_report = pipe(child_reads=False)
            go, their_go = pipe(child_reads=True)
            request = file(self._request(command, covered))
            await self._channel.send(
                f"run {name}", [request, their_stdin, their_stdout, their_stderr, their_report, their_go]
            )
            ours.pop_all()
        proxy = None if command.egress is None else Proxy(command.egress.hosts, self._dial)
        line = Line(self._channel, name)
        walled = _Walled(command, report, go, line, proxy, _Cover(command.work, covered, self._blank))
        return walled, Pipes(stdin=stdin, stdout=stdout, stderr=stderr)

    def _request(self, command: Command, covered: Sequence[Mask]) -> bytes:
        seen, contents = arguments(command, covered, uid=self._uid, blank=self._blank)
        values = {
            "program": self._program,
            "arguments": seen,
            "command": _limited(command),
            "limits": {"memory": command.limits.memory_bytes, "processes": command.limits.processes},
            "uid": self._uid,
            "only_reads": command.work is not None and not command.writable,
        }
        return json.dumps(values).encode() + b"\n" + contents


@dataclass(frozen=True, slots=True)
class _Cover:
    """What is covered in the work folder of a command."""

    work: Path | None
    masks: Sequence[Mask]
    blank: Blank

    async def check(self, pid: int, is_over: Callable[[], bool]) -> None:
        """Returns when a process sees it covered. Raises `SandboxError`."""
        if self.work is not None and self.masks:
            await asyncio.to_thread(check_covered, self.masks, self.work, self.blank, pid, is_over)


class _Walled:
    """The processes of a command behind the wall, as the warden and bubblewrap report them."""

    def __init__(self, command: Command, report: int, go: int, line: Line, proxy: Proxy | None, cover: _Cover) -> None:
        self._command = command
        self._cover = cover
        self._report = report
        self._go = go
        self._line = line
        self._proxy = proxy
        self._opening: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[None] = self._loop.create_future()
        self._reported: asyncio.Future[None] = self._loop.create_future()
        self._dead: asyncio.Future[None] | None = None
        self._first = -1
        self._rest = b""
        self._end: Ended | None = None
        self._error = ""
        self._memory_limited = False
        self._calm: asyncio.TimerHandle | None = None
        self._killed = False
        self.pid = 0
        os.set_blocking(report, False)
        self._loop.add_reader(report, self._more)

    async def begun(self) -> None:
        """Returns when the command has been released, or could not be."""
        await self._begun

    async def ended(self) -> Ended:
        try:
            await self._reported
            self._kill_first()  # daemons, which the command has left, and everything if the warden has died
            if self._dead is not None:
                await self._dead
            if self._opening is not None:
                await asyncio.wait({self._opening})
        finally:
            self._close()
        if self._error:
            raise SandboxError(f"{self._command.argv[0]} cannot be started: {self._error}")
        if self._end is None:
            raise SandboxError(f"{self._command.argv[0]} was ended, because the program that starts commands has died")
        return self._end

    def _close(self) -> None:
        """Closes what belongs to the command; one that is alive, because the event loop ends, is killed before."""
        self.kill()
        if self._calm is not None:
            self._calm.cancel()
        if self._proxy is not None:
            self._proxy.close()
        for descriptor in (self._report, self._first):
            if descriptor >= 0:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)
        os.close(self._go)
        self._report = self._first = -1

    def check(self, ended: Ended, stderr: bytes) -> None:
        complaint = stderr.rpartition(b"prlimit: failed to execute ")[2] or stderr
        if ended.code in (1, 126, 127) and stderr.startswith(_COMPLAINTS):
            raise SandboxError(f"{complaint.decode(errors='replace').strip()}: the command cannot be started")

    def kill(self) -> None:
        self._killed = True
        self._line.order("kill")
        self._kill_first()

    def used_memory(self) -> int | None:
        if self._memory_limited or not self.pid:
            return None if self._memory_limited else 0
        return memory_below(self.pid)

    def _kill_first(self) -> None:
        """Kills the first process of the command's process namespace, and with it all others."""
        if self._first >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)

    def _more(self) -> None:
        """Reads reports; at their end everything is decided."""
        try:
            piece = os.read(self._report, _PIECE)
        except BlockingIOError:
            return
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            with contextlib.suppress(
                json.JSONDecodeError
            ):  # empty, or cut off, because bubblewrap was killed while it wrote
                self._take(json.loads(line))
        if not piece or self._end is not None:
            self._loop.remove_reader(self._report)
            for each in (self._reported, self._begun):
                if not each.done():
                    each.set_result(None)

    def _take(self, values: Mapping[str, Any]) -> None:
        match values:
            case {"child-pid": int(pid)}:
                self._release(pid)
            case {"error": str(error)}:
                self._error = error
            case {"memory_limited": bool(limited)}:
                self._memory_limited = limited
            case {"exit-code": int(code)} if code < 128:
                self._end = Ended(code=code)  # a moment earlier than the warden: bubblewrap takes milliseconds to go
            case {"ended": int(code), "oom": bool(used_up)}:
                self._end = Ended(code=code if code >= 0 else 128 - code, out_of_memory=used_up)

    def _release(self, pid: int) -> None:
        """Limits the first process, which waits, and lets it begin."""
        try:
            self._first, self.pid = os.pidfd_open(pid), pid
        except ProcessLookupError:  # it is dead already, and the end will say why
            return
        self._dead = self._loop.create_future()
        self._loop.add_reader(self._first, self._die)
        self._calm = self._loop.call_later(_CALM_SECONDS, self._calm_down)
        if self._proxy is None and not self._cover.masks:
            self._go_on()
        else:
            self._opening = self._loop.create_task(self._prepare(self._dead))

    def _calm_down(self) -> None:
        """Lowers the priority of the command, and raises that of its first process, which does nothing until it must end all."""
        self._line.order("calm")
        with contextlib.suppress(OSError):  # only root may
            os.setpriority(os.PRIO_PROCESS, self.pid, _FIRST_PRIORITY)

    async def _prepare(self, dead: asyncio.Future[None]) -> None:
        """Lets the command begin when all that it must not see is covered, and the proxy listens in its network."""
        try:
            await self._cover.check(self.pid, dead.done)
            if self._proxy is not None:
                self._proxy.open(await self._line.listener(self.pid))
        except (OSError, SandboxError) as error:
            self._error = str(error)
            self.kill()
        self._go_on()

    def _go_on(self) -> None:
        """Lets the first process begin, or end if the command has been killed meanwhile."""
        if self._killed:
            self._kill_first()
        else:
            with contextlib.suppress(BrokenPipeError):  # it has died already, and its end will say why
                os.write(self._go, b".")
        if not self._begun.done():
            self._begun.set_result(None)

    def _die(self) -> None:
        self._loop.remove_reader(self._first)
        if self._dead is not None:
            self._dead.set_result(None)


def _limited(command: Command) -> list[str]:
    """Returns the command below a program of the system that sets its limits. The number of processes must be limited inside of
    the wall: outside, it would count all processes of the user."""
    limits = command.limits
    most = {
        "core": (resource.RLIMIT_CORE, 0),
        "data": (resource.RLIMIT_DATA, 2 * limits.memory_bytes),  # the whole command is ended when it uses half of it
        "fsize": (resource.RLIMIT_FSIZE, limits.file_bytes),
        "msgqueue": (resource.RLIMIT_MSGQUEUE, 0),
        "nofile": (resource.RLIMIT_NOFILE, limits.open_files),
        "nproc": (resource.RLIMIT_NPROC, limits.processes + 1),  # bubblewrap's own process
    }
    values = {name: _least(value, resource.getrlimit(kind)[1]) for name, (kind, value) in most.items()}
    return [_PRLIMIT, *(f"--{name}={value}" for name, value in values.items()), "--", *command.argv]


def _least(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _bubblewrap(uid: int) -> str:
    """Returns the path of bubblewrap. Raises `ConfigError` on a machine that cannot have a wall."""
    if sys.platform != "linux" or not sys.executable:
        raise ConfigError(f"the wall around commands needs Linux, and this is {platform.system()}; use Linux{_INSTEAD}")
    program = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    if program is None:
        raise ConfigError(f"the wall around commands needs bubblewrap; install it: apt install bubblewrap{_INSTEAD}")
    if not os.path.exists(_PRLIMIT):
        raise ConfigError(f"the wall around commands needs {_PRLIMIT}; install it: apt install util-linux{_INSTEAD}")
    _try(program, uid)
    return program


def _try(program: str, uid: int) -> None:
    """Starts bubblewrap once. Raises `ConfigError` if it cannot make namespaces on this machine."""
    drop: dict[str, Any] = {} if os.geteuid() else {"user": uid, "group": uid, "extra_groups": []}
    command = [
        program,
        "--unshare-all",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        _PRLIMIT,
        "--version",
    ]
    result = subprocess.run(command, capture_output=True, text=True, cwd="/", env={}, check=False, timeout=10, **drop)
    if result.returncode != 0:
        raise ConfigError(
            f"bubblewrap cannot build the wall around commands on this machine: {result.stderr.strip()}; allow user "
            "namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0 or an "
            f"AppArmor profile for bwrap; in Docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined)"
            f"{_INSTEAD}"
        )


_INSTEAD = ', or set type = "plain" in [sandbox] to run commands without protection'
