"""The memory of past requests and the tools that they called, one for all catalogs. The ranker `learned` searches it while
requests go on and add entries.

A search reads a snapshot (`Past`) and takes no lock. Entries are searched in an index that never changes; new entries are
collected in a short list beside it, the tail, until `settle` makes an index of all of them. Principals are stored as hashes,
the owner numbers.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from zlib import crc32

import numpy as np

from toolcaddie.core.control import Principal
from toolcaddie.core.learning import LearningSettings
from toolcaddie.core.selection import QueryWords
from toolcaddie.learning.entries import CalledTool, LogEntry
from toolcaddie.learning.features import Features, Floats, features_of
from toolcaddie.learning.search import Index, Ints, Meanings, Rows, Tail, Vectors, lengths_of
from toolcaddie.ports import Embedder, request_vectors
from toolcaddie.selection.word_table import word_table
from toolcaddie.util.bounded import Bounded

OPERATOR_LOG = 0
"""Owner and tenant number of entries from the operator's own log, which have no principal and from which every caller learns."""

QUOTED = 120
"""The number of characters of a request that are stored, to be quoted in the reasons for a tool."""
MOST_TOOLS = 16
"""A request that called more tools than this is not stored, because it tells little about any of them."""

_TAIL = 512
"""The number of new entries after which a new index of all entries is due."""
_SAMPLE = 1_000
"""The largest number of requests whose words are stored, so that the weight of the log can be fitted with them."""
_SAMPLE_TEXT = 1_000
"""The largest number of characters that are stored of each message of such a request."""
_DAY = 86_400.0
_MOST_FITS = 64
"""The largest number of catalogs whose fitted weights are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A stored entry without its features and vectors, which are stored in arrays."""

    serial: int
    """Number of the entry in the order of arrival, from 1."""
    owner: int
    """Number of the principal (`owner_of`)."""
    tenant: int
    """Number of the principal's tenant (`tenant_of`)."""
    tools: tuple[CalledTool, ...]
    group: int
    """Hash of the conversation; a negative number: the request is a conversation of its own."""
    at: float
    text: str
    """The beginning of the request, for quotations."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """The calls of past requests, in two arrays: the entry `entries[i]` called the tool `tools[i]`."""

    entries: Ints
    tools: Ints
    starts: Ints
    """The calls of entry i are `starts[i]` to `starts[i + 1]`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Past:
    """A snapshot of all entries: first those of the index, then those of the tail. All arrays have this order."""

    entries: Sequence[Remembered]
    index: Index
    tail: Rows
    tail_lengths: Floats
    owners: Ints
    tenants: Ints
    groups: Ints
    meanings: Meanings
    """The vectors of the entries of the index."""
    tail_vectors: Vectors
    """The vectors of the entries of the tail."""
    tools: Sequence[CalledTool]
    """Each called tool once; those that entries of the index called come first."""
    pairs: Pairs
    """The calls, as indexes into `entries` and `tools`, in the order of the entries."""

    def __len__(self) -> int:
        return len(self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The weight of the log in the ranking of one catalog, and the results of the fit."""

    weight: float
    requests: int
    """The number of logged requests on which the weights were tried. Each was ranked without its own conversation."""
    without: float = 0.0
    """Recall@5 on these requests without the log."""
    with_log: float = 0.0
    """Recall@5 on these requests with the log."""
    tools: frozenset[str] = field(default=frozenset(), repr=False)
    """Names of the tools of the catalog."""


class Experience:
    """Stores requests and the tools that they called. Safe for many threads; make one for the whole process.

    `embedder` makes the vectors by which requests are compared, in addition to their words; None: the installed table of word
    vectors, unless `compare_by` names another embedder. `clock` returns seconds since the epoch.
    """

    def __init__(
        self,
        settings: LearningSettings | None = None,
        *,
        embedder: Embedder | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings or LearningSettings()
        self._embedder = embedder
        self._clock = clock
        self._lock = threading.Lock()
        self._settling = threading.Lock()
        self._calls: dict[tuple[CalledTool, ...], tuple[CalledTool, ...]] = {}
        """Each sequence of called tools once, so that entries share the objects."""
        self._entries: list[Remembered] = []
        self._tail = Tail(self.embedder.dimensions)
        self._words: dict[int, QueryWords] = {}
        """Words of the sampled entries, by serial number."""
        self._sampled: list[tuple[int, int]] = []
        """Hash and serial number of each sampled entry; a heap with the lowest hash first once the sample is full."""
        self._fits: Bounded[str, Fit] = Bounded(_MOST_FITS)
        self._past = _past_of((), self._tail.rows(), self._tail.vectors())
        self._snapshot: Past | None = None
        self.learned = 0
        """The number of entries added so far, including those that were dropped since."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def embedder(self) -> Embedder:
        return self._embedder or word_table()

    def compare_by(self, embedder: Embedder) -> None:
        """Compares requests by the vectors of this embedder. Does nothing if an embedder was already named, or if there are
        entries: vectors of two embedders cannot be compared."""
        with self._settling, self._lock:
            if self._embedder is None and not self._entries:
                self._embedder, self._snapshot = embedder, None
                self._tail = Tail(embedder.dimensions)
                self._past = _past_of((), self._tail.rows(), self._tail.vectors())

    # --- learning -----------------------------------------------------------------------------------------------------

    def add(self, entry: LogEntry) -> None:
        """Stores one request. A request is skipped if it called no tools or more than `MOST_TOOLS`, or if it has no words.

        From now on searches find the entry, as part of the tail. When `due` is true, call `settle`, which takes much longer.
        """
        if not entry.tools or len(entry.tools) > MOST_TOOLS:
            return
        features = features_of(entry.words)
        if not len(features.hashes):
            return
        meaning = meaning_of(self.embedder, entry.words)
        with self._lock:
            self._add(entry, features, meaning)
            self._snapshot = None

    def extend(self, entries: Iterable[LogEntry]) -> None:
        """Stores many requests, and makes an index of all entries."""
        for entry in entries:
            self.add(entry)
        self.settle()

    @property
    def due(self) -> bool:
        """True if `settle` should be called, because many entries were added. Call it in a thread if requests are waiting."""
        return len(self._tail) >= _TAIL or len(self._entries) > self.settings.most_entries

    def settle(self) -> None:
        """Makes the index of all entries, and drops those that are too old or more than the settings allow. Takes seconds for
        100,000 entries; other threads can search and add entries meanwhile."""
        with self._settling:
            with self._lock:
                entries, tail = list(self._entries), (self._tail.rows(), self._tail.vectors())
            self._rebuild(entries, *tail)

    def forget(self, keep: Callable[[CalledTool], bool]) -> int:
        """Drops the entries that have no tool for which `keep` returns True. Returns the number of dropped entries."""
        return self._drop(lambda entry: any(map(keep, entry.tools)))

    def forget_principal(self, principal: Principal) -> int:
        """Drops all requests of a principal. Returns the number of dropped entries."""
        owner = owner_of(principal)
        return self._drop(lambda entry: entry.owner != owner)

    def now(self) -> float:
        return self._clock()

    # --- searching ------------------------------------------------------------------------------------------------------

    def past(self) -> Past:
        """Returns a snapshot of all entries. It is cached until an entry is added or dropped."""
        snapshot = self._snapshot
        if snapshot is not None:
            return snapshot
        with self._lock:
            if self._snapshot is None:
                self._snapshot = self._with_tail()
            return self._snapshot

    def sample(self) -> list[tuple[int, QueryWords]]:
        """Returns the sampled requests: the index of each in `past().entries`, and its words. Equal memories give equal
        samples."""
        past = self.past()
        with self._lock:
            words = dict(self._words)
        return [(place, words[entry.serial]) for place, entry in enumerate(past.entries) if entry.serial in words]

    def fit_of(self, version: str, tools: frozenset[str]) -> Fit | None:
        """Returns the fit of the catalog with this version, or of the latest catalog that shares more than half of its tools."""
        if (exact := self._fits.peek(version)) is not None:
            return exact
        return next(
            (fit for fit in self._fits.latest() if 2 * len(fit.tools & tools) > max(len(fit.tools), len(tools))), None
        )

    def keep_fit(self, version: str, fit: Fit) -> None:
        self._fits.put(version, fit)

    # --- internals ----------------------------------------------------------------------------------------------------

    def _add(self, entry: LogEntry, features: Features, meaning: Floats) -> None:
        """Appends an entry, with its features and its vector, to the tail. The caller holds the lock."""
        self.learned += 1
        text = entry.words.messages[0][0] if entry.words.messages else ""
        tools = tuple(dict.fromkeys(entry.tools))
        remembered = Remembered(
            serial=self.learned,
            owner=owner_of(entry.principal),
            tenant=tenant_of(entry.principal),
            tools=self._calls.setdefault(tools, tools),
            group=_hashed(entry.group) if entry.group else -self.learned,
            at=entry.at,
            text=" ".join(text[: 4 * QUOTED].split())[:QUOTED],
        )
        self._entries.append(remembered)
        self._tail.add(features, meaning)
        self._sample(remembered, entry.words)

    def _sample(self, entry: Remembered, words: QueryWords) -> None:
        """Takes an entry into the sample if the hash of its conversation and text is among the highest. So the sample does not
        depend on the order in which entries arrive."""
        rank = crc32(f"{entry.group if entry.group >= 0 else ''}\n{entry.text}".encode("utf-8", "replace"))
        if len(self._sampled) < _SAMPLE:
            self._sampled.append((rank, entry.serial))
            if len(self._sampled) == _SAMPLE:
                heapify(self._sampled)
        elif rank > self._sampled[0][0]:
            _, dropped_serial = heapreplace(self._sampled, (rank, entry.serial))
            self._words.pop(dropped_serial, None)
        else:
            return
        self._words[entry.serial] = QueryWords(
            messages=tuple((text[:_SAMPLE_TEXT], weight) for text, weight in words.messages),
            replies=tuple((text[:_SAMPLE_TEXT], weight) for text, weight in words.replies),
        )

    def _with_tail(self) -> Past:
        """Returns a snapshot of the entries of the index and of those that were added since."""
        past = self._past
        if not len(self._tail):
            return past
        tail = self._tail.rows()
        entries = list(self._entries)
        new = entries[len(past.entries) :]
        tools, pairs = _paired(new, numbered=past.tools, first=len(past.entries))
        return Past(
            entries=entries,
            index=past.index,
            tail=tail,
            tail_lengths=lengths_of(tail, past.index.rarity.of(tail.hashes)),
            owners=np.concatenate([past.owners, _column(new, "owner")]),
            tenants=np.concatenate([past.tenants, _column(new, "tenant")]),
            groups=np.concatenate([past.groups, _column(new, "group")]),
            meanings=past.meanings,
            tail_vectors=self._tail.vectors(),
            tools=tools,
            pairs=Pairs(
                entries=np.concatenate([past.pairs.entries, pairs.entries]),
                tools=np.concatenate([past.pairs.tools, pairs.tools]),
                starts=np.concatenate([past.pairs.starts, past.pairs.starts[-1] + pairs.starts[1:]]),
            ),
        )

    def _rebuild(self, entries: list[Remembered], tail: Rows, tail_vectors: Vectors) -> None:
        """Makes an index of these copies while other threads may add entries, then replaces the old index under the lock."""
        past = self._past
        rows = Rows.joined(past.index.rows, tail)
        vectors = Vectors.joined(past.meanings.vectors, tail_vectors)
        places = np.array(self._staying(entries), dtype=np.int64)
        if len(places) < len(entries):
            entries = [entries[place] for place in places.tolist()]
            rows, vectors = rows.subset(places), vectors.subset(places)
        rebuilt = _past_of(entries, rows, vectors)
        with self._lock:
            self._tail = self._tail.after(len(tail))
            self._swap(rebuilt, self._entries[len(past) + len(tail) :])

    def _swap(self, past: Past, new: Sequence[Remembered]) -> None:
        """Replaces the indexed entries by those of `past`, keeps the `new` entries as the tail, and drops the words and tools
        that no entry uses any more. The caller holds the lock."""
        self._past, self._snapshot = past, None
        self._entries = [*past.entries, *new]
        staying = {entry.serial for entry in self._entries}
        self._words = {serial: words for serial, words in self._words.items() if serial in staying}
        self._sampled = [each for each in self._sampled if each[1] in self._words]
        heapify(self._sampled)
        self._calls = {entry.tools: entry.tools for entry in self._entries}

    def _staying(self, entries: Sequence[Remembered]) -> list[int]:
        """Returns the indexes of the entries that stay. Entries that are too old are dropped; if there are still too many, the
        oldest entries of the owners with the most entries are dropped."""
        days = self.settings.keep_days
        oldest = 0.0 if days is None else self._clock() - days * _DAY
        places = [place for place, entry in enumerate(entries) if not 0 < entry.at < oldest]
        too_many = len(places) - self.settings.most_entries
        if too_many <= 0:
            return places
        of_owner: dict[int, deque[int]] = defaultdict(deque)
        for place in places:
            of_owner[entries[place].owner].append(place)
        share = _level([len(each) for each in of_owner.values()], self.settings.most_entries)
        staying = [place for each in of_owner.values() for place in list(each)[max(0, len(each) - share) :]]
        return sorted(staying)[-self.settings.most_entries :]

    def _drop(self, stays: Callable[[Remembered], bool]) -> int:
        """Drops the entries for which `stays` returns False, and returns their number."""
        self.settle()
        with self._settling, self._lock:
            past = self._past
            places = [place for place, entry in enumerate(past.entries) if stays(entry)]
            dropped = len(past) - len(places)
            if dropped:
                indexes = np.array(places, dtype=np.int64)
                staying = [past.entries[place] for place in places]
                self._swap(
                    _past_of(staying, past.index.rows.subset(indexes), past.meanings.vectors.subset(indexes)),
                    self._entries[len(past) :],
                )
        return dropped


def owner_of(principal: Principal | None) -> int:
    """Returns the owner number of a principal, a hash; None has the number of the operator's log."""
    return OPERATOR_LOG if principal is None else _hashed(*principal.owner)


def tenant_of(principal: Principal | None) -> int:
    return OPERATOR_LOG if principal is None else _hashed(principal.tenant)


def meaning_of(embedder: Embedder, words: QueryWords) -> Floats:
    """Returns a request's vector: the weighted sum of its messages' vectors, of length 1; zeros if there is no text."""
    texts = [(text, weight) for text, weight in (*words.messages, *words.replies) if text.strip()]
    if not texts:
        return np.zeros(embedder.dimensions, dtype=np.float32)
    vectors = np.asarray(request_vectors(embedder, [text for text, _ in texts]), dtype=np.float32)
    summed = np.array([weight for _, weight in texts], dtype=np.float32) @ vectors
    length = float(np.linalg.norm(summed))
    unit: Floats = summed / np.float32(length) if length > 0 else summed
    return unit


def _past_of(entries: Sequence[Remembered], rows: Rows, vectors: Vectors) -> Past:
    """Returns a snapshot with an index of these entries and an empty tail. `rows` and `vectors` are the features and the vectors
    of the entries."""
    owners, none = _column(entries, "owner"), Tail(vectors.bytes.shape[1])
    tools, pairs = _paired(entries, numbered=(), first=0)
    return Past(
        entries=tuple(entries),
        index=Index(rows, _shares(owners)),
        tail=none.rows(),
        tail_lengths=np.empty(0, dtype=np.float32),
        owners=owners,
        tenants=_column(entries, "tenant"),
        groups=_column(entries, "group"),
        meanings=Meanings(vectors),
        tail_vectors=none.vectors(),
        tools=tools,
        pairs=pairs,
    )


def _column(entries: Sequence[Remembered], name: str) -> Ints:
    return np.array([getattr(entry, name) for entry in entries], dtype=np.int64)


def _paired(
    remembered: Sequence[Remembered], *, numbered: Sequence[CalledTool], first: int
) -> tuple[Sequence[CalledTool], Pairs]:
    """Returns all tools, and the calls of the `remembered` entries as indexes of entries and tools.

    The tools start with the already `numbered` ones, so that their indexes stay. `first` is the index of the first entry.
    """
    numbers: dict[CalledTool, int] = {tool: number for number, tool in enumerate(numbered)}
    called = [numbers.setdefault(tool, len(numbers)) for entry in remembered for tool in entry.tools]
    sizes = np.array([len(entry.tools) for entry in remembered], dtype=np.int64)
    entries = np.repeat(np.arange(first, first + len(remembered), dtype=np.int64), sizes)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    return tuple(numbers), Pairs(entries=entries, tools=np.array(called, dtype=np.int64), starts=starts)


def _shares(owners: Ints) -> Floats:
    """Returns the weight of each entry when the frequency of words is counted: the entries of one principal weigh no more than
    those of all others together."""
    each, numbers, having = np.unique(owners, return_inverse=True, return_counts=True)
    others = len(owners) - having
    over = (having > others) & (others > 0) & (each != OPERATOR_LOG)
    factors = np.where(over, others / having, 1.0).astype(np.float32)
    shares: Floats = factors[numbers]
    return shares


def _level(sizes: Sequence[int], most: int) -> int:
    """Returns the largest number of entries that every owner may keep so that at most `most` stay in all; at least 1."""
    low, high = 1, max(sizes, default=1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(min(size, middle) for size in sizes) <= most else (low, middle - 1)
    return low


def _hashed(*parts: str) -> int:
    """Returns a positive number for these parts. The length of each part is hashed too, so that ("a", "bc") and ("ab", "c") give
    different numbers."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    whole = b"".join(len(part).to_bytes(8, "big") + part for part in encoded)
    return int.from_bytes(hashlib.blake2b(whole, digest_size=8).digest(), "big") >> 1 or 1
