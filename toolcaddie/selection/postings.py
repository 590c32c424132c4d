"""Where each word of a catalog stands: what the rankers by words share.

Arrays in the manner of a sparse matrix, by term and by tool, so that a query costs a few numpy calls whatever the catalog's
size. All that depends on how many tools have a word is counted among the tools that the request's caller may see (`Scope`):
no score tells anything about a hidden one.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from toolcaddie.catalog import Catalog, Mask
from toolcaddie.ports import QueryWords
from toolcaddie.selection.document import FIELDS, catalog_languages, document
from toolcaddie.selection.query import SMALL_TALK, Reading, read, stems_of
from toolcaddie.selection.remembered import Remembered
from toolcaddie.tool_types import Tool

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

K1 = 1.5
NAME_COUNTS = 2.0
"""How often a word of the name counts in the even view of a tool; every other word counts once, wherever it stands."""

_MOST_SCOPES = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A sparse matrix: the columns and values of row i are at `starts[i] : starts[i + 1]`."""

    starts: npt.NDArray[np.int64]
    columns: Ints
    values: tuple[Floats, ...]

    def turned(self, columns: int) -> Table:
        """The same entries with rows and columns exchanged; `columns` is how many there are, used or not."""
        order = np.argsort(self.columns, kind="stable")
        starts = np.zeros(columns + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.columns, minlength=columns), out=starts[1:])
        return Table(starts=starts, columns=self.rows()[order], values=tuple(each[order] for each in self.values))

    def rows(self) -> Ints:
        """The row of every entry."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))

    def gathered(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the entries of some rows are, one row after the other, and how many each has."""
        starts = self.starts[rows]
        counts = self.starts[rows + 1] - starts
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        return np.arange(total) + np.repeat(starts - ends + counts, counts), counts

    def summed(self, rows: npt.NDArray[np.int64], weights: Floats, size: int, value: int = 0) -> Floats:
        """For each of `size` columns the sum of its values in these rows, times the row's weight."""
        where, counts = self.gathered(rows)
        weighed = self.values[value][where] * np.repeat(weights, counts)
        return np.bincount(self.columns[where], weights=weighed, minlength=size).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scope:
    """What is counted among the visible tools."""

    having: Ints
    """Tools that have each term."""
    rarity: Floats
    """Inverse document frequency of each term (Robertson and Sparck Jones, smoothed to stay above 0)."""
    rarest: float
    """That of a term in no tool."""
    lengths: Floats
    """Euclidean length of each tool in the even view, words weighed by rarity."""
    names: Floats
    """Rarity of all words of each tool's name together."""
    in_names: Bools
    """Which terms stand in a name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """A query in terms of one catalog: one entry for each stem that the catalog knows."""

    reading: Reading
    ids: npt.NDArray[np.int64]
    term: npt.NDArray[np.int64]
    """Which term of the reading an entry is of."""
    content: Bools
    """Not of a stop word."""
    part: Floats
    """1 / stems of that term: the languages of a catalog share a word's weight."""

    def words(self) -> dict[int, str]:
        """For each entry's term of the vocabulary the word of the request that it was looked up for."""
        terms = self.reading.terms
        return {term: terms[place].word for term, place in zip(self.ids.tolist(), self.term.tolist(), strict=True)}


class Postings:
    """The words of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self.size = len(catalog)
        self.languages = catalog_languages(catalog)
        self.vocabulary: dict[str, int] = {}
        entries, named = _Entries(), _Entries()
        for tool in catalog.tools:
            self._enter(tool, catalog, entries, named)
        counts = entries.by_tool()
        raw, even = counts.values
        saturated = raw * (K1 + 1) / (raw + K1)
        self.by_tool = Table(starts=counts.starts, columns=counts.columns, values=(saturated, 1 + np.log(even)))
        """The terms of each tool, with the strength of the term (BM25F) and its even count."""
        self.by_term = self.by_tool.turned(len(self.vocabulary))
        self.by_name = named.by_tool().turned(len(self.vocabulary))
        """Tools that have a term in their name, with the term's part in its word."""
        self._scopes: OrderedDict[bytes, Scope] = OrderedDict()
        self._lock = threading.Lock()
        self._whole = self._counted(None)
        self._last = Remembered[Asked]()

    def asked(self, words: QueryWords) -> Asked:
        """A query looked up. Rankers asked about the same query one after the other share the work."""
        if (known := self._last.of(words)) is not None:
            return known
        reading = read(words, self.languages)
        found = [
            (identity, place, 1 / len(term.stems))
            for place, term in enumerate(reading.terms)
            for stem in term.stems
            if (identity := self.vocabulary.get(stem)) is not None
        ]
        ids, places, parts = zip(*found, strict=True) if found else ((), (), ())
        asked = Asked(
            reading=reading,
            ids=np.array(ids, dtype=np.int64),
            term=np.array(places, dtype=np.int64),
            content=np.array([reading.terms[place].content for place in places], dtype=np.bool_),
            part=np.array(parts, dtype=np.float32),
        )
        return self._last.keep(words, asked)

    def scope(self, mask: Mask | None) -> Scope:
        """The counts behind a mask, kept for the masks used last."""
        if mask is None:
            return self._whole
        key = mask.tobytes()
        with self._lock:
            if (known := self._scopes.get(key)) is not None:
                self._scopes.move_to_end(key)
                return known
        scope = self._counted(mask)
        with self._lock:
            self._scopes[key] = scope
            while len(self._scopes) > _MOST_SCOPES:
                self._scopes.popitem(last=False)
        return scope

    def speaks(self, asked: Asked, scope: Scope) -> bool:
        """Whether visible tools have a word of the query that says something: a content word, or a stop word of a name.
        Without one, what else the query shares with texts ("yes, do it") is chance."""
        return bool(((scope.having[asked.ids] > 0) & (asked.content | scope.in_names[asked.ids])).any())

    def known_share(self, asked: Asked, scope: Scope) -> float:
        """The part of a query that visible tools have words for, each message by its weight, stop words counting less."""
        known = set(asked.term[scope.having[asked.ids] > 0].tolist())
        got = total = 0.0
        for weight, members in asked.reading.messages:
            counts = [(1.0 if asked.reading.terms[each].content else SMALL_TALK, each in known) for each in members]
            whole = sum(count for count, _ in counts)
            if whole:
                got += weight * sum(count for count, hit in counts if hit) / whole
            total += weight
        return got / total if total else 0.0

    def _enter(self, tool: Tool, catalog: Catalog, entries: _Entries, named: _Entries) -> None:
        strengths: dict[int, float] = {}
        evenly: dict[int, float] = {}
        in_name: dict[int, float] = {}
        words = document(tool, catalog)
        for field in FIELDS:
            if not (found := words[field.name]):
                continue
            scale = field.weight / (1 - field.slope + field.slope * len(found) / field.pivot)
            times = NAME_COUNTS if field.name == "name" else 1.0
            for stems, count in Counter(stems_of(found, self.languages)).items():
                for stem in stems:
                    term = self.vocabulary.setdefault(stem, len(self.vocabulary))
                    strengths[term] = strengths.get(term, 0.0) + scale * count
                    evenly[term] = evenly.get(term, 0.0) + times * count
                    if field.name == "name":
                        in_name[term] = 1 / len(stems)
        entries.add(strengths, evenly)
        named.add(in_name, in_name)

    def _counted(self, mask: Mask | None) -> Scope:
        table, terms = self.by_term, len(self.vocabulary)
        rows = table.rows()
        seen = rows if mask is None else rows[mask[table.columns]]
        having = np.bincount(seen, minlength=terms).astype(np.int32)
        visible = self.size if mask is None else int(mask.sum())
        rarity = np.log1p((visible - having + 0.5) / (having + 0.5)).astype(np.float32)
        squares = np.bincount(table.columns, weights=(table.values[1] * rarity[rows]) ** 2, minlength=self.size)
        names = self.by_name
        name_rows = names.rows()
        named = np.bincount(names.columns, weights=names.values[0] * rarity[name_rows], minlength=self.size)
        shown = name_rows if mask is None else name_rows[mask[names.columns]]
        return Scope(
            having=having,
            rarity=rarity,
            rarest=float(np.log1p((visible + 0.5) / 0.5)),
            lengths=np.sqrt(np.maximum(squares, 1e-12)).astype(np.float32),
            names=np.maximum(named, 1e-6).astype(np.float32),
            in_names=np.bincount(shown, minlength=terms) > 0,
        )


def best_terms(
    by_tool: Table, positions: Sequence[int], worth: Floats, most: int, *, value: int | None = None, least: float = 0.0
) -> list[list[int]]:
    """For each tool its terms that are worth more than `least` to the query, the weightiest first.

    `value` names the values of the table that a term's worth is multiplied with; None: none.
    """
    where, counts = by_tool.gathered(np.array(positions, dtype=np.int64))
    terms = by_tool.columns[where]
    worths = worth[terms] if value is None else worth[terms] * by_tool.values[value][where]
    hits = np.flatnonzero(worths > least)
    tool = np.repeat(np.arange(len(positions)), counts)[hits]
    order = np.lexsort((-worths[hits], tool))
    best: list[list[int]] = [[] for _ in positions]
    for owner, term in zip(tool[order].tolist(), terms[hits][order].tolist(), strict=True):
        if len(best[owner]) < most:
            best[owner].append(term)
    return best


def postings_of(catalog: Catalog) -> Postings:
    """The catalog's postings, shared by all rankers that use them at the same time and gone with the last of these."""
    with _lock:
        if (known := _shared.get(catalog.version)) is not None:
            return known
    made = Postings(catalog)
    with _lock:
        return _shared.setdefault(catalog.version, made)


_shared: WeakValueDictionary[str, Postings] = WeakValueDictionary()
_lock = threading.Lock()


class _Entries:
    """Terms and their values, tool by tool, while they are gathered."""

    def __init__(self) -> None:
        self._terms: list[int] = []
        self._values: list[float] = []
        self._others: list[float] = []
        self._counts: list[int] = []

    def add(self, values: dict[int, float], others: dict[int, float]) -> None:
        """The next tool: values of its terms, and other values of the same terms."""
        self._terms.extend(values)
        self._values.extend(values.values())
        self._others.extend(others.values())
        self._counts.append(len(values))

    def by_tool(self) -> Table:
        starts = np.zeros(len(self._counts) + 1, dtype=np.int64)
        np.cumsum(np.array(self._counts, dtype=np.int64), out=starts[1:])
        values = np.array(self._values, dtype=np.float32), np.array(self._others, dtype=np.float32)
        return Table(starts=starts, columns=np.array(self._terms, dtype=np.int32), values=values)
