"""Stores paused runs so that any process can resume them, and lets only one process at a time continue a run.

To continue a run, a process claims it: it writes the number of its lease (see `leases`) into the stored state by
compare-and-set, so that only one of several processes succeeds. The claim of a dead process is void, so its runs can be
resumed from their last stored state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
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
"""Kind of the documents that contain runs; the key is the id of the run."""

_TTL_SECONDS = 30 * 86_400.0
"""Shortest time in seconds for which a paused run is stored."""

_OLDER_COUNT = b'"turns":'
"""Name under which older versions stored `RunState.calls`. A message may contain this text too, but with escaped quotes."""

_PAGE = 100
"""Number of stored runs read at once."""

log = Logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as it is stored."""

    request: RunRequest
    state: RunState
    meta_categories: tuple[str, ...]
    """Categories from which the run's meta tools were made."""
    owner: int | None = None
    """Number of the lease of the process that continues the run; None: no process continues it."""


class StoredRuns:
    """The stored runs in `documents`, by run id.

    A run is stored for `ttl` seconds after its last change, and for at least 30 days.
    """

    def __init__(self, documents: Store, *, ttl: float = _TTL_SECONDS) -> None:
        self._documents = documents
        self._ttl = max(ttl, _TTL_SECONDS)
        self._disowned: set[str] = set()
        """Ids of runs that this process no longer continues although the store still names it as the owner."""
        self._late: set[str] = set()
        """Ids of runs of this process that are stored until their clients have an answer."""

    async def store_paused(self, run: StoredRun, *, owner: int) -> None:
        """Stores a paused run, which `claim` can continue. `owner`: the number of the lease under which the run began."""
        await self._documents.put(RUN, run.state.run_id, msgspec.json.encode(run), ttl=self._ttl, owner=owner)

    async def begin(self, run: StoredRun, *, owner: int) -> Claim:
        """Stores a run before its first step, claimed by this process, whose lease is `owner`. If the process dies, another one
        can claim the run. Raises `RequestError` if a stored run has this id."""
        run_id = run.state.run_id
        claimed = replace(run, owner=owner)
        value = msgspec.json.encode(claimed)
        if not await self._documents.compare_and_set(RUN, run_id, value, expected=None, ttl=self._ttl, owner=owner):
            raise _taken(run_id)
        return Claim(self, self._documents, claimed, ttl=self._ttl)

    async def find(self, run_id: str, principal: Principal | None) -> StoredRun:
        """Returns a stored run. `principal` None: of any principal.

        Raises `RunNotFoundError` also for a run of another principal, so that its existence stays secret.
        """
        stored = await self._documents.get(RUN, run_id)
        run = None if stored is None else _decoded(stored)
        if run is None or (principal is not None and run.request.principal.owner != principal.owner):
            raise RunNotFoundError(f"no run {run_id!r} waits to be resumed", param="run_id")
        return run

    async def claim(self, run: StoredRun) -> Claim:
        """Claims the right to continue a run from the state that `find` returned.

        Raises `RunNotFoundError` if another process has claimed the run since then. If the process with an older claim may
        be dead, waits until that is certain.
        """
        run_id = run.state.run_id
        refusal = RunNotFoundError(
            f"run {run_id!r} is being resumed by another request, or was resumed", param="run_id"
        )
        owned = run.owner is not None and run_id not in self._disowned
        if owned and run.owner is not None and await self._documents.holds(run.owner):
            raise refusal
        before = await self._documents.get(RUN, run_id)
        if before is None or _decoded(before) != run:
            raise refusal
        claimed = replace(run, owner=await self._documents.lease())
        value = msgspec.json.encode(claimed)
        if not await self._documents.compare_and_set(
            RUN, run_id, value, expected=before, ttl=self._ttl, owner=claimed.owner
        ):
            raise refusal
        self._disowned.discard(run_id)
        return Claim(self, self._documents, claimed, ttl=self._ttl)

    async def resumable(self, run_ids: Sequence[str]) -> Collection[str]:
        """Returns those of the ids under which a run is stored."""
        return (await self._documents.get_many(RUN, run_ids)).keys()

    async def questions(self, run_id: str) -> Collection[str]:
        """Returns the approvals that a stored run waits for; none if no such run is stored."""
        stored = await self._documents.get(RUN, run_id)
        return () if stored is None else _questions(stored)

    async def waiting_for(self, approval_id: str) -> Sequence[str]:
        """Returns the ids of the stored runs that wait for this approval. It reads all stored runs."""
        waiting: list[str] = []
        cursor: str | None = None
        while True:
            page = await self._documents.scan(RUN, prefix="", cursor=cursor, limit=_PAGE)
            waiting += [document.key for document in page.documents if _waits_for(approval_id, document.value)]
            cursor = page.cursor
            if cursor is None:
                return waiting

    async def check_free(self, run_id: str) -> None:
        """Raises `RequestError` if a stored run has this id: a new one would replace it."""
        if await self._documents.get(RUN, run_id) is not None:
            raise _taken(run_id)

    async def forget(self, run_id: str) -> None:
        """Deletes a run; it cannot be resumed any more."""
        await self._documents.delete(RUN, run_id)

    def note_late(self, run_id: str) -> None:
        """Notes that a run of this process is stored until its client has an answer."""
        self._late.add(run_id)

    def end_late(self, run_id: str) -> None:
        """Notes that such a run is stored for longer than until its client has an answer."""
        self._late.discard(run_id)

    async def forget_late(self, run_id: str, *, owner: int) -> None:
        """Deletes a run whose answer its client has, if it was stored at all and this process has not lost the lease `owner`:
        then another one may continue it. It shares a commit with other writes."""
        if run_id in self._late:
            self._late.discard(run_id)
            self._disowned.discard(run_id)
            with suppress(StorageError):  # it expires
                await self._documents.put(RUN, run_id, b"", ttl=0.0, urgent=False, owner=owner)

    def disown(self, run_id: str) -> None:
        """Lets this process claim a run again although the store still names it as the owner."""
        self._disowned.add(run_id)


class Claim:
    """The right of one caller to continue a run. All writes are made under the lease with which the run was claimed."""

    def __init__(self, runs: StoredRuns, documents: Store, run: StoredRun, *, ttl: float) -> None:
        self._runs = runs
        self._documents = documents
        self._run = run
        self._ttl = ttl

    async def checkpoint(self, state: RunState) -> None:
        """Stores the current state, so that completed calls survive whatever happens next."""
        self._run = replace(self._run, state=state)
        await self._write(self._run)

    async def store_paused(self, run: StoredRun) -> None:
        """Stores the run, which has paused again, and gives up the claim."""
        self._runs.end_late(run.state.run_id)
        self._run = replace(run, owner=self._run.owner)
        await self._write(replace(run, owner=None))

    async def give_back(self) -> None:
        """Gives up the claim on a run that could not continue, so that it may be resumed from its current state."""
        try:
            await self._write(replace(self._run, owner=None))
        except StorageError as error:  # only logged, because the caller raises the error that ended the run
            self._runs.disown(self._run.state.run_id)
            log.warning("run_not_given_back", run=self._run.state.run_id, error=str(error))

    async def forget(self) -> None:
        """Deletes a run whose end is in the trail; it cannot be resumed any more."""
        try:
            await self._documents.delete(RUN, self._run.state.run_id, owner=self._run.owner)
        except StorageError as error:  # not fatal: resuming such a run returns the stored answer
            log.warning("run_not_forgotten", run=self._run.state.run_id, error=str(error))

    async def _write(self, run: StoredRun) -> None:
        value = msgspec.json.encode(run)
        await self._documents.put(RUN, run.state.run_id, value, ttl=self._ttl, owner=self._run.owner)


def _taken(run_id: str) -> RequestError:
    return RequestError(f"there is a run {run_id!r} already; give the new one another id", param="run_id")


def _questions(stored: bytes) -> Collection[str]:
    """Returns the approvals that a stored run waits for."""
    return [item.approval for item in _decoded(stored).state.pending if item.waiting == "approval"]


def _waits_for(approval_id: str, stored: bytes) -> bool:
    return approval_id.encode() in stored and approval_id in _questions(stored)


def waiting_calls(stored: bytes) -> Sequence[Mapping[str, Any]]:
    """Returns the calls for which a stored run waits, in the trail's form."""
    pending = _decoded(stored).state.pending
    return [{"id": item.call.id, "name": item.call.name, "waiting": item.waiting} for item in pending if item.waiting]


def unknown_calls(stored: bytes) -> Sequence[Mapping[str, Any]]:
    """Returns the calls of a stored run with unknown outcome, in the trail's form without arguments: these may be secret."""
    pending = _decoded(stored).state.pending
    unknown = [item.call for item in pending if item.result is not None and item.result.error == "unknown_outcome"]
    return [{"id": call.id, "name": call.name, "arguments": ""} for call in unknown]


def _decoded(stored: bytes) -> StoredRun:
    """Returns a stored run, also if an older version wrote it, which used another name for the number of calls."""
    if _OLDER_COUNT not in stored:
        return msgspec.json.decode(stored, type=StoredRun)
    values = msgspec.json.decode(stored)
    if "turns" in values["state"]:
        values["state"]["calls"] = values["state"].pop("turns")
    return msgspec.json.decode(msgspec.json.encode(values), type=StoredRun)
