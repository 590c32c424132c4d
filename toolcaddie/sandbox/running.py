"""A command that runs in a sandbox: its time, its pipes, what it may use, and its end. Both sandboxes use it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

from toolcaddie.core.errors import SandboxError
from toolcaddie.ports import Command, OnOutput, Outcome
from toolcaddie.sandbox.pipes import Input, Output
from toolcaddie.sandbox.usage import UNCOUNTABLE, disk_below, removed_below

Ending = Literal["exited", "timeout", "killed", "memory", "disk"]

_PIPE_SECONDS = 0.5
"""Seconds to wait for the end of the outputs after the end of the command. A process that a plain sandbox could not find may
hold them open."""
_MEMORY_SECONDS = 0.05
"""Seconds between two looks at the memory."""
_DISK_SECONDS = 0.2
"""Seconds between two looks at the work folder, or four times what a look takes, if that is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of the processes of a command."""

    code: int | None
    """Exit code, or 128 + the number of the signal that ended the command."""
    out_of_memory: bool = False
    """True if the kernel ended a process because the memory was used up."""


class Processes(Protocol):
    """All processes of a command."""

    @property
    def pid(self) -> int: ...

    async def ended(self) -> Ended:
        """Returns when all processes are dead. Raises `SandboxError` if the command could not be started or watched."""
        ...

    def check(self, ended: Ended, stderr: bytes) -> None:
        """Raises `SandboxError` if the command has never begun."""
        ...

    def kill(self) -> None:
        """Begins to kill all processes. It may be called at any time."""
        ...

    def used_memory(self) -> int | None:
        """Returns the bytes of memory that they use; called in a thread. None: the kernel limits them itself."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipes:
    """Descriptors of this process's ends of the pipes. `stdin` None: the command reads from elsewhere."""

    stdin: int | None
    stdout: int
    stderr: int


class Running:
    """A command that has been started. It ends by itself, or is killed for one of the reasons in `Outcome.ending`."""

    def __init__(
        self,
        command: Command,
        processes: Processes,
        pipes: Pipes,
        *,
        began: float,
        folder: str | None,
        on_output: OnOutput | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`began`: the moment of the monotonic clock from which on the time of the command counts. `folder`: the host's folder
        whose growth is limited; None: its size is limited otherwise. `on_end` is called when all processes are dead."""
        self._command = command
        self._processes = processes
        self._folder = folder
        self._on_end = on_end
        self._began = began
        self._ending: Ending | None = None
        self._input = None if pipes.stdin is None else Input(pipes.stdin)
        self._stdout = Output(pipes.stdout, command.output_bytes, on_output and partial(on_output, "stdout"))
        self._stderr = Output(pipes.stderr, command.output_bytes, on_output and partial(on_output, "stderr"))
        left = max(0.0, began + command.seconds - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(left, self.end, "timeout")
        self._watches = [asyncio.create_task(self._watch_memory()), asyncio.create_task(self._watch_disk())]
        self._outcome = asyncio.create_task(self._settle())
        self._outcome.add_done_callback(_retrieve)

    @property
    def pid(self) -> int:
        return self._processes.pid

    async def write(self, data: bytes) -> None:
        if self._input is None:
            raise SandboxError("the command reads a given input; start it with stdin=None to write to it")
        await self._input.write(data)

    async def kill(self) -> None:
        self.end("killed")
        await asyncio.wait({self._outcome})

    async def wait(self) -> Outcome:
        return await asyncio.shield(self._outcome)

    def end(self, ending: Ending) -> None:
        """Begins to kill the command, without waiting. The first reason counts."""
        if not self._outcome.done():
            self._ending = self._ending or ending
            self._processes.kill()

    async def _settle(self) -> Outcome:
        """Waits for the end, closes everything and returns the outcome."""
        try:
            ended = await self._ended()
            await asyncio.wait({self._stdout.closed, self._stderr.closed}, timeout=_PIPE_SECONDS)
        finally:
            seconds = time.monotonic() - self._began
            self._close()
        ending = "memory" if ended.out_of_memory else self._ending or "exited"
        if ending == "exited":
            self._processes.check(ended, self._stderr.data)
        return Outcome(
            exit_code=ended.code if ending == "exited" else None,
            stdout=self._stdout.data,
            stderr=self._stderr.data,
            stdout_bytes=self._stdout.size,
            stderr_bytes=self._stderr.size,
            ending=ending,
            seconds=seconds,
        )

    async def _ended(self) -> Ended:
        """Waits for the end. If this task is cancelled, because its event loop ends, the command ends too."""
        try:
            return await self._processes.ended()
        finally:
            self._processes.kill()

    def _close(self) -> None:
        self._timer.cancel()
        for watch in self._watches:
            watch.cancel()
        for pipe in (self._stdout, self._stderr, self._input):
            if pipe is not None:
                pipe.close()
        self._on_end()

    async def _watch_memory(self) -> None:
        """Ends the command if it uses more memory than it may, where the kernel does not."""
        limit = self._command.limits.memory_bytes
        while (used := await asyncio.to_thread(self._processes.used_memory)) is not None:
            if used > limit:
                self.end("memory")
            await asyncio.sleep(_MEMORY_SECONDS)

    async def _watch_disk(self) -> None:
        """Ends the command if its work folder has grown by more than it may."""
        if self._folder is None:
            return
        limits = self._command.limits
        # What cannot be counted now could grow unseen.
        most = await asyncio.to_thread(disk_below, self._folder) % UNCOUNTABLE + limits.disk_bytes
        while True:
            begun = time.monotonic()
            if await asyncio.to_thread(_disk, self._folder, self._processes.pid, most, limits.file_bytes) > most:
                self.end("disk")
            await asyncio.sleep(max(_DISK_SECONDS, 4 * (time.monotonic() - begun)))


def _disk(folder: str, pid: int, most: int, largest: int) -> int:
    return disk_below(folder, most) + (removed_below(pid, folder, largest) if pid else 0)


def _retrieve(outcome: asyncio.Task[Outcome]) -> None:
    """Takes a failure of a command that nobody waits for, which asyncio would report otherwise."""
    if not outcome.cancelled():
        outcome.exception()


async def run_to_end(running: Running) -> Outcome:
    """Returns the outcome. If the call is cancelled, the command is killed first."""
    try:
        return await running.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(SandboxError):
            await asyncio.shield(running.kill())
        raise
