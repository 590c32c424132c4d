"""Runs synchronous functions in threads, so that they do not block the event loop.

The threads are daemon threads of this module: one for each call in progress, and a few that wait for the next call. The thread
pools of `asyncio.to_thread` and anyio cannot be used. A function that hangs occupies a thread of the pool, so six such
functions in the one pool, or forty in the other, stop every other tool. The process also joins the threads of these pools when
it exits, so one function that hangs prevents the exit. A new thread for each call would avoid both and be simpler, but takes
76 us where a waiting thread takes 25 (CPython 3.11, two cores).
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

from toolcaddie.core.errors import RunTakenError, ToolcaddieError
from toolcaddie.core.fencing import Fence, take_fence

T = TypeVar("T")

MAX_ABANDONED = 32
"""Largest number of abandoned calls of one tool that still run. A tool that always hangs must not fill the process."""

Settle = Callable[[], None]
"""Announces the end of a job to the code that awaits it."""
Job = Callable[[], Settle]


class Workers:
    """Runs each job in a thread that runs no other job at the same time. At most `idle_threads` threads wait for jobs."""

    def __init__(self, *, idle_threads: int = 8) -> None:
        self._idle_threads = idle_threads
        self._idle: list[SimpleQueue[Job]] = []
        self._process = os.getpid()

    def start(self, job: Job) -> None:
        """Runs a job at once, in a waiting thread or a new one."""
        if self._process != os.getpid():  # after a fork the threads exist only in the parent process
            self._process, self._idle = os.getpid(), []
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="toolcaddie-tool", daemon=True).start()
        inbox.put(job)

    def _serve(self, inbox: SimpleQueue[Job]) -> None:
        """The life of one thread: runs the jobs in its inbox, and ends after a job if enough other threads wait."""
        while True:
            settle = inbox.get()()
            stays = len(self._idle) < self._idle_threads
            if stays:
                self._idle.append(inbox)  # before `settle`, so that the next call of the run finds this thread
            settle()
            del settle
            if not stays:
                return


_WORKERS = Workers()
"""The threads of the process, shared by all sources. Importing this module starts none."""


class TooManyHangingError(ToolcaddieError):
    """No further call of a function is started, because too many earlier ones have not returned."""


class NotStartedError(RunTakenError):
    """The function was not called, because this process may not act for the run any more. A function that itself begins a run may
    raise the more general error, and has been called."""


class Threads(Generic[T]):
    """Starts the calls of one function and counts the abandoned ones."""

    def __init__(self, workers: Workers = _WORKERS) -> None:
        self._workers = workers
        self._abandoned = 0

    async def run(self, function: Callable[[], T]) -> T:
        """Returns the function's result. A cancellation abandons the call: its thread continues, and nothing waits for it. Raises
        `NotStartedError` if this process may not act for the run any more."""
        if self._abandoned >= MAX_ABANDONED:
            raise TooManyHangingError(f"{self._abandoned} earlier calls of it timed out and are still running")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()
        fence = take_fence()
        context = contextvars.copy_context()

        def job() -> Settle:
            try:
                _pass(fence)
                outcome: tuple[T | None, BaseException | None] = (context.run(function), None)
            except BaseException as error:  # noqa: BLE001 - carried over and raised where the call is awaited
                outcome = (None, error)
            return lambda: self._announce(loop, done, outcome)

        self._workers.start(job)
        try:
            value, error = await done
        except asyncio.CancelledError:
            self._abandoned += done.cancelled()
            raise
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # None only where T allows it

    def _announce(
        self,
        loop: asyncio.AbstractEventLoop,
        done: asyncio.Future[tuple[T | None, BaseException | None]],
        outcome: tuple[T | None, BaseException | None],
    ) -> None:
        try:
            loop.call_soon_threadsafe(self._settle, done, outcome)
        except RuntimeError:  # the event loop has closed meanwhile, so nothing waits
            self._abandoned -= done.cancelled()

    def _settle(
        self,
        done: asyncio.Future[tuple[T | None, BaseException | None]],
        outcome: tuple[T | None, BaseException | None],
    ) -> None:
        if done.cancelled():
            self._abandoned -= 1
        else:
            done.set_result(outcome)


def _pass(fence: Fence | None) -> None:
    """Raises `NotStartedError` if the fence forbids the call."""
    try:
        if fence is not None:
            fence()
    except RunTakenError as error:
        raise NotStartedError(str(error)) from error
