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
from typing import Any

import numpy as np
import numpy.typing as npt

from toolcaddie.learning.features import Features, Floats, Hashes

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Halves = npt.NDArray[np.float16]

_POSTINGS = 4_000
"""The largest number of postings that are read for a request, those of its rarest features first."""
_CANDIDATES = 300
"""The largest number of candidates in a small log, which are compared exactly."""
_CANDIDATES_OF_MANY = 120
"""The same in a large log, in which so many entries are similar enough."""
_COMPARED = 2_000
"""The largest number of entries of a small log, in which all vectors are compared."""
_OF_ONE = 4
"""The largest share of the candidates that one owner with a limit may have is 1 / _OF_ONE."""
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
    values: Halves

    def __len__(self) -> int:
        return len(self.starts) - 1

    def subset(self, entries: Ints) -> Rows:
        """Returns the rows of these entries, in their order."""
        counts = np.diff(self.starts)[entries]
        where = _gathered(self.starts[entries], counts)
        return Rows(starts=_starts(counts), hashes=self.hashes[where], values=self.values[where])

    @classmethod
    def joined(cls, first: Rows, second: Rows) -> Rows:
        return cls(
            starts=np.concatenate([first.starts, first.starts[-1] + second.starts[1:]]),
            hashes=np.concatenate([first.hashes, second.hashes]),
            values=np.concatenate([first.values, second.values]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vectors:
    """The vectors of many entries, in one byte per dimension: `bytes` times `scales`. Their cosines are accurate to 0.002."""

    bytes: npt.NDArray[np.int8]
    scales: Floats

    def __len__(self) -> int:
        return len(self.scales)

    def subset(self, entries: Ints) -> Vectors:
        return Vectors(bytes=self.bytes[entries], scales=self.scales[entries])

    def floats(self) -> Floats:
        """Returns the vectors; each has length 1, or is zero if the entry has no vector."""
        vectors: Floats = self.bytes.astype(np.float32) * self.scales[:, None]
        return vectors

    def cosines(self, entries: Ints, vector: Floats) -> Floats:
        """Returns the cosines of these entries with a vector of length 1; 0 if an entry has no vector."""
        cosines: Floats = (self.bytes.take(entries, axis=0).astype(np.float32) @ vector) * self.scales[entries]
        return cosines

    @classmethod
    def joined(cls, first: Vectors, second: Vectors) -> Vectors:
        return cls(
            bytes=np.concatenate([first.bytes, second.bytes]), scales=np.concatenate([first.scales, second.scales])
        )


class Tail:
    """The features and vectors of the entries that were added after the last index, in arrays that grow. Rows that were returned
    stay as they are while entries are added."""

    def __init__(self, dimensions: int) -> None:
        self._count = 0
        self._starts = np.zeros(1, dtype=np.int64)
        self._hashes: Hashes = np.empty(0, dtype=np.uint32)
        self._values: Halves = np.empty(0, dtype=np.float16)
        self._bytes = np.empty((0, dimensions), dtype=np.int8)
        self._scales: Floats = np.empty(0, dtype=np.float32)

    def __len__(self) -> int:
        return self._count

    def add(self, features: Features, vector: Floats) -> None:
        """Appends an entry. A vector of length 1, or zeros."""
        start, number = int(self._starts[self._count]), self._count
        end = start + len(features.hashes)
        self._starts = _grown(self._starts, number + 1, number + 2)
        self._hashes, self._values = _grown(self._hashes, start, end), _grown(self._values, start, end)
        self._bytes, self._scales = _grown(self._bytes, number, number + 1), _grown(self._scales, number, number + 1)
        self._starts[number + 1] = end
        self._hashes[start:end], self._values[start:end] = features.hashes, features.values
        scale = float(np.abs(vector).max(initial=0.0)) / 127
        self._bytes[number] = np.rint(vector / scale) if scale else 0
        self._scales[number] = scale
        self._count += 1

    def rows(self) -> Rows:
        end = int(self._starts[self._count])
        return Rows(starts=self._starts[: self._count + 1], hashes=self._hashes[:end], values=self._values[:end])

    def vectors(self) -> Vectors:
        return Vectors(bytes=self._bytes[: self._count], scales=self._scales[: self._count])

    def after(self, count: int) -> Tail:
        """Returns the tail without its first entries."""
        tail = Tail(self._bytes.shape[1])
        start, end = self._starts[count], self._starts[self._count]
        tail._count = self._count - count
        tail._starts = self._starts[count : self._count + 1] - start
        tail._hashes, tail._values = self._hashes[start:end].copy(), self._values[start:end].copy()
        tail._bytes, tail._scales = self._bytes[count : self._count].copy(), self._scales[count : self._count].copy()
        return tail


class Rarity:
    """The rarity of each feature among entries, smoothed to stay above 0."""

    def __init__(self, hashes: Hashes, having: Floats, total: float) -> None:
        """`hashes`: the features of the entries in rising order, each once; `having`: the weight of the entries that have each;
        `total`: the weight of all entries."""
        self._hashes = hashes
        self._having = having
        self._total = total

    def places(self, hashes: Hashes) -> Ints:
        """Returns the number of each of these features, in rising order of all hashes, or -1 if no entry has it."""
        if not len(self._hashes):
            return np.full(len(hashes), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        return np.where(self._hashes[at] == hashes, at, -1)

    def of(self, hashes: Hashes) -> Floats:
        """Returns the rarity of each of these features. It is highest for a feature that no entry has."""
        return self.at(self.places(hashes))

    def at(self, places: Ints) -> Floats:
        """Returns the rarity of the features with these numbers (`places`)."""
        having = np.zeros(len(places), dtype=np.float32)
        present = places >= 0
        having[present] = self._having[places[present]]
        rarity: Floats = np.log1p((self._total - having + 0.5).clip(0.5) / (having + 0.5)).astype(np.float32)
        return rarity


class Index:
    """An inverted index of entries by their searched features, those with even hashes. `shares` has the weight of each entry when
    the frequency of features is counted, at most 1."""

    def __init__(self, rows: Rows, shares: Floats) -> None:
        self.rows = rows
        sizes = np.diff(rows.starts)
        hashes, numbers = np.unique(rows.hashes, return_inverse=True)
        having = np.bincount(numbers, weights=np.repeat(shares, sizes), minlength=len(hashes)).astype(np.float32)
        self.rarity = Rarity(hashes, having, float(shares.sum()))
        self.lengths = lengths_of(rows, self.rarity.at(np.arange(len(hashes)))[numbers])
        searched = np.flatnonzero((rows.hashes & 1) == 0)  # stems and pairs of words, not three-letter runs
        numbers = numbers[searched].astype(np.int32)
        order = np.argsort(numbers, kind="stable")
        self._starts = _starts(np.bincount(numbers, minlength=len(hashes)))
        self._entries = np.repeat(np.arange(len(rows), dtype=np.int32), sizes)[searched[order]]
        self._values = rows.values[searched[order]]

    def candidates(self, request: Request, allowed: Bools, owners: Ints, unlimited: Sequence[int]) -> Ints:
        """Returns the entries that share most with a request by its searched features.

        `allowed` has a flag for each entry of the index. Each owner that is not in `unlimited` has at most a quarter
        of the result if there are more candidates than can be compared.
        """
        searched = np.flatnonzero((request.places >= 0) & ((request.hashes & 1) == 0))
        at = request.places[searched]
        counts = self._starts[at + 1] - self._starts[at]
        cheapest = np.argsort(counts, kind="stable")
        within = np.cumsum(counts[cheapest]) <= _POSTINGS
        within[:1] = True  # a request of one frequent word is looked up all the same
        affordable = cheapest[within]
        at, counts, searched = at[affordable], counts[affordable], searched[affordable]
        where = _gathered(self._starts[at], counts)
        weights = self._values[where].astype(np.float32) * np.repeat(request.worth[searched], counts)
        entries, shared = _summed(self._entries[where], weights, len(self.rows))
        shown = allowed[entries]
        entries, shared = entries[shown], shared[shown]
        limit = _CANDIDATES if len(self.rows) <= _COMPARED else _CANDIDATES_OF_MANY
        if len(entries) <= limit:
            return np.sort(entries)
        likeness = shared / self.lengths[entries]
        limited = limited_owners(owners[entries], unlimited)
        if limited.any():
            order = np.lexsort((entries, -likeness))
            order = order[first_of_each(limited[order], limit // _OF_ONE)]
            entries, likeness = entries[order], likeness[order]
            if len(entries) <= limit:
                return np.sort(entries)
        return np.sort(entries[np.argpartition(-likeness, limit)[:limit]])


class Meanings:
    """The vectors of the entries of an index. In a small log few requests share words, so all vectors are compared; in a large
    log the candidates found by words suffice, and no vectors are searched."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self._all = vectors.floats() if len(vectors) <= _COMPARED else None

    def near(
        self, vector: Floats, allowed: Bools, owners: Ints, unlimited: Sequence[int], most: int, limit: int
    ) -> Ints:
        """Returns at most `limit` entries nearest to a vector, and of each owner that is not in `unlimited` at most `most`. If
        the log is large, no entries are returned."""
        if self._all is None:
            return np.empty(0, dtype=np.int64)
        entries = np.flatnonzero(allowed)
        order = np.argsort(-(self._all @ vector)[entries], kind="stable")
        entries = entries[order]
        limited = limited_owners(owners[entries], unlimited)
        return (entries[first_of_each(limited, most)] if limited.any() else entries)[:limit]


class Request:
    """The features of a request, weighted by rarity, ready to be compared with entries.

    `worth` has, for each feature, its strength times the square of its rarity: once for the request and once for the entry.
    """

    def __init__(self, features: Features, rarity: Rarity) -> None:
        self.hashes = features.hashes
        self.places = rarity.places(features.hashes)
        rare = rarity.at(self.places)
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


def lengths_of(rows: Rows, rarity: Floats) -> Floats:
    """Returns the Euclidean length of each entry's features, weighted by the `rarity` of each; never 0."""
    entry_of = np.repeat(np.arange(len(rows)), np.diff(rows.starts))
    squares = np.bincount(entry_of, weights=np.square(rows.values * rarity), minlength=len(rows))
    lengths: Floats = np.sqrt(np.maximum(squares, 1e-9)).astype(np.float32)
    return lengths


def _summed(entries: npt.NDArray[np.int32], values: Floats, count: int) -> tuple[Ints, Floats]:
    """Returns each of the `entries` once, with the sum of its values. `count`: the number of all entries. It takes time for the
    given entries, not for all: an array that is used again holds the last place of each entry, and only those are read."""
    places = _places(count)
    numbers = np.arange(len(entries), dtype=np.int32)
    places[entries] = numbers
    last = places[entries]
    sums = np.bincount(last, weights=values, minlength=len(entries))
    once = np.flatnonzero(last == numbers)
    return entries[once].astype(np.int64), sums[once].astype(np.float32)


_local = threading.local()


def _table() -> npt.NDArray[np.int16]:
    """Returns this thread's table, which maps the low bits of a hash to the index of a request's feature, or to -1. A caller
    fills the table and resets it to -1 after use."""
    if not hasattr(_local, "table"):
        _local.table = np.full(1 << _BITS, -1, dtype=np.int16)
    table: npt.NDArray[np.int16] = _local.table
    return table


def _places(count: int) -> npt.NDArray[np.int32]:
    """Returns an array of at least `count` values, with any content, that this thread may fill."""
    if not hasattr(_local, "places") or len(_local.places) < count:
        _local.places = np.empty(count, dtype=np.int32)
    places: npt.NDArray[np.int32] = _local.places
    return places


def _grown(array: npt.NDArray[Any], used: int, needed: int) -> npt.NDArray[Any]:
    """Returns the array if it has room for `needed` rows, or else one of twice that size that begins with the `used` rows."""
    if needed <= len(array):
        return array
    larger = np.empty((2 * needed, *array.shape[1:]), dtype=array.dtype)
    larger[:used] = array[:used]
    return larger


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
