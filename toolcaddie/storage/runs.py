"""Runs that were put away, each to be carried on once.

A stored state comes with a ticket, and whoever deletes the ticket carries the run on: of several at the same moment one
finds it. Every time the state is put away anew it gets another ticket, so an old look at the state opens nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import msgspec

from toolcaddie.errors import RequestError, RunNotFoundError
from toolcaddie.ports import Documents
from toolcaddie.run import Principal, RunRequest, RunState

RUN = "run"
"""The kind of the documents that hold runs, under their ids."""

_RUN, _TICKET = RUN, "run_ticket"
_TTL = 30 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    request: RunRequest
    state: RunState
    meta_categories: tuple[str, ...]
    """The categories the run's meta tools were made of."""
    ticket: str = ""


class StoredRuns:
    """The runs in `documents`, by run id."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    async def put_away(self, run: StoredRun) -> None:
        """Keep it for `claim`."""
        run = replace(run, ticket=uuid.uuid4().hex)
        await self._write(run)
        await self._documents.put(_TICKET, run.ticket, b"", ttl=_TTL)

    async def find(self, run_id: str, principal: Principal | None) -> StoredRun:
        """Raises `RunNotFoundError`, also for another principal's: nobody learns that it is there."""
        run = await self._read(run_id)
        if run is None or (principal is not None and not _same(run.request.principal, principal)):
            raise RunNotFoundError(f"no run {run_id!r} waits to be resumed", param="run_id")
        return run

    async def claim(self, run: StoredRun) -> Claim:
        """The right to carry the run on; `RunNotFoundError` if somebody else has it or had it."""
        if not await self._documents.delete(_TICKET, run.ticket):
            raise RunNotFoundError(f"run {run.state.run_id!r} is being resumed, or was", param="run_id")
        return Claim(self, run)

    async def check_free(self, run_id: str) -> None:
        """Raise `RequestError` if a stored run has this id: a new one would take its place."""
        if await self._documents.get(_RUN, run_id) is not None:
            raise RequestError(f"there is a run {run_id!r} already; give the new one another id", param="run_id")

    async def forget(self, run_id: str) -> None:
        await self._documents.delete(_RUN, run_id)

    async def _read(self, run_id: str) -> StoredRun | None:
        stored = await self._documents.get(_RUN, run_id)
        return None if stored is None else msgspec.json.decode(stored, type=StoredRun)

    async def _write(self, run: StoredRun) -> None:
        await self._documents.put(_RUN, run.state.run_id, msgspec.json.encode(run), ttl=_TTL)


class Claim:
    """A run that is being carried on by one caller."""

    def __init__(self, runs: StoredRuns, run: StoredRun) -> None:
        self._runs = runs
        self._run = run

    async def checkpoint(self, state: RunState) -> None:
        """How the run stands now, without a ticket: what has been done is known whatever happens next."""
        self._run = replace(self._run, state=state)
        await self._runs._write(self._run)

    async def give_back(self) -> None:
        """The run could not be carried on: as it stands now it may be resumed again."""
        await self._runs.put_away(self._run)


def _same(one: Principal, other: Principal) -> bool:
    return (one.tenant, one.id) == (other.tenant, other.id)
