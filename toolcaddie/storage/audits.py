"""Checks the trail, anchors it, changes its key, and reads it for an export."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, bindparam, literal_column, select, update

from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.chain import ChainError, read_head, write_head
from toolcaddie.storage.compiled import CompiledStatement
from toolcaddie.storage.journal import record_of
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.seals import Gap, Sealer
from toolcaddie.storage.tables import events, runs, trail_gaps
from toolcaddie.storage.trail_pages import TrailPage, TrailQuery, conditions, doers_of, read_page
from toolcaddie.storage.verification import Anchor, Change, Verification, anchor, verify
from toolcaddie.storage.writer import Writer, outcome
from toolcaddie.util.replacing import replace

_PAGE = 1_000
"""Number of rows that are read at once."""

_RELINK = CompiledStatement(update(events).where(events.c.id == bindparam("of_row")).values(link=bindparam("new_link")))
_RESEAL = CompiledStatement(
    update(trail_gaps).where(trail_gaps.c.first == bindparam("of_gap")).values(seal=bindparam("new_seal"))
)
_GAPS = select(trail_gaps.c.first, trail_gaps.c.last, trail_gaps.c.link).order_by(trail_gaps.c.first)


class RowQuery(Struct, frozen=True, kw_only=True):
    """A filter for the rows of the trail. A field that is None restricts nothing."""

    run_id: str | None = None
    principal: str | None = None
    tenant: str | None = None
    since: float | None = None
    """Seconds since the epoch; rows of this moment are included."""
    until: float | None = None
    """Seconds since the epoch; rows of this moment are not included."""
    kind: str | None = None
    """A kind, or the beginning of kinds with a `*` after it."""


class TrailRow(Struct, frozen=True, kw_only=True):
    """A row of the trail as it is exported."""

    id: int
    record: EventRecord
    principal: str | None
    """The principal of the run, or the person who acted in the console; None: the run is in no list, as a part of it was pruned
    or removed."""
    tenant: str | None
    link: bytes | None
    """The row's hash in the chain; None: it was written by a version without a chain."""


class Audits:
    """Checks, anchors and exports the trail of a database. `clock` returns seconds since the epoch."""

    def __init__(
        self, writer: Writer, reader: Reader, sealer: Sealer, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._sealer = sealer
        self._clock = clock

    async def verify(
        self, anchors: Sequence[Anchor] = (), *, progress: Callable[[int], None] = lambda row: None
    ) -> Verification:
        """Checks every row of the trail. Raises `StorageError` if the database cannot be read. `progress` is called in another
        thread with the id of a row, each time that a number of rows has been checked."""
        return await self._reader.snapshot(partial(verify, sealer=self._sealer, anchors=anchors, progress=progress))

    async def page(self, query: TrailQuery) -> TrailPage:
        """Returns a page of the trail, the newest rows first. Raises `StorageError`."""
        return await read_page(self._reader, query)

    async def anchor(self) -> Anchor:
        """Returns the present end of the trail. Raises `ChainError` if the head was changed."""
        return await self._reader.snapshot(partial(anchor, sealer=self._sealer, now=self._clock()))

    async def rekey(
        self, old_key: bytes | None, *, anchors: Sequence[Anchor] = (), accept_unsealed: bool = False
    ) -> int:
        """Checks the trail with the old key (None: no key), then links and seals it again with the key of this database. Returns
        the number of rows.

        A trail that gets its first key passes that check even if somebody wrote it anew, so it needs `anchors` that were made
        before, or `accept_unsealed`, the word of the caller that nobody did. Raises `ChainError` if the check finds a change, or
        if both are missing.
        """
        work = partial(_rekey, old=Sealer(old_key), new=self._sealer, anchors=anchors, accept_unsealed=accept_unsealed)
        return await outcome(self._writer.submit(work, last=True))

    async def rows(self, query: RowQuery | None = None) -> AsyncIterator[TrailRow]:
        """Yields the rows that a query describes, in the order of writing."""
        query = query or RowQuery()
        last = 0
        while page := await self._reader.snapshot(partial(_read_rows, query=query, after=last)):
            for row in page:
                if query.principal in (None, row.principal) and query.tenant in (None, row.tenant):
                    yield row
            last = page[-1].id


def _read_rows(connection: Connection, *, query: RowQuery, after: int) -> Sequence[TrailRow]:
    """Returns the next rows of a query, and those of acts of other people among them."""
    rows = connection.execute(_select_rows(query), {"after": after}).all()
    doers = doers_of(connection, [row.run_id for row in rows])
    return [
        TrailRow(
            id=row.id,
            record=record_of(row),
            principal=principal,
            tenant=tenant,
            link=None if row.link is None else bytes(row.link),
        )
        for row in rows
        for principal, tenant in [doers.get(row.run_id, (row.principal, row.tenant))]
    ]


def _select_rows(query: RowQuery) -> Any:
    statement = (
        select(events, runs.c.principal, runs.c.tenant)
        .select_from(events.outerjoin(runs, events.c.run_id == runs.c.run_id))
        .where(events.c.id > bindparam("after"))
        .order_by(events.c.id)
        .limit(literal_column(str(_PAGE)))
    )
    return statement.where(*conditions(query, takes_acts=True))


def _rekey(
    connection: Connection, *, old: Sealer, new: Sealer, anchors: Sequence[Anchor], accept_unsealed: bool
) -> int:
    head, _ = read_head(connection, lock=True)
    if head.key_id and head.key_id != old.key_id:
        raise ChainError(_wrong_old_key(head.key_id, old.key_id, new.key_id))
    report = verify(connection, old, anchors)
    if report.changes:
        raise ChainError(f"the trail does not pass the check with the old key: {_sentence(report.changes[0])}")
    if new.key_id and not old.key_id and not accept_unsealed and not report.anchors:
        raise ChainError(
            "the trail is sealed without a key, so anybody who can write the database may have written it anew; compare it "
            "with an anchor that was made before (`--anchor FILE`), or say that you trust it as it is (`--accept-unsealed`)"
        )
    gaps = {row.first: Gap(first=row.first, last=row.last, link=bytes(row.link)) for row in connection.execute(_GAPS)}
    position, link = head.first - 1, new.start(head.trail, head.first)
    statement = select(events).where(events.c.id > bindparam("after")).order_by(events.c.id).limit(_PAGE)
    while rows := connection.execute(statement, {"after": position}).all():
        changes = []
        for row in rows:
            if (gap := gaps.get(position + 1)) is not None:
                link = gap.link
            link = new.link(link, (row.id, row.run_id, row.seq, row.at, row.kind, row.data))
            position = row.id
            changes.append({"of_row": row.id, "new_link": link})
        _RELINK.execute(connection, changes)
    if (gap := gaps.get(position + 1)) is not None:
        position, link = gap.last, gap.link
    if gaps:
        seals = [{"of_gap": gap.first, "new_seal": new.gap(head.trail, gap)} for gap in gaps.values()]
        _RESEAL.execute(connection, seals)
    write_head(connection, replace(head, position=position, link=link, key_id=new.key_id), new)
    return report.checked


def _wrong_old_key(of_head: str, old: str, new: str) -> str:
    """Returns the error for a trail that is sealed with another key than the old one that was named ('': none was)."""
    if of_head == new:
        return (
            f"the trail is sealed with key {of_head} already, which is the key that audit.key_env names: there is nothing to "
            "do, and `toolcaddie audit verify` checks the trail with it"
        )
    named = f"--from-env names key {old}" if old else "no old key is named"
    return (
        f"the trail does not pass the check with the old key: it is sealed with key {of_head}, and {named}; name the variable "
        f"that holds key {of_head} with --from-env"
    )


def _sentence(change: Change) -> str:
    return change.what if change.row is None else f"row {change.row} {change.what}"
