"""Begins the run of a piece of durable work, and continues it after a crash: no call is made twice that must not be.

A queue of durable work may begin one piece several times. The stored state of the run says which calls were made. A process that
died before the first step was stored has made none, so the run begins again, under another id: the trail records each run under
an id of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from toolcaddie.core.approval import Approval
from toolcaddie.core.errors import RunNotFoundError, StorageError
from toolcaddie.ports import Store
from toolcaddie.runtime.runtime import Runtime
from toolcaddie.util.log import Logger

log = Logger(__name__)

T = TypeVar("T")
OnRun = Callable[[str], Awaitable[T]]
"""Does something with the run of an id, and returns its answer."""

BEGINNINGS = "bot-beginnings"
"""Kind of the documents with the number of times that a run was begun; the key is the id of the work."""
_TTL_SECONDS = 30 * 86_400.0
_ATTEMPTS = 10
"""The largest number of attempts while the database fails or another process still continues the run."""
_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableRuns:
    """The runs of pieces of durable work. Their requests have `RunRequest.durable`."""

    runtime: Runtime
    store: Store

    async def answer(self, work_id: str, *, begin: OnRun[T], resume: OnRun[T], waiting: OnRun[T]) -> T:
        """Returns the answer of the run of a piece of work. `begin` begins a run under an id, `resume` continues a stored one,
        and `waiting` answers for one that waits for a person.

        Raises `StorageError` or `RunNotFoundError` if the database fails for a while.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._continued(work_id, begin, resume, waiting)
            except (StorageError, RunNotFoundError) as error:
                log.warning("work_interrupted", work=work_id, attempt=attempt, error=str(error))
                if attempt == _ATTEMPTS:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
        raise AssertionError("the last attempt returns or raises")

    async def forget(self, work_id: str) -> None:
        """Deletes the stored run of a piece of work whose answer is stored."""
        begun = await self._beginnings(work_id)
        if begun:
            await self.runtime.forget(run_name(work_id, begun))
            await self.store.delete(BEGINNINGS, work_id)

    async def _continued(self, work_id: str, begin: OnRun[T], resume: OnRun[T], waiting: OnRun[T]) -> T:
        begun = await self._beginnings(work_id)
        run_id = run_name(work_id, begun)
        if begun and (questions := await self._questions(run_id)) is not None:
            is_open = any(question.status == "open" for question in questions)
            return await (waiting if is_open else resume)(run_id)
        number = str(begun + 1).encode()
        before = str(begun).encode() if begun else None
        if not await self.store.compare_and_set(BEGINNINGS, work_id, number, expected=before, ttl=_TTL_SECONDS):
            raise RunNotFoundError(f"another process begins {work_id!r} at this moment", param="run_id")
        return await begin(run_name(work_id, begun + 1))

    async def _beginnings(self, work_id: str) -> int:
        stored = await self.store.get(BEGINNINGS, work_id)
        return 0 if stored is None else int(stored)

    async def _questions(self, run_id: str) -> Sequence[Approval] | None:
        """Returns the questions of a run; None: it is not stored, because the process died before its first step."""
        try:
            return await self.runtime.questions(run_id)
        except RunNotFoundError:
            return None


def run_name(work_id: str, number: int) -> str:
    """Returns the id of the run of this number of a piece of work."""
    return work_id if number <= 1 else f"{work_id}.{number}"
