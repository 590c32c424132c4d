"""Checks the chain over the rows of the trail, and compares it with anchors: heads that are kept outside of the database.

The rows are read once, in order, in one transaction, so that rows that are added or pruned meanwhile do not matter.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection

from toolcaddie.storage.chain import ChainError, key_refusal, read_head
from toolcaddie.storage.seals import Gap, Head, Sealer, same

MOST_CHANGES = 100
"""Largest number of changes that a report lists. Further ones are counted."""

_ROWS = "SELECT id, run_id, seq, at, kind, data, link FROM events ORDER BY id"
_GAPS = "SELECT first, last, link, seal FROM trail_gaps ORDER BY first"
_PAGE = 1_000


class Anchor(Struct, frozen=True, kw_only=True):
    """A head of the chain, to be kept where nobody who can write the database can change it."""

    trail: str
    position: int
    first: int
    link: str
    """Hexadecimal."""
    key_id: str
    seal: str
    """Hexadecimal; the seal of the head."""
    at: float
    """Seconds since the epoch."""


class Change(Struct, frozen=True, kw_only=True):
    """Something that is not as Toolcaddie wrote it. `row`: the id of the row; None: it concerns no single row."""

    row: int | None
    what: str


class Verification(Struct, frozen=True, kw_only=True):
    """The result of a check."""

    checked: int
    """Rows of the chain."""
    before_chain: int
    """Rows written by versions without a chain, which nothing can prove."""
    pruned: int
    """Rows that were pruned, according to sealed records."""
    position: int
    """Id of the last row that was written."""
    keyed: bool
    """True if the hashes are made with a key."""
    anchors: int
    """Anchors that were compared."""
    anchors_pruned: int
    """Anchors that could not be compared, because their rows were pruned, according to sealed records."""
    anchors_of_other_keys: int
    """Anchors that could not be compared, because they are sealed with another key than the trail. Each is a change too."""
    changes: Sequence[Change]
    """At most 100 changes, in the order of the rows."""
    changes_total: int


def verify(
    connection: Connection,
    sealer: Sealer,
    anchors: Sequence[Anchor] = (),
    progress: Callable[[int], None] = lambda row: None,
) -> Verification:
    """Checks all rows of the trail, its head, the records of pruned rows, and the anchors. `progress` is called with the id of a
    row, each time that a number of rows has been checked."""
    if connection.dialect.name == "postgresql":
        # A partition that is emptied meanwhile would be empty in every snapshot.
        connection.exec_driver_sql("LOCK TABLE events IN ACCESS SHARE MODE")
    try:
        head, seal = read_head(connection)
    except ChainError as error:
        return _report(changes=[Change(row=None, what=str(error))])
    changes = list(_head_changes(head, seal, sealer))
    if changes:
        return _report(head, changes=changes)
    return _Check(head, sealer, anchors).run(connection, progress)


def anchor(connection: Connection, sealer: Sealer, *, now: float) -> Anchor:
    """Returns the present head as an anchor. Raises `ChainError` if the head was changed."""
    head, seal = read_head(connection)
    if changes := list(_head_changes(head, seal, sealer)):
        raise ChainError(changes[0].what)
    if head.is_unsealed:
        head = sealer.begun(head)
    return Anchor(
        trail=head.trail,
        position=head.position,
        first=head.first,
        link=head.link.hex(),
        key_id=head.key_id,
        seal=sealer.head(head).hex(),
        at=now,
    )


def _head_changes(head: Head, seal: Any, sealer: Sealer) -> Iterator[Change]:
    """Yields what is wrong with the head, on which everything else depends."""
    try:
        if head.is_unsealed and not seal and not sealer.key_id:
            return
        if head.key_id != sealer.key_id:
            yield Change(row=None, what=key_refusal(head.key_id, sealer.key_id))
        elif not same(seal, sealer.head(head)):
            yield Change(row=None, what="the head of the trail was changed: its seal does not fit it")
    except (TypeError, ValueError, AttributeError, struct.error):
        yield Change(row=None, what="the head of the trail was changed: it has values of another type")


class _Check:
    """The state of a check while the rows pass by."""

    def __init__(self, head: Head, sealer: Sealer, anchors: Sequence[Anchor]) -> None:
        self.head = head
        self.sealer = sealer
        self.anchors = anchors
        self.wanted = {each.position for each in anchors}
        """Positions whose links the anchors have."""
        self.links: dict[int, bytes] = {}
        """Links at these positions."""
        self.pruned_anchors: set[int] = set()
        """Positions among these whose links are gone, because a pruning removed the rows."""
        self.gaps: dict[int, Gap] = {}
        """Pruned rows by the first of them."""
        self.at = head.first - 1
        """The last row that was accounted for."""
        self.previous: Sequence[bytes] = (sealer.start(head.trail, head.first),)
        """Links that the row before may have; several if that row was changed, none if it is missing."""
        self.checked = self.before = self.pruned = self.other_keys = self.total = 0
        self.changes: list[Change] = []

    def run(self, connection: Connection, progress: Callable[[int], None]) -> Verification:
        self._note_link(self.at, self.previous[0])
        self._read_gaps(connection)
        for number, row in enumerate(_rows(connection)):
            self._row(row)
            if number % _PAGE == 0:
                progress(row[0])
        self._skip_to(self.head.position + 1)
        is_end = self.at == self.head.position and not self.head.is_unsealed
        if is_end and self.previous and not any(same(link, self.head.link) for link in self.previous):
            self._add(self.at, "was changed: its link is not that of the head")
        for gap in self.gaps.values():
            self._add(None, f"the record of pruned rows {gap.first} to {gap.last} fits no missing rows: it was changed")
        for each in self.anchors:
            self._compare(each)
        return _report(
            self.head,
            checked=self.checked,
            before_chain=self.before,
            pruned=self.pruned,
            anchors=sum(each.position in self.links for each in self.anchors),
            anchors_pruned=sum(each.position in self.pruned_anchors for each in self.anchors),
            anchors_of_other_keys=self.other_keys,
            changes=self.changes,
            total=self.total,
        )

    def _read_gaps(self, connection: Connection) -> None:
        for first, last, link, seal in connection.exec_driver_sql(_GAPS):
            gap = Gap(first=first, last=last, link=link)
            try:
                is_sealed = same(seal, self.sealer.gap(self.head.trail, gap)) and first <= last
            except (TypeError, struct.error):
                is_sealed = False
            if is_sealed:
                self.gaps[first] = gap
            else:
                self._add(None, f"the record of pruned rows {first} to {last} was changed: its seal does not fit it")

    def _row(self, row: Sequence[Any]) -> None:
        """Checks the next row."""
        position, link = row[0], row[6]
        if position < self.head.first:
            if link is not None or position < 1:
                self._add(position, "was added: the chain begins after it")
            else:
                self.before += 1
            return
        gap = self.gaps.get(self.at + 1)
        if gap is not None and position <= gap.last:
            self._add(position, "was added: it stands among rows that were pruned")
            return
        self._skip_to(position)
        if position > self.head.position:
            self._add(position, "was added: the trail ends before it")
            return
        self.checked += 1
        links = [self._link(link_before, row) for link_before in self.previous]
        if links and not any(same(each, link) for each in links):
            self._add(position, f"{_name(row)} was changed")
        self.at = position
        self.previous = (link,) if not links or same(links[0], link) else tuple(_usable(*links, link))
        self._note_link(position, link)

    def _link(self, previous: bytes, row: Sequence[Any]) -> bytes:
        position, run_id, seq, at, kind, data, _ = row
        try:
            return self.sealer.link(previous, (position, run_id, seq, at, kind, data))
        except (TypeError, AttributeError, ValueError, struct.error):
            return b""

    def _skip_to(self, position: int) -> None:
        """Accounts for the rows between the last one and `position`: pruned, or missing."""
        while self.at + 1 < position:
            start = self.at + 1
            gap = self.gaps.pop(start, None)
            if gap is not None and gap.last < position:
                self.pruned += gap.last - gap.first + 1
                self.at, self.previous = gap.last, (gap.link,)
                self.pruned_anchors.update(each for each in self.wanted if gap.first <= each < gap.last)
                self._note_link(gap.last, gap.link)
                continue
            last = min([position, self.head.position + 1, *(first for first in self.gaps if first > start)]) - 1
            if last < start:  # behind the end of the trail
                return
            self._add(start, "is missing" if last == start else f"and all rows to {last} are missing")
            self.at, self.previous = last, ()

    def _compare(self, anchor: Anchor) -> None:
        """Compares the trail with an anchor."""
        head, position = self.head, anchor.position
        if anchor.trail != head.trail:
            self._add(
                None, f"the anchor is of trail {anchor.trail} and this one is {head.trail}: the database was replaced"
            )
        elif anchor.key_id == self.sealer.key_id and not self._is_true(anchor):
            self._add(None, f"the anchor of row {position} was changed: its seal does not fit it")
        elif anchor.first != head.first or position < anchor.first - 1:
            self._add(
                None,
                f"the chain begins at row {head.first}, and the anchor of row {position} says that it begins at row "
                f"{anchor.first}: rows were taken out of the chain",
            )
        elif position > head.position:
            self._add(
                head.position + 1,
                f"and all rows to {position} are missing: the trail ends at row {head.position}, and the anchor says "
                f"that row {position} was written",
            )
        elif anchor.key_id != self.sealer.key_id:
            self.other_keys += 1
            self._add(None, _other_key(anchor, self.sealer.key_id))
        elif position not in self.links and position not in self.pruned_anchors:
            self._add(position, "cannot be compared with its anchor: it has no link")
        elif position in self.links and self.links[position].hex() != anchor.link:
            self._add(position, "is not the row of the anchor: rows up to it were changed and sealed again")

    def _is_true(self, anchor: Anchor) -> bool:
        try:
            link, seal = bytes.fromhex(anchor.link), bytes.fromhex(anchor.seal)
            head = Head(
                trail=anchor.trail, first=anchor.first, position=anchor.position, link=link, key_id=anchor.key_id
            )
            return same(seal, self.sealer.head(head))
        except (ValueError, struct.error):
            return False

    def _note_link(self, position: int, link: Any) -> None:
        if position in self.wanted and isinstance(link, bytes):
            self.links[position] = link

    def _add(self, row: int | None, what: str) -> None:
        self.total += 1
        if len(self.changes) < MOST_CHANGES:
            self.changes.append(Change(row=row, what=what))


def read_anchors(lines: Iterable[str]) -> Sequence[Anchor]:
    """Returns the anchors of a file, one a line. Raises `msgspec.DecodeError` for a line that is none."""
    return [msgspec.json.decode(line, type=Anchor) for line in lines if line.strip()]


def _other_key(anchor: Anchor, key_id: str) -> str:
    """Returns the sentence for an anchor that another key sealed, or none. A change of the key and a forgery look alike here:
    only the operator knows whether the key was changed after the anchor was written."""
    its, now = (f"with key {each}" if each else "without a key" for each in (anchor.key_id, key_id))
    written = datetime.fromtimestamp(anchor.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"the anchor of row {anchor.position} is sealed {its} and the trail {now}, so they cannot be compared: if you ran "
        f"`toolcaddie audit rekey` after {written}, this anchor is out of date, and anchors of the new key belong into a new "
        "file; if nobody did, somebody sealed the trail anew"
    )


def _rows(connection: Connection) -> Iterator[Sequence[Any]]:
    yield from connection.exec_driver_sql(_ROWS, execution_options={"stream_results": True, "yield_per": _PAGE})


def _usable(*links: Any) -> Iterator[bytes]:
    return (link for link in links if isinstance(link, bytes) and link)


def _name(row: Sequence[Any]) -> str:
    """Returns what a person knows a row by."""
    return f"({row[4]} of run {row[1]}, number {row[2]})"


def _report(head: Head | None = None, *, total: int | None = None, **values: Any) -> Verification:
    counts: Mapping[str, int] = {
        "checked": 0,
        "before_chain": 0,
        "pruned": 0,
        "anchors": 0,
        "anchors_pruned": 0,
        "anchors_of_other_keys": 0,
    }
    changes = values["changes"]
    return Verification(
        **{
            **counts,
            "position": 0 if head is None else head.position,
            "keyed": head is not None and bool(head.key_id),
            "changes_total": len(changes) if total is None else total,
            **values,
        }
    )
