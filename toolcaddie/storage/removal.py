"""Records the rows that a pruning removes, after checking them: a changed row that is gone could no longer be noticed.

Each row must have the link that follows from its content and from the row before it, and each record of earlier prunings nearby
must have its seal. Otherwise nothing is removed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from toolcaddie.storage.chain import ChainError
from toolcaddie.storage.seals import Gap, Head, Sealer, same
from toolcaddie.storage.tables import events, trail_gaps
from toolcaddie.util.replacing import replace

_AT_ONCE = 400
"""Number of ids in one statement, below the limit of parameters of every database (older SQLite: 999)."""


def record_removal(connection: Connection, head: Head, rows: Sequence[Any], sealer: Sealer) -> None:
    """Checks and records rows of `events` that are about to be removed, in the order of their ids. Raises `ChainError` if a
    row or a record near it was changed."""
    near = checked(connection, head, rows, sealer)
    add_gaps(connection, head, gaps_of(rows, head), near, sealer)


def checked(connection: Connection, head: Head, rows: Sequence[Any], sealer: Sealer) -> Sequence[Gap]:
    """Returns the recorded gaps among and beside rows of `events`, which are in the order of their ids. Raises `ChainError`
    if a row or such a record was changed."""
    chained = [row for row in rows if row.id >= head.first]
    if any(row.link is not None or row.id < 1 for row in rows if row.id < head.first):
        raise ChainError(
            f"nothing is pruned: a row before row {head.first}, where the chain begins, was added; {_ADVICE}"
        )
    if not chained:
        return ()
    near = gaps_near(connection, head, (chained[0].id, chained[-1].id), sealer)
    _check(connection, head, chained, near, sealer)
    return near


def gaps_of(rows: Sequence[Any], head: Head) -> list[Gap]:
    """Returns the gaps that rows of `events` leave, which are in the order of their ids."""
    return joined([Gap(first=row.id, last=row.id, link=bytes(row.link)) for row in rows if row.id >= head.first])


def add_gaps(connection: Connection, head: Head, ends: Sequence[Gap], near: Sequence[Gap], sealer: Sealer) -> None:
    """Records gaps. `near`: the recorded ones among and beside them, of which neighbours become one with them."""
    if not ends:
        return
    beside = _beside(ends, near)
    for start in range(0, len(beside), _AT_ONCE):
        firsts = [gap.first for gap in beside[start : start + _AT_ONCE]]
        connection.execute(delete(trail_gaps).where(trail_gaps.c.first.in_(firsts)))
    gaps = [
        {"first": gap.first, "last": gap.last, "link": gap.link, "seal": sealer.gap(head.trail, gap)}
        for gap in joined(sorted([*ends, *beside], key=lambda gap: gap.first))
    ]
    connection.execute(insert(trail_gaps), gaps)


def gaps_near(connection: Connection, head: Head, ids: tuple[int, int], sealer: Sealer) -> Sequence[Gap]:
    """Returns the recorded gaps between two ids, and beside them. Raises `ChainError`."""
    touches = (trail_gaps.c.last >= ids[0] - 1, trail_gaps.c.first <= ids[1] + 1)
    gaps = []
    for first, last, link, seal in connection.execute(_GAPS.where(*touches)):
        gap = Gap(first=first, last=last, link=link)
        if not first <= last or not same(seal, _gap_seal(sealer, head, gap)):
            raise ChainError(f"nothing is pruned: the record of pruned rows {first} to {last} was changed; {_ADVICE}")
        gaps.append(gap)
    return gaps


def _check(connection: Connection, head: Head, rows: Sequence[Any], gaps: Sequence[Gap], sealer: Sealer) -> None:
    """Raises `ChainError` if the link of a row does not follow from its content and the row before."""
    before = dict(_links_before(connection, head, rows, sealer))
    before.update((gap.last, gap.link) for gap in gaps)
    before.update((row.id, row.link) for row in rows)
    taken = iter([*gaps, Gap(first=rows[-1].id + 1, last=rows[-1].id + 1, link=b"")])
    gap = next(taken)
    for row in rows:
        while gap.last < row.id:
            gap = next(taken)
        is_end = row.id == head.position and not same(row.link, head.link)
        if (
            gap.first <= row.id
            or row.id > head.position
            or is_end
            or not same(row.link, _link(sealer, before.get(row.id - 1), row))
        ):
            raise ChainError(
                f"nothing is pruned: row {row.id} ({row.kind} of run {row.run_id}, number {row.seq}) or the one before it "
                f"was changed; {_ADVICE}"
            )


def _links_before(
    connection: Connection, head: Head, rows: Sequence[Any], sealer: Sealer
) -> Iterator[tuple[int, bytes]]:
    """Yields the links of rows that stay, right before one that is removed, and the link before the first row of the chain."""
    yield head.first - 1, sealer.start(head.trail, head.first)
    removed = {row.id for row in rows}
    staying = [row.id - 1 for row in rows if row.id - 1 not in removed and row.id > head.first]
    for start in range(0, len(staying), _AT_ONCE):
        statement = select(events.c.id, events.c.link).where(events.c.id.in_(staying[start : start + _AT_ONCE]))
        yield from ((place, link) for place, link in connection.execute(statement))


def _link(sealer: Sealer, previous: Any, row: Any) -> bytes | None:
    """Returns the link that a row must have; None: it has values that Toolcaddie never writes."""
    try:
        return sealer.link(previous, (row.id, row.run_id, row.seq, row.at, row.kind, row.data))
    except (TypeError, AttributeError, ValueError, struct.error):
        return None


def _gap_seal(sealer: Sealer, head: Head, gap: Gap) -> bytes | None:
    try:
        return sealer.gap(head.trail, gap)
    except (TypeError, struct.error):
        return None


def _beside(ends: Sequence[Gap], near: Sequence[Gap]) -> Sequence[Gap]:
    """Returns the recorded gaps that end right before one of the new ones, or begin right after one."""
    by_last: Mapping[int, Gap] = {gap.last: gap for gap in near}
    by_first: Mapping[int, Gap] = {gap.first: gap for gap in near}
    found = [by_last.get(gap.first - 1) for gap in ends] + [by_first.get(gap.last + 1) for gap in ends]
    return list({gap.first: gap for gap in found if gap is not None}.values())


def joined(gaps: Sequence[Gap]) -> list[Gap]:
    """Returns gaps in which neighbours are one, from gaps in the order of their ids."""
    results: list[Gap] = []
    starts = [0, *(n for n, (one, other) in enumerate(pairwise(gaps), start=1) if one.last + 1 != other.first)]
    for start, behind in pairwise([*starts, len(gaps)]):
        if behind > start:
            results.append(replace(gaps[behind - 1], first=gaps[start].first))
    return results


_GAPS = select(trail_gaps.c.first, trail_gaps.c.last, trail_gaps.c.link, trail_gaps.c.seal).order_by(trail_gaps.c.first)
_ADVICE = "`toolcaddie audit verify` shows what changed"
