"""The processes that do durable work, what each of them does, and what waits: read from the database, by any process.

Each process that opens the queue writes a document about itself, under the number of its lease. Whether it lives, the lease says.
The pieces are those of DBOS's table.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from sqlalchemy import URL, Engine

from toolcaddie.jobs.unfinished import unfinished_pieces
from toolcaddie.ports import Store

_KIND = "work-replica"
"""Kind of the documents of processes that do durable work; the key is the number of the process's lease."""
_PAGE = 1_000
MOST_PIECES = 1_000
"""The largest number of pieces in progress that are read."""


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """A process that does durable work. `kinds`: the kinds of work that it does."""

    host: str
    pid: int
    since: float
    kinds: Sequence[str]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of work in progress. `tenant` None: its kind has no limits for each tenant. `starts`: how often it was begun."""

    id: str
    kind: str
    tenant: str | None
    since: float
    starts: int


class ReplicaWork(msgspec.Struct, frozen=True, kw_only=True):
    """A process with its pieces. `replica` None: it has left no document about itself."""

    lease: int
    alive: bool
    replica: Replica | None
    pieces: Sequence[Piece]


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The number of pieces of a kind that wait for a tenant, and when the oldest was put."""

    kind: str
    tenant: str | None
    count: int
    oldest: float


class WorkReport(msgspec.Struct, frozen=True, kw_only=True):
    """All processes that do durable work, the oldest first, and all that waits."""

    replicas: Sequence[ReplicaWork]
    waiting: Sequence[Waiting]


async def register(store: Store, lease: int, kinds: Iterable[str]) -> None:
    """Writes down that this process does these kinds of work."""
    own = Replica(host=socket.gethostname()[:200], pid=os.getpid(), since=time.time(), kinds=sorted(kinds))
    await store.put(_KIND, str(lease), msgspec.json.encode(own))


async def unregister(store: Store, lease: int) -> None:
    await store.delete(_KIND, str(lease))


async def forget_dead(store: Store) -> None:
    """Removes the documents of processes that are gone."""
    for lease in await _replicas(store):
        if not await store.holds(lease):
            await unregister(store, lease)


async def work_report(store: Store, url: URL, engine: Engine, *, tenant: str | None = None) -> WorkReport:
    """Returns what all processes of a database do. `tenant`: only the pieces of this one; None: all. Raises `StorageError`."""
    replicas = await _replicas(store)
    running, waiting = await asyncio.to_thread(unfinished_pieces, url, engine, tenant=tenant, most=MOST_PIECES)
    pieces: dict[int, list[Piece]] = {lease: [] for lease in replicas}
    for lease, work_id, kind, of_tenant, begun, starts in running:
        piece = Piece(id=work_id, kind=kind, tenant=of_tenant, since=begun / 1000, starts=starts)
        pieces.setdefault(int(lease), []).append(piece)
    leases = sorted(pieces)
    alive = await asyncio.gather(*map(store.holds, leases))
    return WorkReport(
        replicas=[
            ReplicaWork(lease=lease, alive=lives, replica=replicas.get(lease), pieces=pieces[lease])
            for lease, lives in zip(leases, alive, strict=True)
        ],
        waiting=[
            Waiting(kind=kind, tenant=of_tenant, count=count, oldest=oldest / 1000)
            for kind, of_tenant, count, oldest in waiting
        ],
    )


async def _replicas(store: Store) -> Mapping[int, Replica]:
    page = await store.scan(_KIND, limit=_PAGE)
    return {int(each.key): msgspec.json.decode(each.value, type=Replica) for each in page.documents}
