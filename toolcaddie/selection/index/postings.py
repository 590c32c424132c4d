"""The index of a catalog's words, shared by the rankers that compare words.

A term is a stem in the vocabulary of the catalog, and a number (`ids`) in all arrays. The index consists of sparse matrices with
a row for each tool and a column for each term, so that a query takes a few numpy calls. Each entry has two values: the strength
of the term in the tool (BM25F, with weighted fields) and the even count (1 + the logarithm of the
number of occurrences, of which those in the name count twice and those in any other field once).

The rarity of a term is counted among the tools that the caller may see (`Scope`), so that no score reveals anything about a
hidden tool.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords
from toolcaddie.core.tool import Tool
from toolcaddie.ports import Visible
from toolcaddie.selection.index.change import CatalogChange, are_too_many, change_between
from toolcaddie.selection.index.document import FIELDS, catalog_languages, document
from toolcaddie.selection.index.inverted import InvertedTable, Table
from toolcaddie.selection.query import SMALL_TALK, Reading, read, stems_of
from toolcaddie.selection.stopwords import Language
from toolcaddie.selection.word_table import word_table
from toolcaddie.util.bounded import Bounded

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

K1 = 1.5
"""BM25's parameter of saturation: how soon further occurrences of a word stop to count."""
NAME_COUNTS = 2.0
"""Even count of an occurrence in a tool's name; an occurrence in any other field has 1."""

STRENGTH = 0
"""Index of the first value of an entry, the strength."""
EVEN_COUNT = 1
"""Index of the second value of an entry, the even count."""
_PART = 0
"""Index of the only value of an entry in the table of names: the term's part in its word."""

_TERMS_DESCRIBED = 12
"""The number of terms besides its name from which a tool counts as fully described."""
_SLIGHT = 1e-3
"""The change of the rarity of a term, times the rarity, up to which the lengths of tools stay as they are. It changes a length
by about one part in 100,000, and that of a tool with few words by one in 10,000."""
_MOST_SCOPES = 64
"""The largest number of sets of visible tools (masks) whose counts of terms (`Scope`) are cached."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scope:
    """Counts among the tools that a caller may see."""

    having: Ints
    """The number of visible tools that have each term."""
    rarity: Floats
    """Inverse document frequency of each term (Robertson and Sparck Jones, smoothed to stay above 0)."""
    rarest: float
    """Rarity of a term that no tool has."""
    lengths: Floats
    """Euclidean length of each tool's even counts, weighted by rarity."""
    long_lengths: Floats
    """The same as if each tool had four more words that no other tool has."""
    names: Floats
    """Sum of the rarities of the words in each tool's name."""
    in_names: Bools
    """Flags of the terms that occur in the name of a visible tool."""
    described: float
    """Mean of how far the tools are described, 0 to 1: in a catalog of names, a common word proves little. 0 without tools."""


class QueryTerms(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The words of a query that occur in one catalog, for one set of visible tools.

    The arrays `ids`, `term`, `content`, `weights`, `rarity` and `visible` have an entry for each stem of a query word that is in
    the vocabulary. A word has several stems if the catalog has several languages. `term_weights` and `nearest` have one value for
    each word.
    """

    reading: Reading
    """All words of the query."""
    scope: Scope
    ids: npt.NDArray[np.int64]
    """Number of each entry's stem in the vocabulary."""
    term: npt.NDArray[np.int64]
    """Index of each entry's word in `reading.terms`."""
    content: Bools
    """True if the entry's word is a content word, False if it is a stop word."""
    weights: Floats
    """Weight of the entry's word / the number of its stems, because these share the weight of the word."""
    rarity: Floats
    """Rarity of the entry's stem among the visible tools."""
    visible: Bools
    """True if a visible tool has the entry's stem."""
    has_content: bool
    """True if a visible tool has a content word of the query, or a stop word of the query in its name. Otherwise the tools and
    the query have only words like those of "yes, do it" in common, by chance."""
    term_weights: Floats
    """Weight of each word of `reading.terms`."""
    nearest: Floats
    """The highest weight of a message that contains each word of `reading.terms`."""

    @property
    def known_share(self) -> float:
        """Returns the share of the query's words that visible tools have: the mean of the shares of its messages, by the weights
        of these. Stop words count less than content words."""
        matched_terms = set(self.term[self.visible].tolist())
        terms = self.reading.terms
        matched = total = 0.0
        for weight, members in self.reading.messages:
            counts = [(1.0 if terms[each].content else SMALL_TALK, each in matched_terms) for each in members]
            whole = sum(count for count, _ in counts)
            if whole:
                matched += weight * sum(count for count, hit in counts if hit) / whole
            total += weight
        return matched / total if total else 0.0

    def words(self) -> dict[int, str]:
        """Returns the word of the request for each vocabulary number in `ids`."""
        terms = self.reading.terms
        return {term: terms[place].word for term, place in zip(self.ids.tolist(), self.term.tolist(), strict=True)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowSums:
    """Sums over the terms of each row, from which the lengths of all tools follow when a tool is added or removed.

    The rarity of a term is log(n + 1) - log(h + 0.5), if h of n tools have it. So the sum of the squares of even count times
    rarity is a polynomial in log(n + 1), whose coefficients change only for tools with a term whose h has changed. Float64,
    because changes add up.
    """

    terms: Doubles
    """[3, rows]: the sum of the squared even counts, alone, times log(h + 0.5), and times the square of log(h + 0.5)."""
    names: Doubles
    """[2, rows]: the sum of the parts of the terms in the tool's name, alone and times log(h + 0.5)."""
    having: Longs
    """The h of each term that the sums of `terms` are made with. For a term of thousands of tools, one tool more changes next to
    nothing (`_SLIGHT`), but would change the sums of thousands of tools, so it is postponed until the change is larger."""

    @classmethod
    def of(cls, terms: Table, names: Table, having: Longs, counted: Longs) -> RowSums:
        """Returns the sums of some rows. `counted`: the field `having`."""
        logs, exact = _log(counted), _log(having)
        ones = np.ones(len(logs))
        return cls(
            terms=terms.weighed(np.stack([ones, logs, logs * logs]), EVEN_COUNT, squared=True),
            names=names.weighed(np.stack([ones, exact]), _PART),
            having=counted,
        )

    def lengths(self, tools: int) -> Floats:
        """Returns the Euclidean length of the even counts of each row, weighted by rarity among this number of tools."""
        log = np.log(tools + 1)
        squares = log * log * self.terms[0] - 2 * log * self.terms[1] + self.terms[2]
        lengths: Floats = np.sqrt(np.maximum(squares, 1e-12)).astype(np.float32)
        return lengths

    def name_rarities(self, tools: int) -> Floats:
        """Returns the sum of the rarities of the words in the name of each row."""
        rarities: Floats = (np.log(tools + 1) * self.names[0] - self.names[1]).astype(np.float32)
        return rarities

    def joined(self, more: RowSums) -> RowSums:
        """Returns these rows followed by others."""
        return RowSums(
            having=more.having,
            terms=np.concatenate([self.terms, more.terms], axis=1),
            names=np.concatenate([self.names, more.names], axis=1),
        )

    def only(self, rows: Longs, terms: Bools) -> RowSums:
        """Returns the sums of some rows, all of whose terms are among those with a flag."""
        return RowSums(terms=self.terms[:, rows], names=self.names[:, rows], having=self.having[terms])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TermIndex:
    """The words of a catalog's tools. A tool has the same row in both tables, and keeps it when other tools change."""

    languages: tuple[Language, ...]
    vocabulary: dict[str, int]
    """Column of each term, including terms of removed tools until the tables are built again."""
    terms: InvertedTable
    """The terms of each tool, each with its strength and its even count."""
    names: InvertedTable
    """The terms of each tool's name, each with its part in its word: 1 / the number of stems of the word."""
    rows: Longs
    """Row of each tool, by its position in the catalog."""
    having: Longs
    """The number of tools that have each term."""
    in_names: Longs
    """The number of tools that have each term in their name."""
    sums: RowSums

    @classmethod
    def of(cls, catalog: Catalog) -> TermIndex:
        """Returns the index of a catalog, made from all its tools."""
        languages = catalog_languages(catalog)
        terms, names, vocabulary = _entered(catalog.tools, catalog, languages, {})
        having = terms.counted(None, len(vocabulary))
        return cls(
            languages=languages,
            vocabulary=vocabulary,
            terms=InvertedTable.of(terms, len(vocabulary)),
            names=InvertedTable.of(names, len(vocabulary)),
            rows=np.arange(len(catalog)),
            having=having,
            in_names=names.counted(None, len(vocabulary)),
            sums=RowSums.of(terms, names, having, having),
        )

    def changed(self, change: CatalogChange) -> TermIndex:
        """Returns the index of the changed catalog. It gives the same scores as a new index; only the numbers of terms differ."""
        catalog, added = change.after, change.added
        languages = catalog_languages(catalog)
        if languages != self.languages:
            return TermIndex.of(catalog)  # every stem may be different
        new_tools = [catalog.tools[position] for position in added.tolist()]
        terms, names, vocabulary = _entered(new_tools, catalog, languages, self.vocabulary)
        width = len(vocabulary)
        removed_rows = self.rows[change.removed]
        rows = self.rows[change.origin]
        rows[added] = np.arange(len(self.terms), len(self.terms) + len(added))
        padding = np.zeros(width - len(self.vocabulary), dtype=np.int64)
        gone = self.terms.entries(removed_rows).counted(None, width)
        having = np.concatenate([self.having, padding]) + terms.counted(None, width) - gone
        more = RowSums.of(terms, names, having, self._counted_with(having, len(rows)))
        index = TermIndex(
            languages=languages,
            vocabulary=vocabulary,
            terms=self.terms.joined(terms, width),
            names=self.names.joined(names, width),
            rows=rows,
            having=having,
            in_names=np.concatenate([self.in_names, padding])
            + names.counted(None, width)
            - self.names.entries(removed_rows).counted(None, width),
            sums=self._recounted(more, having),
        )
        loose = len(index.terms) - len(rows) + len(index.terms.late)
        return index._compact() if are_too_many(loose, len(rows)) else index

    @property
    def by_position(self) -> Longs | None:
        """The rows of the tools; None: each tool's row is its position."""
        return (
            None if len(self.terms) == len(self.rows) and (self.rows == np.arange(len(self.rows))).all() else self.rows
        )

    def _recounted(self, added: RowSums, having: Longs) -> RowSums:
        """Returns the sums after the number of tools that have each term became `having`, followed by those of `added` rows,
        which are made with the numbers of `_counted_with`."""
        sums, counted, rows = self.sums.joined(added), added.having, len(self.terms)
        size = len(self.having)
        # `joined` made new arrays, which nobody else has yet.
        changed = np.flatnonzero(self.having != having[:size])
        logs = _log(having[changed]) - _log(self.having[changed])
        sums.names[1:, :rows] += self.names.weighed(changed, logs[None], _PART)
        changed = np.flatnonzero(self.sums.having != counted[:size])
        old, new = _log(self.sums.having[changed]), _log(counted[changed])
        squares = np.stack([new - old, new**2 - old**2])
        sums.terms[1:, :rows] += self.terms.weighed(changed, squares, EVEN_COUNT, squared=True)
        return sums

    def _counted_with(self, having: Longs, tools: int) -> Longs:
        """Returns the number of tools with each term with which the sums are made from now on: `having`, but for terms of which a
        small change is postponed."""
        counted = having.copy()
        counted[: len(self.having)] = self.sums.having
        changed = np.flatnonzero(counted != having)
        new = _log(having[changed])
        large = np.abs(new - _log(counted[changed])) * (np.log(tools + 1) - new) > _SLIGHT
        counted[changed[large]] = having[changed[large]]
        return counted

    def _compact(self) -> TermIndex:
        """Returns the index without the rows and terms of removed tools, and with all rows early."""
        used = self.having > 0
        places = np.cumsum(used) - 1
        width = int(used.sum())
        return TermIndex(
            languages=self.languages,
            vocabulary={term: int(places[at]) for term, at in self.vocabulary.items() if used[at]},
            terms=self.terms.only(self.rows, places, width),
            names=self.names.only(self.rows, places, width),
            rows=np.arange(len(self.rows)),
            having=self.having[used],
            in_names=self.in_names[used],
            sums=self.sums.only(self.rows, used),
        )


class Postings:
    """The words of one catalog: sums and counts in the order of its tools, for the rankers."""

    def __init__(self, catalog: Catalog, term_index: TermIndex) -> None:
        self.catalog = catalog
        self.term_index = term_index
        self.size = len(term_index.rows)
        self.vocabulary: Mapping[str, int] = term_index.vocabulary
        self.has_unused_terms = bool((term_index.having == 0).any())
        """True if the vocabulary has terms that only removed tools had."""
        self._rows = term_index.by_position
        self._described = np.minimum(self.sizes() / _TERMS_DESCRIBED, 1.0)
        self._scopes: Bounded[bytes, Scope] = Bounded(_MOST_SCOPES)
        self._whole = self._counted(None)
        self._latest: tuple[QueryWords, Visible | None, QueryTerms] | None = None

    def term_index_of(self, catalog: Catalog) -> TermIndex:
        """Returns the index of a catalog that differs in few tools."""
        return self.term_index.changed(change_between(self.catalog, catalog))

    def summed(self, ids: Longs, weights: Floats, value: int = STRENGTH) -> Floats:
        """Returns for each tool the sum over these terms of value times weight. `value`: `STRENGTH` or `EVEN_COUNT`."""
        return self._placed(self.term_index.terms.summed(ids, weights, value))

    def name_sums(self, ids: Longs, weights: Floats) -> Floats:
        """Returns for each tool the sum over these terms in its name of the term's part in its word times the weight."""
        return self._placed(self.term_index.names.summed(ids, weights))

    def terms_of(self, positions: Sequence[int]) -> Table:
        """Returns a table of the terms of some tools, with a row for each tool and the values `STRENGTH` and `EVEN_COUNT`."""
        rows = np.array(positions, dtype=np.int64)
        return self.term_index.terms.entries(rows if self._rows is None else self._rows[rows])

    def terms_at(self, position: int) -> list[int]:
        """Returns the terms of one tool."""
        columns: list[int] = self.term_index.terms.columns_at(
            position if self._rows is None else int(self._rows[position])
        ).tolist()
        return columns

    def sizes(self) -> Longs:
        """Returns the number of terms of each tool, without those of its name."""
        whole, names = self.term_index.terms, self.term_index.names
        return self._placed(whole.sizes() - names.sizes())

    def query_terms(self, words: QueryWords, mask: Visible | None = None) -> QueryTerms:
        """Looks up the words of a query in the vocabulary, for the tools that `mask` shows. The latest result is cached for the
        other rankers of the same query; if two threads replace it at the same time, the words are looked up twice."""
        latest = self._latest
        if latest is not None and latest[0] is words and latest[1] is mask:
            return latest[2]
        reading, scope = read(words, self.term_index.languages), self.scope(mask)
        number, share = self.vocabulary.get, word_table().share
        term_weights = [term.weight * share(term.word) for term in reading.terms]
        numbers: list[int] = []
        places: list[int] = []
        weights: list[float] = []
        content: list[bool] = []
        for place, term in enumerate(reading.terms):
            for stem in term.stems:
                if (identity := number(stem)) is not None:
                    numbers.append(identity)
                    places.append(place)
                    weights.append(term_weights[place] / len(term.stems))
                    content.append(term.content)
        ids = np.array(numbers, dtype=np.int64)
        is_content = np.array(content, dtype=np.bool_)
        visible = scope.having[ids] > 0
        query_terms = QueryTerms(
            reading=reading,
            scope=scope,
            ids=ids,
            term=np.array(places, dtype=np.int64),
            content=is_content,
            weights=np.array(weights, dtype=np.float32),
            rarity=scope.rarity[ids],
            visible=visible,
            has_content=bool((visible & (is_content | scope.in_names[ids])).any()),
            term_weights=np.array(term_weights, dtype=np.float32),
            nearest=np.array([term.nearest for term in reading.terms], dtype=np.float32),
        )
        self._latest = words, mask, query_terms
        return query_terms

    def scope(self, mask: Visible | None) -> Scope:
        """Returns the counts among the tools that `mask` shows (None: all tools). They are cached for the latest masks."""
        if mask is None:
            return self._whole
        key = mask.tobytes()
        if (scope := self._scopes.get(key)) is None:
            scope = self._counted(mask)
            self._scopes.put(key, scope)
        return scope

    def _placed(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns values by position, from values by row."""
        return values if self._rows is None else values[self._rows]

    def _counted(self, mask: Visible | None) -> Scope:
        """Returns the counts among the tools that `mask` shows (None: all tools)."""
        term_index, visible = self.term_index, self.size
        having, in_names = term_index.having, term_index.in_names
        if mask is not None:
            visible_rows = np.zeros(len(term_index.terms), dtype=np.bool_)
            visible_rows[term_index.rows] = mask
            having, in_names, visible = (
                term_index.terms.counted(visible_rows),
                term_index.names.counted(visible_rows),
                int(mask.sum()),
            )
        rarity = (np.log(visible + 1) - _log(having)).astype(np.float32)
        rarest = float(np.log1p((visible + 0.5) / 0.5))
        if mask is None:
            lengths, names = term_index.sums.lengths(visible), term_index.sums.name_rarities(visible)
        else:
            lengths = np.sqrt(np.maximum(term_index.terms.totals(rarity, EVEN_COUNT, squared=True), np.float32(1e-12)))
            names = term_index.names.totals(rarity, _PART)
        lengths = self._placed(lengths)
        return Scope(
            having=having.astype(np.int32),
            rarity=rarity,
            rarest=rarest,
            lengths=lengths,
            long_lengths=np.sqrt(lengths**2 + np.float32((2 * rarest) ** 2)),
            names=np.maximum(self._placed(names), np.float32(1e-6)),
            in_names=in_names > 0,
            described=float((self._described if mask is None else self._described[mask]).mean()) if visible else 0.0,
        )


def _log(having: Longs) -> Doubles:
    """Returns the part of the rarity of terms that depends on the number of tools that have them."""
    logs: Doubles = np.log(having + 0.5)
    return logs


def _entered(
    tools: Iterable[Tool], catalog: Catalog, languages: Sequence[Language], vocabulary: dict[str, int]
) -> tuple[Table, Table, dict[str, int]]:
    """Returns a table of the terms of these tools, one of the terms of their names, and the vocabulary with their terms, which is
    the given one if it has them all."""
    more: dict[str, int] = {}
    known = len(vocabulary)
    counts: list[int] = []
    columns: list[int] = []
    strengths: list[float] = []
    evens: list[float] = []
    name_counts: list[int] = []
    name_columns: list[int] = []
    parts: list[float] = []
    for tool in tools:
        strength: dict[int, float] = {}
        even: dict[int, float] = {}
        in_name: dict[int, float] = {}
        words = document(tool, catalog)
        for field in FIELDS:
            if not (field_words := words[field.name]):
                continue
            scale = field.weight / (1 - field.slope + field.slope * len(field_words) / field.pivot)
            times = NAME_COUNTS if field.name == "name" else 1.0
            for stems, count in Counter(stems_of(field_words, languages)).items():
                for stem in stems:
                    term = vocabulary.get(stem, -1)
                    if term < 0:
                        term = more.setdefault(stem, known + len(more))
                    strength[term] = strength.get(term, 0.0) + scale * count
                    even[term] = even.get(term, 0.0) + times * count
                    if field.name == "name":
                        in_name[term] = 1 / len(stems)
        counts.append(len(strength))
        columns.extend(strength)
        strengths.extend(strength.values())
        evens.extend(even.values())
        name_counts.append(len(in_name))
        name_columns.extend(in_name)
        parts.extend(in_name.values())
    raw, even_counts = np.array(strengths, dtype=np.float32), 1 + np.log(np.array(evens, dtype=np.float32))
    saturated = raw * (K1 + 1) / (raw + K1)
    whole = Table.of(counts, columns, saturated, even_counts)
    return whole, Table.of(name_counts, name_columns, parts), {**vocabulary, **more} if more else vocabulary


def best_terms(
    tools: Table, worth: Floats, most: int, *, value: int | None = None, least: float = 0.0
) -> list[list[int]]:
    """Returns for each row of `tools` at most `most` terms that are worth more than `least` to the query, the most valuable
    first.

    `worth` has a value for each term. It is multiplied by the entry's value with the index `value` (`STRENGTH` or `EVEN_COUNT`);
    None: it is not multiplied.
    """
    worths = worth.take(tools.columns)
    if value is not None:
        worths *= tools.values[value]
    hits = (worths > least).nonzero()[0]
    owners = tools.rows()[hits]
    order = np.lexsort((-worths[hits], owners))
    best: list[list[int]] = [[] for _ in range(len(tools))]
    for owner, term in zip(owners[order].tolist(), tools.columns[hits][order].tolist(), strict=True):
        if len(best[owner]) < most:
            best[owner].append(term)
    return best


def postings_of(catalog: Catalog, previous: Postings | None = None) -> Postings:
    """Returns the postings of a catalog. All rankers share them, and they are freed with the last ranker that uses them.

    `previous`: the postings of a similar catalog, from which those of unchanged tools are taken over.
    """
    with _lock:
        if (shared := _shared.get(catalog.version)) is not None:
            return shared
    term_index = TermIndex.of(catalog) if previous is None else previous.term_index_of(catalog)
    with _lock:
        return _shared.setdefault(catalog.version, Postings(catalog, term_index))


_shared: WeakValueDictionary[str, Postings] = WeakValueDictionary()
_lock = threading.Lock()
