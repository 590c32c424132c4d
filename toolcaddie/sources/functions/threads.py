"""Runs sync functions beside the event loop.

On daemon threads of our own, as many as there are calls under way; a few wait for the next call. The shared pools are no
alternative, whatever they cost: in `asyncio.to_thread`'s and anyio's a function that hangs keeps its worker, so six of them
(or forty) stop every other tool, and their threads are joined at exit, so one of them keeps the process from ending. A fresh
thread for each call has neither fault and is simplest, but takes 76 us where a waiting one takes 25 (CPython 3.11, two cores).
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

from toolcaddie.core.errors import ToolcaddieError

T = TypeVar("T")

MAX_ABANDONED = 32
"""Abandoned calls of one tool that may still run; a tool that hangs every time must not fill the process."""

Settle = Callable[[], None]
Job = Callable[[], Settle]


class Workers:
    """Starts jobs, each on a thread of its own meanwhile. A job returns a function that announces its end."""

    def __init__(self, *, idle_threads: int = 8) -> None:
        self._idle_threads = idle_threads
        self._idle: list[SimpleQueue[Job]] = []
        self._process = os.getpid()

    def start(self, job: Job) -> None:
        if self._process != os.getpid():  # forked: the threads stayed behind
            self._process, self._idle = os.getpid(), []
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="toolcaddie-tool", daemon=True).start()
        inbox.put(job)

    def _serve(self, inbox: SimpleQueue[Job]) -> None:
        while True:
            settle = inbox.get()()
            stays = len(self._idle) < self._idle_threads
            if stays:
                self._idle.append(inbox)  # before it is announced, so that the next call of a run finds this thread
            settle()
            del settle
            if not stays:
                return


_WORKERS = Workers()
"""Threads belong to the process: one set serves all sources. Importing starts none."""


class TooManyHangingError(ToolcaddieError):
    """So many earlier calls of this function never returned that no further one is started."""


class Threads(Generic[T]):
    """Starts the calls of one function and counts the abandoned ones."""

    def __init__(self, workers: Workers = _WORKERS) -> None:
        self._workers = workers
        self._abandoned = 0

    async def run(self, function: Callable[[], T]) -> T:
        """Returns the function's result. A cancellation abandons the call: its thread runs on, and no one waits for it."""
        if self._abandoned >= MAX_ABANDONED:
            raise TooManyHangingError(f"{self._abandoned} earlier calls of it timed out and are still running")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> Settle:
            try:
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
        except RuntimeError:  # the loop has closed meanwhile, so no one waits
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
