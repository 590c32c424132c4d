"""The memory of what was called after which request. One for all catalogs; entries come one by one while it is asked.

A search reads a snapshot and takes no lock. New entries stand in a short tail beside the index until `settle` makes a new one.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import Literal
from zlib import crc32

import numpy as np

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.selection import QueryWords
from toolcaddie.learning.entries import CalledTool, LogEntry
from toolcaddie.learning.features import Features, Floats, features_of
from toolcaddie.learning.search import Index, Ints, Meanings, Rarity, Rows, lengths_of
from toolcaddie.ports import Embedder
from toolcaddie.selection.rankers.static import word_table
from toolcaddie.util.bounded import Bounded

EVERYBODY = 0
"""The owner of the operator's own log."""

SHOWN = 120
"""Characters kept of a request to name it by."""
MOST_TOOLS = 16
"""Tools kept of a request; one that called more says nothing of any."""

_TAIL = 512
"""New entries after which an index of all is due."""
_SAMPLE = 1_000
"""Requests whose words are kept, for choosing how far the log is believed."""
_SAMPLE_TEXT = 1_000
_DAY = 86_400.0
_MOST_FITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSettings:
    """What is remembered, and for whom."""

    scope: Literal["shared", "principal"] = "shared"
    """Whose requests teach: all of the asker's tenant, or the asker's own alone. The operator's log teaches everybody."""
    most_entries: int = 20_000
    """When there are more, whoever has most of them loses the oldest."""
    keep_days: float | None = 90.0
    """None: for good."""
    name_others: bool = False
    """Reasons quote the requests of other principals too; otherwise these are only counted."""

    def __post_init__(self) -> None:
        if self.most_entries < 1:
            raise ConfigError(f"most_entries is {self.most_entries}; a memory keeps at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An entry as it is remembered beside its features."""

    serial: int
    owner: int
    tenant: int
    tools: tuple[CalledTool, ...]
    group: int
    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    entries: Ints
    tools: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Past:
    """All entries at one moment: those of the index, then those of the tail."""

    kept: Sequence[Kept]
    index: Index
    tail: Rows
    tail_lengths: Floats
    owners: Ints
    tenants: Ints
    groups: Ints
    meanings: Meanings
    """The vectors of the entries of the index."""
    tail_meanings: Floats
    tools: Sequence[CalledTool]
    """Each once; those of the index first."""
    pairs: Pairs
    """Which entry called which of `tools`, in the order of the entries."""

    def __len__(self) -> int:
        return len(self.kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How far the log is believed in a catalog, and by what that was chosen."""

    weight: float
    requests: int
    """Requests it was tried on."""
    without: float = 0.0
    with_log: float = 0.0
    """Recall@5 on these without and with the others of the log, each conversation left out in its turn."""
    tools: frozenset[str] = field(default=frozenset(), repr=False)


class Experience:
    """Remembers what was called after which request. Safe for many threads; make one and keep it.

    `embedder` makes the vectors that requests are compared by beside their words; None: the table of word vectors, until
    `compare_by` names another. `clock` gives seconds since the epoch.
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
        self._tools: dict[CalledTool, CalledTool] = {}
        """Each tool once, however many entries speak of it."""
        self._kept: list[Kept] = []
        self._features: list[Features] = []
        """Of the tail."""
        self._meanings: list[Floats] = []
        self._words: dict[int, QueryWords] = {}
        """Of the sample, by serial number."""
        self._sampled: list[tuple[int, int]] = []
        self._fits: Bounded[str, Fit] = Bounded(_MOST_FITS)
        self._past = _past_of((), Rows.of(()), np.zeros((0, self.embedder.dimensions), dtype=np.float32))
        self._seen: Past | None = None
        self.learned = 0
        """Entries ever added."""

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def embedder(self) -> Embedder:
        return self._embedder or word_table()

    def compare_by(self, embedder: Embedder) -> None:
        """Take the vectors of this one, unless another was named or something is remembered by those of the table: vectors
        of two are never compared."""
        with self._settling, self._lock:
            if self._embedder is None and not self._kept:
                self._embedder, self._seen = embedder, None
                self._past = _past_of((), Rows.of(()), np.zeros((0, embedder.dimensions), dtype=np.float32))

    # --- learning -----------------------------------------------------------------------------------------------------

    def add(self, entry: LogEntry) -> None:
        """Remember one request; without tools there is nothing to remember. Cheap: what it costs later is `settle`'s."""
        if not entry.tools or len(entry.tools) > MOST_TOOLS:
            return
        features = features_of(entry.words)
        if not len(features.hashes):
            return
        meaning = meaning_of(self.embedder, entry.words)
        with self._lock:
            self._add(entry, features, meaning)
            self._seen = None

    def extend(self, entries: Iterable[LogEntry]) -> None:
        """Remember many, and make the index of all."""
        for entry in entries:
            self.add(entry)
        self.settle()

    @property
    def due(self) -> bool:
        """Whether enough was added that `settle` should be called, in a thread where somebody waits."""
        return len(self._features) >= _TAIL or len(self._kept) > self.settings.most_entries

    def settle(self) -> None:
        """Make the index of all entries, without those that are too many or too old. Seconds for 100,000 of them; searches
        and additions go on meanwhile."""
        with self._settling:
            with self._lock:
                kept, tail, meanings = list(self._kept), list(self._features), list(self._meanings)
            self._rebuild(kept, tail, meanings)

    def forget(self, keep: Callable[[CalledTool], bool]) -> int:
        """Drop the entries none of whose tools is to be kept; how many there were."""
        return self._drop(lambda entry: any(map(keep, entry.tools)))

    def forget_principal(self, principal: Principal) -> int:
        """Drop all requests of somebody; how many there were."""
        owner = owner_of(principal)
        return self._drop(lambda entry: entry.owner != owner)

    def now(self) -> float:
        return self._clock()

    # --- asking -------------------------------------------------------------------------------------------------------

    def past(self) -> Past:
        """All entries as of now."""
        seen = self._seen
        if seen is not None:
            return seen
        with self._lock:
            if self._seen is None:
                self._seen = self._with_tail()
            return self._seen

    def sample(self) -> list[tuple[int, QueryWords]]:
        """Some of the requests with their words, by place in `past()`: the same ones wherever the same was learned."""
        past = self.past()
        with self._lock:
            words = dict(self._words)
        return [(place, words[entry.serial]) for place, entry in enumerate(past.kept) if entry.serial in words]

    def fit_of(self, version: str, tools: frozenset[str]) -> Fit | None:
        """How far the log is believed in a catalog: as it was fitted, or as in the last one that was mostly the same."""
        if (exact := self._fits.peek(version)) is not None:
            return exact
        return next(
            (fit for fit in self._fits.latest() if 2 * len(fit.tools & tools) > max(len(fit.tools), len(tools))), None
        )

    def keep_fit(self, version: str, fit: Fit) -> None:
        self._fits.put(version, fit)

    # --- within -------------------------------------------------------------------------------------------------------

    def _add(self, entry: LogEntry, features: Features, meaning: Floats) -> None:
        self.learned += 1
        said = entry.words.messages[0][0] if entry.words.messages else ""
        kept = Kept(
            serial=self.learned,
            owner=owner_of(entry.principal),
            tenant=tenant_of(entry.principal),
            tools=tuple(self._tools.setdefault(tool, tool) for tool in dict.fromkeys(entry.tools)),
            group=_hashed(entry.group) if entry.group else -self.learned,
            at=entry.at,
            text=" ".join(said[: 4 * SHOWN].split())[:SHOWN],
        )
        self._kept.append(kept)
        self._features.append(features)
        self._meanings.append(meaning)
        self._sample(kept, entry.words)

    def _sample(self, kept: Kept, words: QueryWords) -> None:
        """Those with the highest hash of conversation and words: no matter in which order they came."""
        rank = crc32(f"{kept.group if kept.group >= 0 else ''}\n{kept.text}".encode("utf-8", "replace"))
        if len(self._sampled) < _SAMPLE:
            self._sampled.append((rank, kept.serial))
            if len(self._sampled) == _SAMPLE:
                heapify(self._sampled)
        elif rank > self._sampled[0][0]:
            _, left = heapreplace(self._sampled, (rank, kept.serial))
            self._words.pop(left, None)
        else:
            return
        self._words[kept.serial] = QueryWords(
            messages=tuple((text[:_SAMPLE_TEXT], weight) for text, weight in words.messages),
            replies=tuple((text[:_SAMPLE_TEXT], weight) for text, weight in words.replies),
        )

    def _with_tail(self) -> Past:
        past = self._past
        if not self._features:
            return past
        tail = Rows.of(self._features)
        kept = list(self._kept)
        new = kept[len(past.kept) :]
        tools, pairs = _paired(new, known=past.tools, first=len(past.kept))
        return Past(
            kept=kept,
            index=past.index,
            tail=tail,
            tail_lengths=lengths_of(tail, past.index.rarity),
            owners=np.concatenate([past.owners, _column(new, "owner")]),
            tenants=np.concatenate([past.tenants, _column(new, "tenant")]),
            groups=np.concatenate([past.groups, _column(new, "group")]),
            meanings=past.meanings,
            tail_meanings=np.stack(self._meanings),
            tools=tools,
            pairs=Pairs(
                entries=np.concatenate([past.pairs.entries, pairs.entries]),
                tools=np.concatenate([past.pairs.tools, pairs.tools]),
            ),
        )

    def _rebuild(self, kept: list[Kept], tail: list[Features], meanings: list[Floats]) -> None:
        """Of a copy of what was there, while more may come; then swap."""
        past = self._past
        rows = Rows.joined(past.index.rows, Rows.of(tail))
        places = np.array(self._staying(kept), dtype=np.int64)
        vectors = np.concatenate([past.meanings.rows, *(meaning[None] for meaning in meanings)])
        made = _past_of([kept[place] for place in places.tolist()], rows.taken(places), vectors[places])
        with self._lock:
            self._features = self._features[len(tail) :]
            self._meanings = self._meanings[len(meanings) :]
            self._swap(made, self._kept[len(kept) :])

    def _swap(self, made: Past, new: Sequence[Kept]) -> None:
        self._past, self._seen = made, None
        self._kept = [*made.kept, *new]
        staying = {entry.serial for entry in self._kept}
        self._words = {serial: words for serial, words in self._words.items() if serial in staying}
        self._sampled = [each for each in self._sampled if each[1] in self._words]
        heapify(self._sampled)
        self._tools = {tool: tool for entry in self._kept for tool in entry.tools}

    def _staying(self, kept: Sequence[Kept]) -> list[int]:
        """The places of the entries that are neither too old nor, beginning with whoever has most, too many."""
        days = self.settings.keep_days
        oldest = 0.0 if days is None else self._clock() - days * _DAY
        places = [place for place, entry in enumerate(kept) if not 0 < entry.at < oldest]
        too_many = len(places) - self.settings.most_entries
        if too_many <= 0:
            return places
        of_owner: dict[int, deque[int]] = defaultdict(deque)
        for place in places:
            of_owner[kept[place].owner].append(place)
        share = _level([len(each) for each in of_owner.values()], self.settings.most_entries)
        left = [place for each in of_owner.values() for place in list(each)[max(0, len(each) - share) :]]
        return sorted(left)[-self.settings.most_entries :]

    def _drop(self, stays: Callable[[Kept], bool]) -> int:
        self.settle()
        with self._settling, self._lock:
            past = self._past
            places = [place for place, entry in enumerate(past.kept) if stays(entry)]
            gone = len(past) - len(places)
            if gone:
                chosen = np.array(places, dtype=np.int64)
                left = [past.kept[place] for place in places]
                self._swap(
                    _past_of(left, past.index.rows.taken(chosen), past.meanings.rows[chosen]), self._kept[len(past) :]
                )
        return gone


def owner_of(principal: Principal | None) -> int:
    """The number of a principal; nobody in particular has that of the operator's log."""
    return EVERYBODY if principal is None else _hashed(*principal.owner)


def tenant_of(principal: Principal | None) -> int:
    return EVERYBODY if principal is None else _hashed(principal.tenant)


def meaning_of(embedder: Embedder, words: QueryWords) -> Floats:
    """A request's vector: those of its messages by their weights, of length 1; zeros where they say nothing."""
    said = [(text, weight) for text, weight in (*words.messages, *words.replies) if text.strip()]
    if not said:
        return np.zeros(embedder.dimensions, dtype=np.float32)
    vectors = np.asarray(embedder.embed([text for text, _ in said]), dtype=np.float32)
    summed = np.array([weight for _, weight in said], dtype=np.float32) @ vectors
    length = float(np.linalg.norm(summed))
    unit: Floats = summed / np.float32(length) if length > 0 else summed
    return unit


def _past_of(kept: Sequence[Kept], rows: Rows, vectors: Floats) -> Past:
    owners = _column(kept, "owner")
    tools, pairs = _paired(kept, known=(), first=0)
    return Past(
        kept=tuple(kept),
        index=Index(rows, Rarity(rows, _shares(owners))),
        tail=Rows.of(()),
        tail_lengths=np.empty(0, dtype=np.float32),
        owners=owners,
        tenants=_column(kept, "tenant"),
        groups=_column(kept, "group"),
        meanings=Meanings(vectors),
        tail_meanings=vectors[:0],
        tools=tools,
        pairs=pairs,
    )


def _column(kept: Sequence[Kept], name: str) -> Ints:
    return np.array([getattr(entry, name) for entry in kept], dtype=np.int64)


def _paired(kept: Sequence[Kept], *, known: Sequence[CalledTool], first: int) -> tuple[Sequence[CalledTool], Pairs]:
    """The tools known and new, and who called which; the first of the entries has the number `first`."""
    numbers: dict[CalledTool, int] = {tool: number for number, tool in enumerate(known)}
    called = [numbers.setdefault(tool, len(numbers)) for entry in kept for tool in entry.tools]
    sizes = np.array([len(entry.tools) for entry in kept], dtype=np.int64)
    entries = np.repeat(np.arange(first, first + len(kept), dtype=np.int64), sizes)
    return tuple(numbers), Pairs(entries=entries, tools=np.array(called, dtype=np.int64))


def _shares(owners: Ints) -> Floats:
    """What each entry counts where words are counted: those of one principal together no more than all others together."""
    each, numbers, having = np.unique(owners, return_inverse=True, return_counts=True)
    others = len(owners) - having
    over = (having > others) & (others > 0) & (each != EVERYBODY)
    factors = np.where(over, others / having, 1.0).astype(np.float32)
    shares: Floats = factors[numbers]
    return shares


def _level(sizes: Sequence[int], most: int) -> int:
    """How many each may have at most, so that together they have no more than `most`, as nearly as that goes."""
    low, high = 1, max(sizes, default=1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(min(size, middle) for size in sizes) <= most else (low, middle - 1)
    return low


def _hashed(*parts: str) -> int:
    """A positive number that nobody makes other parts have: where one ends is told by its length."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    whole = b"".join(len(part).to_bytes(8, "big") + part for part in encoded)
    return int.from_bytes(hashlib.blake2b(whole, digest_size=8).digest(), "big") >> 1 or 1
