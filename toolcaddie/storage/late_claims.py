"""Stores a run once one of its calls is about to act, so that another process can continue it after a crash.

Until then the run costs nothing, and after that nothing waits for it: its writes share the commits of the trail. The first one is
queued before the intent of the call, so it is on disk with the intent. If a later one is lost with the process, the model is told
that the outcome of a call is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from toolcaddie.core.errors import StorageError
from toolcaddie.core.run import RunState
from toolcaddie.ports import Store
from toolcaddie.storage.runs import RUN, Claim, StoredRun, StoredRuns
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

_SECONDS = 86_400.0
"""Seconds for which a run is stored that nobody forgets; idempotency keys are claimed for as long."""

log = Logger(__name__)


class LateClaim(Claim):
    """The claim of such a run. `first` returns the run as it is before its first step. `owner`: the lease of this process."""

    def __init__(self, runs: StoredRuns, documents: Store, first: Callable[[], StoredRun], *, owner: int) -> None:
        self._runs = runs
        self._documents = documents
        self._first = first
        self._owner = owner
        self._ttl = _SECONDS
        self._is_stored = False
        self._writes: set[asyncio.Task[None]] = set()

    async def checkpoint(self, state: RunState) -> None:
        """Stores the current state, if a call of the run has acted, or is about to."""
        if not self._is_stored:
            if not any(item.result is not None and item.result.error == "unknown_outcome" for item in state.pending):
                return
            self._is_stored = True
            self._run = replace(self._first(), owner=self._owner)
            self._runs.note_late(state.run_id)
        self._run = replace(self._run, state=state)
        write = asyncio.create_task(self._write_later(self._run))
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)
        await asyncio.sleep(0)  # the write is queued, before what the caller writes next

    async def store_paused(self, run: StoredRun) -> None:
        """Stores the run, which waits for somebody, and is no longer forgotten with its answer."""
        self._runs.end_late(run.state.run_id)
        await self._runs.store_paused(run, owner=self._owner)

    async def give_back(self) -> None:
        """Lets this process, too, continue the run from its last state. Other processes may once this one is gone."""
        if self._is_stored:
            self._runs.disown(self._run.state.run_id)

    async def forget(self) -> None:
        """Deletes the run; it cannot be continued any more."""
        if self._is_stored:
            await super().forget()

    async def _write_later(self, run: StoredRun) -> None:
        value = msgspec.json.encode(run)
        try:
            await self._documents.put(RUN, run.state.run_id, value, ttl=self._ttl, urgent=False, owner=self._owner)
        except StorageError as error:  # after a crash, nobody could continue the run, and its client would learn so
            log.warning("run_not_stored", run=run.state.run_id, error=str(error))
