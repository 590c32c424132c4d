"""The search for the entries of the learning log that are most similar to a request. The ranker `learned` uses it.

An entry is a past request. The owner of an entry, a number, is the principal (caller) who made the request, or the operator's own
log. `unlimited` are the owners whose entries are all considered: the current caller and the operator.

Similarity is the cosine of features that are weighted by rarity. A search has two steps. The index gives candidates: the entries
that share the request's rarest features, as long as at most a fixed number of postings is read (a posting is an entry that has
the feature). Then each candidate is compared by all its features. The time of a search therefore hardly grows with the log.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.learning.features import Features, Floats, Hashes

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_POSTINGS = 12_000
"""The largest number of postings that are read for a request, those of its rarest features first."""
_CANDIDATES = 300
"""The largest number of candidates, which are compared exactly."""
_COMPARED = 2_000
"""The largest number of entries of a log in which all vectors are compared."""
_BITS = 16
"""Bits of a hash that are looked up in a table; the whole hash is compared afterwards."""
_NO_LIMIT = 0
"""Owner number that stands for every owner without a limit. It is also the number of the operator's log, which has no limit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """The features of many entries in flat arrays, one entry after the other."""

    starts: Ints
    """Entry i has the features `starts[i]` to `starts[i + 1]`."""
    hashes: Hashes
    values: Floats

    def __len__(self) -> int:
        return len(self.starts) - 1

    def subset(self, entries: Ints) -> Rows:
        """Returns the rows of these entries, in their order."""
        counts = np.diff(self.starts)[entries]
        where = _gathered(self.starts[entries], counts)
        return Rows(starts=_starts(counts), hashes=self.hashes[where], values=self.values[where])

    @classmethod
    def of(cls, all_of: Sequence[Features]) -> Rows:
        counts = np.array([len(each.hashes) for each in all_of], dtype=np.int64)
        return cls(
            starts=_starts(counts),
            hashes=np.concatenate([each.hashes for each in all_of]) if all_of else np.empty(0, dtype=np.uint32),
            values=np.concatenate([each.values for each in all_of]) if all_of else np.empty(0, dtype=np.float32),
        )

    @classmethod
    def joined(cls, first: Rows, second: Rows) -> Rows:
        return cls(
            starts=np.concatenate([first.starts, first.starts[-1] + second.starts[1:]]),
            hashes=np.concatenate([first.hashes, second.hashes]),
            values=np.concatenate([first.values, second.values]),
        )


class Rarity:
    """The rarity of each feature among entries, smoothed to stay above 0. `counts` has the weight of each entry, at most 1."""

    def __init__(self, rows: Rows, counts: Floats) -> None:
        self._hashes, numbers = np.unique(rows.hashes, return_inverse=True)
        self._total = float(counts.sum())
        weights = np.repeat(counts, np.diff(rows.starts))
        self._having = np.bincount(numbers, weights=weights, minlength=len(self._hashes)).astype(np.float32)

    def of(self, hashes: Hashes) -> Floats:
        """Returns the rarity of each of these features. It is highest for a feature that no entry has."""
        having = np.zeros(len(hashes), dtype=np.float32)
        if len(self._hashes):
            at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
            present = self._hashes[at] == hashes
            having[present] = self._having[at[present]]
        rarity: Floats = np.log1p((self._total - having + 0.5).clip(0.5) / (having + 0.5)).astype(np.float32)
        return rarity


class Index:
    """An inverted index of entries by their searched features, those with even hashes."""

    def __init__(self, rows: Rows, rarity: Rarity) -> None:
        self.rows = rows
        self.rarity = rarity
        self.lengths = lengths_of(rows, rarity)
        searched = np.flatnonzero((rows.hashes & 1) == 0)  # stems and pairs of words, not three-letter runs
        entries = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(rows.starts))[searched]
        order = np.argsort(rows.hashes[searched], kind="stable")
        hashes = rows.hashes[searched][order]
        self._hashes, starts = np.unique(hashes, return_index=True)
        self._starts = np.append(starts, len(hashes)).astype(np.int64)
        self._entries = entries[order]
        self._values = rows.values[searched][order]

    def candidates(self, request: Request, allowed: Bools, owners: Ints, unlimited: Sequence[int], most: int) -> Ints:
        """Returns the entries that share most with a request by its searched features.

        `allowed` has a flag for each entry of the index. Of each owner that is not in `unlimited`, at most `most` entries are
        returned if there are more candidates than can be compared.
        """
        hashes, worth = request.hashes, request.worth
        if not len(self._hashes):
            return np.empty(0, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        shared_features = np.flatnonzero((self._hashes[at] == hashes) & ((hashes & 1) == 0))
        at = at[shared_features]
        counts = self._starts[at + 1] - self._starts[at]
        cheapest = np.argsort(counts, kind="stable")
        within = np.cumsum(counts[cheapest]) <= _POSTINGS
        within[:1] = True  # a request of one frequent word is looked up all the same
        affordable = cheapest[within]
        at, counts, shared_features = at[affordable], counts[affordable], shared_features[affordable]
        where = _gathered(self._starts[at], counts)
        weights = self._values[where] * np.repeat(worth[shared_features], counts)
        shared = np.bincount(self._entries[where], weights=weights, minlength=len(self.rows))
        entries = np.flatnonzero(shared)
        entries = entries[allowed[entries]]
        if len(entries) <= _CANDIDATES:
            return entries
        likeness = shared[entries] / self.lengths[entries]
        limited = limited_owners(owners[entries], unlimited)
        if limited.any():
            order = np.argsort(-likeness, kind="stable")
            order = order[first_of_each(limited[order], most)]
            entries, likeness = entries[order], likeness[order]
            if len(entries) <= _CANDIDATES:
                return np.sort(entries)
        return entries[np.argpartition(-likeness, _CANDIDATES)[:_CANDIDATES]]


class Meanings:
    """The vectors of entries. In a small log few requests share words, so all vectors are compared; in a large log the candidates
    found by words suffice, and no vectors are searched."""

    def __init__(self, rows: Floats) -> None:
        self.rows = rows
        """float32; each row has length 1, or is zero if the entry has no vector."""

    def near(
        self, vector: Floats, allowed: Bools, owners: Ints, unlimited: Sequence[int], most: int, limit: int
    ) -> Ints:
        """Returns at most `limit` entries nearest to a vector, and of each owner that is not in `unlimited` at most `most`. If
        the log is large, no entries are returned."""
        if len(self.rows) > _COMPARED:
            return np.empty(0, dtype=np.int64)
        entries = np.flatnonzero(allowed)
        order = np.argsort(-(self.rows @ vector)[entries], kind="stable")
        entries = entries[order]
        limited = limited_owners(owners[entries], unlimited)
        return (entries[first_of_each(limited, most)] if limited.any() else entries)[:limit]


class Request:
    """The features of a request, weighted by rarity, ready to be compared with entries.

    `worth` has, for each feature, its strength times the square of its rarity: once for the request and once for the entry.
    """

    def __init__(self, features: Features, rarity: Rarity) -> None:
        rare = rarity.of(features.hashes)
        self.hashes = features.hashes
        self.worth: Floats = features.values * rare * rare
        self.length = float(np.sqrt(np.square(features.values * rare).sum()))

    def likeness(self, rows: Rows, lengths: Floats, entries: Ints) -> Floats:
        """Returns the cosines of the request with these entries, 0 to 1. `lengths` has the lengths of all entries of `rows`."""
        starts = rows.starts.take(entries)
        counts = rows.starts.take(entries + 1) - starts
        where = _gathered(starts, counts)
        hashes, lengths = rows.hashes.take(where), lengths.take(entries)
        if not len(hashes) or not self.length:
            return np.zeros(len(counts), dtype=np.float32)
        table = _table()
        # The table holds one feature for each value of the low `_BITS` bits, which `uint16` has. If two features of the request
        # have the same low bits, only the last one counts, so the cosine is a little too small.
        low = self.hashes & ((1 << _BITS) - 1)
        table[low] = np.arange(len(self.hashes), dtype=np.int16)
        at = table.take(hashes.astype(np.uint16))  # index of the request's feature with the same low bits, or -1
        table[low] = -1
        hits = np.flatnonzero(at >= 0)
        hits = hits[self.hashes.take(at.take(hits)) == hashes.take(hits)]
        entry_of = np.repeat(np.arange(len(counts)), counts)[hits]
        values = rows.values.take(where.take(hits))
        shared = np.bincount(entry_of, weights=values * self.worth[at[hits]], minlength=len(counts))
        cosines: Floats = np.minimum(shared / (lengths * self.length), 1.0).astype(np.float32)
        return cosines


def first_of_each(owners: Ints, most: int) -> Ints:
    """Returns the indexes of the first `most` entries of each owner in `limited_owners`, and of all entries without a limit."""
    order = np.argsort(owners, kind="stable")
    new = np.append(True, owners[order][1:] != owners[order][:-1])
    place = np.arange(len(order)) - np.flatnonzero(new)[np.cumsum(new) - 1]
    return np.sort(order[(owners[order] == _NO_LIMIT) | (place < most)])


def limited_owners(owners: Ints, unlimited: Sequence[int]) -> Ints:
    """Returns the owner number of each entry, with 0 in place of the `unlimited` owners, so that `any()` on the result tells
    whether an entry has a limit."""
    if not owners.any():
        return owners
    free = np.zeros(len(owners), dtype=np.bool_)
    for owner in unlimited:
        free |= owners == owner
    return np.where(free, _NO_LIMIT, owners)


def lengths_of(rows: Rows, rarity: Rarity) -> Floats:
    """Returns the Euclidean length of each entry's features, weighted by rarity; never 0."""
    entry_of = np.repeat(np.arange(len(rows)), np.diff(rows.starts))
    squares = np.bincount(entry_of, weights=np.square(rows.values * rarity.of(rows.hashes)), minlength=len(rows))
    lengths: Floats = np.sqrt(np.maximum(squares, 1e-9)).astype(np.float32)
    return lengths


_local = threading.local()


def _table() -> npt.NDArray[np.int16]:
    """Returns this thread's table, which maps the low bits of a hash to the index of a request's feature, or to -1. A caller
    fills the table and resets it to -1 after use."""
    if not hasattr(_local, "table"):
        _local.table = np.full(1 << _BITS, -1, dtype=np.int16)
    table: npt.NDArray[np.int16] = _local.table
    return table


def _starts(counts: Ints) -> Ints:
    """Returns the index at which each entry begins in a flat array, and the end of the last one."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _gathered(starts: Ints, counts: Ints) -> Ints:
    """Returns the indexes of the values of some rows in a flat array, one row after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    where: Ints = np.arange(total) + np.repeat(starts - ends + counts, counts)
    return where
