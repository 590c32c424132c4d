"""Runs that were put away, each carried on by one process at a time.

Whoever carries a run on writes the number of its lease into the stored state, by compare-and-swap: of several at the same
moment one succeeds. The claim of a process that is gone counts for nothing, so its runs can be resumed as they stood last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, RunNotFoundError, StorageError
from toolcaddie.core.run import RunRequest, RunState
from toolcaddie.ports import Store
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

RUN = "run"
"""The kind of their documents; the key is the run's id."""

_TTL = 30 * 86_400.0

log = Logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    request: RunRequest
    state: RunState
    meta_categories: tuple[str, ...]
    """The categories the run's meta tools were made of."""
    owner: int | None = None
    """The lease of the process that carries it on; None: nobody does."""


class StoredRuns:
    """The runs in `documents`, by run id."""

    def __init__(self, documents: Store) -> None:
        self._documents = documents
        self._left: set[str] = set()
        """Runs this process no longer carries on, though it could not write that down."""

    async def put_away(self, run: StoredRun, *, owner: int) -> None:
        """Keep it for `claim`. `owner`: the lease the run was begun under."""
        await self._documents.put(RUN, run.state.run_id, msgspec.json.encode(run), ttl=_TTL, owner=owner)

    async def find(self, run_id: str, principal: Principal | None) -> StoredRun:
        """Raises `RunNotFoundError`, also for another principal's: nobody learns that it is there."""
        stored = await self._documents.get(RUN, run_id)
        run = None if stored is None else _decoded(stored)
        if run is None or (principal is not None and run.request.principal.owner != principal.owner):
            raise RunNotFoundError(f"no run {run_id!r} waits to be resumed", param="run_id")
        return run

    async def claim(self, run: StoredRun) -> Claim:
        """The right to carry the run on from the state that `find` gave. Raises `RunNotFoundError` if another one has it or
        had it. Waits for a process that may be gone until that is certain."""
        run_id = run.state.run_id
        taken = RunNotFoundError(f"run {run_id!r} is being resumed, or was", param="run_id")
        owned = run.owner is not None and run_id not in self._left
        if owned and run.owner is not None and await self._documents.holds(run.owner):
            raise taken
        before = await self._documents.get(RUN, run_id)
        if before is None or _decoded(before) != run:
            raise taken
        mine = replace(run, owner=await self._documents.lease())
        value = msgspec.json.encode(mine)
        if not await self._documents.compare_and_set(RUN, run_id, value, expected=before, ttl=_TTL, owner=mine.owner):
            raise taken
        self._left.discard(run_id)
        return Claim(self, self._documents, mine)

    async def resumable(self, run_ids: Sequence[str]) -> Collection[str]:
        """Those of the ids whose runs are stored."""
        return (await self._documents.get_many(RUN, run_ids)).keys()

    async def check_free(self, run_id: str) -> None:
        """Raise `RequestError` if a stored run has this id: a new one would take its place."""
        if await self._documents.get(RUN, run_id) is not None:
            raise RequestError(f"there is a run {run_id!r} already; give the new one another id", param="run_id")

    def leave(self, run_id: str) -> None:
        """Let a run be claimed again by this process, although it stands as the owner."""
        self._left.add(run_id)


class Claim:
    """A run that is carried on by one caller. Whatever it writes it writes under the lease it was claimed with."""

    def __init__(self, runs: StoredRuns, documents: Store, run: StoredRun) -> None:
        self._runs = runs
        self._documents = documents
        self._run = run

    async def checkpoint(self, state: RunState) -> None:
        """How the run stands now: what has been done is known whatever happens next."""
        self._run = replace(self._run, state=state)
        await self._write(self._run)

    async def put_away(self, run: StoredRun) -> None:
        """The run waits again."""
        self._run = replace(run, owner=self._run.owner)
        await self._write(replace(run, owner=None))

    async def give_back(self) -> None:
        """The run could not be carried on: as it stands now it may be resumed again."""
        try:
            await self._write(replace(self._run, owner=None))
        except StorageError as error:  # the error that broke the run off is the one to raise
            self._runs.leave(self._run.state.run_id)
            log.warning("run_not_given_back", run=self._run.state.run_id, error=str(error))

    async def forget(self) -> None:
        """The run has ended, and that is on record; nobody can resume it."""
        try:
            await self._documents.delete(RUN, self._run.state.run_id, owner=self._run.owner)
        except StorageError as error:  # whoever resumes it is given the answer that is stored
            log.warning("run_not_forgotten", run=self._run.state.run_id, error=str(error))

    async def _write(self, run: StoredRun) -> None:
        value = msgspec.json.encode(run)
        await self._documents.put(RUN, run.state.run_id, value, ttl=_TTL, owner=self._run.owner)


def waiting_calls(stored: bytes) -> Sequence[Mapping[str, Any]]:
    """What a stored run waits for, as the trail says it."""
    pending = _decoded(stored).state.pending
    return [{"id": item.call.id, "name": item.call.name, "waiting": item.waiting} for item in pending if item.waiting]


def unknown_calls(stored: bytes) -> Sequence[Mapping[str, Any]]:
    """The calls of a stored run that may have been made, as the trail says it. Their arguments may hold secrets."""
    pending = _decoded(stored).state.pending
    unknown = [item.call for item in pending if item.result is not None and item.result.error == "unknown_outcome"]
    return [{"id": call.id, "name": call.name, "arguments": ""} for call in unknown]


def _decoded(stored: bytes) -> StoredRun:
    return msgspec.json.decode(stored, type=StoredRun)
