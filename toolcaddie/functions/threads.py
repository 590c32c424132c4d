"""Running a sync function beside the event loop.

One daemon thread a call. Measured (CPython 3.11, two cores): 71 us a call, against 48 for a pool of daemon threads of our
own, 65 for `asyncio.to_thread` and 81 for anyio's. The two shared pools are out whatever they cost: a function that hangs
keeps its worker, so six of them (or forty) stop every other tool, and their threads are joined at exit, so one of them
keeps the process from ending. A pool of our own would save some 20 us, less than any tool worth a thread takes, for the
bookkeeping of idle workers.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from toolcaddie.errors import ToolcaddieError

T = TypeVar("T")

MAX_ABANDONED = 32
"""Calls of one tool that were given up and still run; a tool that hangs every time must not fill the process."""


class TooManyHangingError(ToolcaddieError):
    """So many earlier calls of this function never came back that no further one is started."""


class Threads(Generic[T]):
    """Starts the calls of one function and counts those that were given up."""

    def __init__(self) -> None:
        self._abandoned = 0

    async def run(self, function: Callable[[], T]) -> T:
        """The function's result. Cancelling gives the call up: the thread runs on, and nobody waits for it."""
        if self._abandoned >= MAX_ABANDONED:
            raise TooManyHangingError(f"{self._abandoned} earlier calls of it timed out and are still running")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                outcome: tuple[T | None, BaseException | None] = (context.run(function), None)
            except BaseException as error:  # noqa: BLE001 - carried over and raised where the call is awaited
                outcome = (None, error)
            try:
                loop.call_soon_threadsafe(self._settle, done, outcome)
            except RuntimeError:  # the loop has closed meanwhile, so nobody waits
                self._abandoned -= done.cancelled()

        threading.Thread(target=work, name="toolcaddie-tool", daemon=True).start()
        try:
            value, error = await done
        except asyncio.CancelledError:
            self._abandoned += done.cancelled()
            raise
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # None only where T allows it

    def _settle(
        self,
        done: asyncio.Future[tuple[T | None, BaseException | None]],
        outcome: tuple[T | None, BaseException | None],
    ) -> None:
        if done.cancelled():
            self._abandoned -= 1
        else:
            done.set_result(outcome)
