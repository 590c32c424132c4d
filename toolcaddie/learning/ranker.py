"""The ranker `learned`, ranking by experience: tools score high if similar past requests called them.

The past requests most similar to the current one, its neighbours, count for the tools that they called (k nearest neighbours;
Yang, "An evaluation of statistical approaches to text categorization", 1999). The weight of these scores beside those of the
other rankers is fitted: each logged request is ranked again without its own conversation. The gains of a small log are measured
with large errors, so the gains that logs of other catalogs usually bring are averaged in, as if they had been measured on a
hundred more requests (shrinkage; Efron and Morris, "Stein's estimation rule and its competitors", 1973). The weight with the
largest expected gain is used, or 0 if the log probably does not help.

The log of past requests is held by an `Experience`; a `Past` is one snapshot of it. The owner of an entry, a number, is the
principal (caller) who made the request, or the operator's own log. `me` is the owner number of the current caller. The position
of a tool is its index in the catalog. `visible` and `mask` have a flag for each position: True if the caller may see the tool.

A caller learns from its own entries, from the operator's log, and, unless the settings say otherwise, from those of its tenant.
Entries of other principals count within limits, so that nobody can decide the tools of others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords
from toolcaddie.learning.entries import CalledTool, ToolLookup
from toolcaddie.learning.experience import (
    OPERATOR_LOG,
    Experience,
    Fit,
    Past,
    Remembered,
    meaning_of,
    owner_of,
    tenant_of,
)
from toolcaddie.learning.features import Floats, features_of
from toolcaddie.learning.search import Bools, Ints, Request, first_of_each, limited_owners
from toolcaddie.ports import LastWord, Ranker, RankerFactory, Ranking, Visible
from toolcaddie.ports.ranking import Reasons, no_reasons
from toolcaddie.selection.selector import Selector
from toolcaddie.util.bounded import Bounded

NAME = "learned"

Base = Callable[[QueryWords], npt.NDArray[np.float32]]
"""Returns the joint scores of the other rankers for every tool of the catalog."""

NEIGHBOURS = 300
"""The largest number of past requests that count for a request."""
LOUDEST_WEIGHT = 0.25
"""Factor for one principal in the rankings of others. For each tool, the calls of the principal that counts most for it are
multiplied by this factor, so one principal that poisons the log has little effect."""
MOST_OF_ONE = 75
"""The largest number of neighbours of one other principal that count, so that a thousand copies of one request do not displace
the requests of others."""
COUNTED_OF_ONE = 20
"""The largest number of calls of a tool by one other principal that are counted. The score of a tool with many calls is reduced,
so a principal could lower it for others by calling the tool again and again."""
UNRELATED = 0.9
"""Share of past requests that are taken to be unrelated to a request. The largest cosine among these counts as similarity 0. It
is measured for each request, because long conversations are all closer to each other than single sentences are."""
_LEAST_UNRELATED = 0.2
"""Lower bound of the cosine of unrelated requests, for small logs."""
_MOST_UNRELATED = 0.8
"""Upper bound of the cosine of unrelated requests, for logs of nearly equal requests."""
UNTRIED = 0.75
"""Share of the best learned score that a never called tool gets if the other rankers put it first: the log cannot know such a
tool. A tool that was called n times gets 1 / (1 + n) of this."""
WEIGHTS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
"""Weights of the log that are tried."""
USUAL_GAINS = (0.0, 0.08, 0.12, 0.13, 0.07, -0.12, -0.53, -1.0)
"""The usual gain of a small log with each of `WEIGHTS`: the gain in recall r, divided by r * (1 - r). The mean of four labelled
sets with logs of 100 requests, by words, with the table and with a model (`python -m benchmarks.learned --usual`, which also
prints the means without each set)."""
ENOUGH = 30
"""The number of logged requests of a catalog below which the log has no weight."""
NEW = 0.1
"""Share of coming requests that are expected to need a tool that was new when the log ended, beyond those for tools that were
called once in the log: without its own conversation, such a request is one for a new tool already."""

_USUAL_REQUESTS = 100
"""The number of logged requests as which the usual gains count."""
_USUAL_VARIANCE = 0.3
"""Variance of the gain per request behind the usual gains, divided by r * (1 - r): three in ten results change. Without it, a
small log that changes no result would seem to prove that."""
_PROOF = 1.5
"""Number of standard errors by which the expected gain must be above 0 for the log to have any weight."""
_AT = 5
"""A called tool counts as a hit if it is among this number of first tools."""
_QUOTED = 3
"""The largest number of past requests that are quoted in the reason for a tool."""
_QUOTED_TEXT = 60
"""The largest number of characters of a quotation."""
_MOST_READERS = 32
"""The largest number of callers for which counts and samples are cached."""
_GONE = -1
"""Position of a tool that the catalog no longer has."""
_ROUNDING = 1e-6
"""A difference of two cosines up to which they are equal: processors round sums of products differently."""
_BACKGROUND = 500
"""The number of past requests on which the cosine of unrelated requests is measured."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Catalogued:
    """A snapshot of the log, with the position of each called tool in the catalog."""

    past: Past
    positions: Ints
    """The catalog position of each tool of the snapshot; -1: the catalog no longer has the tool."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Near:
    """The neighbours of a request (the past requests most similar to it), and the calls that they made.

    `entries`, `owners` and `likeness` have one value for each neighbour; `neighbour` and `position` one for each call.
    """

    past_entries: Sequence[Remembered]
    """All entries of the snapshot."""
    entries: Ints
    """Index of each neighbour in `past_entries`."""
    owners: Ints
    """Owner number of each neighbour."""
    likeness: Floats
    """Similarity of each neighbour, 0 to 1."""
    neighbour: Ints
    """Index of the neighbour that made each call."""
    position: Ints
    """Catalog position of the tool of each call."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Answer:
    """The scores of all tools for one request, and the values for their reasons."""

    near: _Near
    scores: Floats
    """Learned scores, 0 or more, without an upper bound."""
    tried: Floats
    """The number of calls of each tool from which the caller learns."""
    me: int
    """Owner number of the caller."""


class Learned:
    """Ranks tools by the number and the similarity of the past requests that called them."""

    name = NAME

    def __init__(self, catalog: Catalog, experience: Experience) -> None:
        self._size = len(catalog)
        self._version = catalog.version
        self._names = frozenset(tool.name for tool in catalog.tools)
        self._experience = experience
        self._lookup = ToolLookup(catalog)
        self._positions: dict[CalledTool, int] = {}
        self._latest: _Catalogued | None = None
        self._readers: Bounded[Hashable, tuple[Past, Bools]] = Bounded(_MOST_READERS)
        self._tried: Bounded[Hashable, tuple[Past, Floats]] = Bounded(_MOST_READERS)
        self._backgrounds: Bounded[Hashable, tuple[Past, Floats]] = Bounded(_MOST_READERS)

    # --- as a ranker --------------------------------------------------------------------------------------------------

    def rank(self, words: QueryWords, visible: Visible | None) -> Ranking:
        """Returns scores from 0 to 1; 0 if no similar request called the tool, or if the tool is hidden.

        This ranker turns the joint scores of all other rankers into the final ones (`LastWord`), because its weight was fitted
        on these joint scores.
        """
        answer = self._answer(words, visible)
        if answer is None:
            return Ranking(
                scores=np.zeros(self._size, dtype=np.float32), calibrated=True, influence=LastWord(blend=_others_alone)
            )
        weight = self.weight
        return Ranking(
            scores=answer.scores / (1 + answer.scores),
            calibrated=True,
            influence=LastWord(blend=partial(_blended, answer, weight, visible)),
            explain=partial(self._reasons, answer) if weight else no_reasons,
        )

    @property
    def weight(self) -> float:
        """The weight of the log in this catalog; 0 until `fit` finds that it helps."""
        fit = self.fitted
        return 0.0 if fit is None else fit.weight

    @property
    def fitted(self) -> Fit | None:
        return self._experience.fit_of(self._version, self._names)

    def _reasons(self, answer: _Answer, positions: Sequence[int]) -> Reasons:
        """Returns, for each tool, the past requests that called it. Requests of the caller and of the operator's log are quoted;
        those of other principals are only counted, unless the setting `name_others` is on."""
        near = answer.near
        neighbours: defaultdict[int, list[int]] = defaultdict(list)
        for position, entry in zip(near.position.tolist(), near.entries[near.neighbour].tolist(), strict=True):
            neighbours[position].append(entry)  # the most similar first
        return [self._reason(answer, neighbours.get(position, ())) for position in positions]

    # --- fitting the weight --------------------------------------------------------------------------------------------

    def fit(self, base: Base) -> Fit:
        """Chooses and stores the weight of the log by its effect on logged requests.

        Each request is ranked without its own conversation, once with the calls of its tools in the log and once as if these
        tools had never been called.
        """
        recalls = [self._trial(place, words, base) for place, words in self._experience.sample()]
        trials = np.array([trial for trial in recalls if trial is not None], dtype=np.float64)
        fit = Fit(weight=0.0, requests=len(trials), tools=self._names)
        if len(trials) >= ENOUGH:
            seen, unseen = trials[:, 0], trials[:, 1]
            best = _best_weight((1 - NEW) * seen + NEW * unseen)
            fit = Fit(
                weight=WEIGHTS[best],
                requests=len(trials),
                without=float(seen[:, 0].mean()),
                with_log=float(seen[:, best].mean()),
                tools=self._names,
            )
        self._experience.keep_fit(self._version, fit)
        return fit

    def _trial(self, place: int, words: QueryWords, base: Base) -> Sequence[Sequence[float]] | None:
        """Returns the recall of one logged request for each weight: first with the calls of its tools in the log, then as if
        these tools were new. Returns None if the catalog no longer has these tools."""
        catalogued = self._catalogued()
        past = catalogued.past
        entry = past.entries[place]
        gold = {position for tool in entry.tools if (position := self._position(tool)) is not None}
        if not gold:
            return None
        right = np.array(sorted(gold), dtype=np.int64)
        near = self._near(catalogued, words, None, owner=entry.owner, tenant=entry.tenant, without=entry.group)
        scores = self._summed(near, self._tried_by(catalogued, entry.owner, entry.tenant), entry.owner)
        own_calls = np.zeros(self._size, dtype=np.float32)  # of the request's conversation
        same = np.flatnonzero(np.isin(past.pairs.entries, np.flatnonzero(past.groups == entry.group)))
        called = catalogued.positions[past.pairs.tools[same]]
        np.add.at(own_calls, called[called >= 0], 1)
        tried = np.maximum(self._tried_by(catalogued, entry.owner, entry.tenant) - own_calls, 0)
        base_scores, unseen_scores, untried = base(words), scores.copy(), tried.copy()
        unseen_scores[right] = 0.0
        untried[right] = 0.0
        return [
            [_recall(_blend(base_scores, scores, tried, weight), right) for weight in WEIGHTS],
            [_recall(_blend(base_scores, unseen_scores, untried, weight), right) for weight in WEIGHTS],
        ]

    # --- searching the past -------------------------------------------------------------------------------------------

    def _answer(self, words: QueryWords, mask: Visible | None) -> _Answer | None:
        """Returns the learned scores for a request, or None if the log has no similar request that called a visible tool."""
        catalogued = self._catalogued()
        if not len(catalogued.past):
            return None
        owner, tenant = owner_of(words.principal), tenant_of(words.principal)
        near = self._near(catalogued, words, mask, owner=owner, tenant=tenant)
        if not len(near.neighbour):
            return None
        tried = self._tried_by(catalogued, owner, tenant)
        scores = self._summed(near, tried, owner)
        return _Answer(near=near, scores=scores, tried=tried, me=owner)

    def _catalogued(self) -> _Catalogued:
        """Returns the latest snapshot of the log with the positions of its tools. Positions that were looked up for an earlier
        snapshot are used again until the log has a new index."""
        past = self._experience.past()
        latest = self._latest
        if latest is not None and latest.past is past:
            return latest
        if latest is not None and latest.past.index is past.index:
            new = [self._place_of(tool) for tool in past.tools[len(latest.positions) :]]
            positions = np.concatenate([latest.positions, np.array(new, dtype=np.int64)])
        else:
            self._positions = {}
            positions = np.array([self._place_of(tool) for tool in past.tools], dtype=np.int64)
        self._latest = _Catalogued(past=past, positions=positions)
        return self._latest

    def _position(self, tool: CalledTool) -> int | None:
        place = self._place_of(tool)
        return None if place < 0 else place

    def _place_of(self, tool: CalledTool) -> int:
        """Returns the tool's position in the catalog, or -1 if the catalog no longer has the tool."""
        if tool not in self._positions:
            position = self._lookup.position(tool)
            self._positions[tool] = _GONE if position is None else position
        return self._positions[tool]

    def _near(
        self,
        catalogued: _Catalogued,
        words: QueryWords,
        mask: Visible | None,
        *,
        owner: int,
        tenant: int,
        without: int | None = None,
    ) -> _Near:
        """Returns the neighbours of a request among the entries from which this owner learns, and their calls of tools that
        `mask` shows. `without`: number of a conversation that does not count."""
        past = catalogued.past
        allowed = self._readable(catalogued, mask, owner, tenant)
        if without is not None:
            allowed = allowed & (past.groups != without)
        background = self._background(catalogued, owner, tenant)
        entries, likeness = self._alike(past, words, allowed, owner, background)
        counted = _nearest(entries, likeness, past.owners, owner)
        entries, likeness = entries[counted], likeness[counted]
        first = past.pairs.starts[entries]
        counts = past.pairs.starts[entries + 1] - first
        neighbour = np.repeat(np.arange(len(entries)), counts)
        ends = np.cumsum(counts)
        where = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(first - ends + counts, counts)
        position = catalogued.positions[past.pairs.tools[where]]
        visible = position >= 0 if mask is None else (position >= 0) & mask[position]
        return _Near(
            past_entries=past.entries,
            entries=entries,
            owners=past.owners[entries],
            likeness=likeness,
            neighbour=neighbour[visible],
            position=position[visible],
        )

    def _alike(self, past: Past, words: QueryWords, allowed: Bools, me: int, background: Floats) -> tuple[Ints, Floats]:
        """Returns the entries similar to a request, and their similarities from 0 to 1.

        The similarity is the mean of those by words and by meaning, or the one by words alone if the embedder has no vector for
        the request or the entry. `background` has the vectors that `_background` returns.
        """
        request = Request(features_of(words), past.index.rarity)
        vector = meaning_of(self._experience.embedder, words)
        has_vector = bool(vector.any())
        indexed = len(past.index.rows)
        unlimited = (OPERATOR_LOG, me)
        entries = past.index.candidates(request, allowed[:indexed], past.owners, unlimited)
        if has_vector:
            near = past.meanings.near(vector, allowed[:indexed], past.owners, unlimited, MOST_OF_ONE, NEIGHBOURS)
            entries = np.union1d(entries, near) if len(near) else entries
        likeness = request.likeness(past.index.rows, past.index.lengths, entries)
        cosines = past.meanings.vectors.cosines(entries, vector)
        if len(past) > indexed:
            new = np.flatnonzero(allowed[indexed:])
            entries = np.concatenate([entries, indexed + new])
            likeness = np.concatenate([likeness, request.likeness(past.tail, past.tail_lengths, new)])
            cosines = np.concatenate([cosines, past.tail_vectors.cosines(new, vector)])
        if has_vector:
            unrelated = _unrelated(background @ vector)
            above = cosines - unrelated
            by_meaning = np.clip(np.where(above > _ROUNDING, above, 0.0) / (1 - unrelated), 0.0, 1.0)
            likeness = np.where(cosines == 0, likeness, (likeness + by_meaning) / 2).astype(np.float32)
        return entries, likeness

    def _background(self, catalogued: _Catalogued, owner: int, tenant: int) -> Floats:
        """Returns the vectors of a sample of the entries from which this owner learns.

        The cosines of a request to these vectors show how similar unrelated requests are (`UNRELATED`). At most `MOST_OF_ONE`
        entries of each other principal are in the sample. The sample is cached until the memory has a new index.
        """
        past = catalogued.past
        learns_alone = self._learns_alone(owner)
        if (cached := self._backgrounds.get((owner, learns_alone))) is not None and cached[0].index is past.index:
            return cached[1]
        indexed = len(past.index.rows)
        entries = np.flatnonzero(self._readable(catalogued, None, owner, tenant)[:indexed])
        # Sorted by their vectors, so that the sample does not depend on the order in which entries arrived.
        vectors = past.meanings.vectors
        entries = entries[np.lexsort((vectors.bytes[entries, :2] * vectors.scales[entries, None]).T)]
        limited = limited_owners(past.owners[entries], (OPERATOR_LOG, owner))
        if limited.any():
            entries = entries[first_of_each(limited, MOST_OF_ONE)]
        rows = vectors.subset(entries[:: len(entries) // _BACKGROUND + 1]).floats()
        self._backgrounds.put((owner, learns_alone), (past, rows))
        return rows

    def _learns_alone(self, owner: int) -> bool:
        """Returns True if this owner learns only from its own entries and the operator's log."""
        return self._experience.settings.scope == "principal" or owner == OPERATOR_LOG

    def _readable(self, catalogued: _Catalogued, mask: Visible | None, owner: int, tenant: int) -> Bools:
        """Returns a flag for each entry: True if this owner learns from the entry and it called a visible tool."""
        past = catalogued.past
        learns_alone = self._learns_alone(owner)
        key = (owner if learns_alone else tenant, learns_alone, None if mask is None else mask.tobytes())
        if (cached := self._readers.get(key)) is not None and cached[0] is past:
            return cached[1]
        visible = catalogued.positions >= 0
        if mask is not None:
            visible = visible & mask[catalogued.positions]
        allowed = np.zeros(len(past), dtype=np.bool_)
        allowed[past.pairs.entries[visible[past.pairs.tools]]] = True
        allowed &= (past.owners == OPERATOR_LOG) | (past.owners == owner if learns_alone else past.tenants == tenant)
        self._readers.put(key, (past, allowed))
        return allowed

    def _tried_by(self, catalogued: _Catalogued, owner: int, tenant: int) -> Floats:
        """Returns the number of calls of each tool in the entries from which this owner learns. At most `COUNTED_OF_ONE` calls of
        a tool by another principal are counted."""
        past = catalogued.past
        learns_alone = self._learns_alone(owner)
        if (cached := self._tried.get((owner, learns_alone))) is not None and cached[0].index is past.index:
            return cached[1]
        allowed = self._readable(catalogued, None, owner, tenant)
        pairs = np.flatnonzero(allowed[past.pairs.entries] & (catalogued.positions[past.pairs.tools] >= 0))
        positions = catalogued.positions[past.pairs.tools[pairs]]
        owners = past.owners[past.pairs.entries[pairs]]
        unlimited = (owners == OPERATOR_LOG) | (owners == owner)
        tried = np.bincount(positions[unlimited], minlength=self._size).astype(np.float32)
        if not unlimited.all():
            position_and_owner = np.stack([positions[~unlimited], owners[~unlimited]])
            (limited, _), counts = np.unique(position_and_owner, axis=1, return_counts=True)
            tried += np.bincount(limited, weights=np.minimum(counts, COUNTED_OF_ONE), minlength=self._size)
        self._tried.put((owner, learns_alone), (past, tried))
        return tried

    def _summed(self, near: _Near, tried: Floats, me: int) -> Floats:
        """Returns the learned score of each tool, from the similarities of the neighbours that called it.

        The score has two terms. The first is the square root of the sum of the squared similarities; the nearest neighbours
        decide it. The second is twice the sum of the similarities, divided by the square root of the tool's calls, so that a tool
        does not score high only because it is called all the time. Every other principal adds at most as much as one identical
        request, and the part of the principal that adds most to a tool is multiplied by `LOUDEST_WEIGHT`.
        """
        likeness = near.likeness[near.neighbour]
        owners = near.owners[near.neighbour]
        full = (owners == OPERATOR_LOG) | (owners == me)
        squares = self._by_tool(near.position[full], np.square(likeness[full]))
        sums = self._by_tool(near.position[full], likeness[full])
        if not full.all():
            positions, others, likeness = near.position[~full], owners[~full], likeness[~full]
            squares += self._of_others(positions, others, np.square(likeness), LOUDEST_WEIGHT**2)
            sums += self._of_others(positions, others, likeness, LOUDEST_WEIGHT)
        scores: Floats = (np.sqrt(squares) + 2 * sums / np.sqrt(np.maximum(tried, 1.0))).astype(np.float32)
        return scores

    def _by_tool(self, positions: Ints, values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        """Returns for each tool of the catalog the sum of the values of its calls."""
        summed: npt.NDArray[np.float64] = np.bincount(positions, weights=values, minlength=self._size).astype(
            np.float64
        )
        return summed

    def _of_others(
        self, positions: Ints, owners: Ints, values: Floats, loudest_weight: float
    ) -> npt.NDArray[np.float64]:
        """Returns for each tool the sum of the values of its calls by other principals. Each principal adds at most 1, and the
        largest of these parts is multiplied by `loudest_weight`."""
        both, number = np.unique(np.stack([positions, owners]), axis=1, return_inverse=True)
        each = np.minimum(np.bincount(number.ravel(), weights=values), 1.0)
        loudest = np.zeros(self._size)
        np.maximum.at(loudest, both[0], each)
        return self._by_tool(both[0], each) - (1 - loudest_weight) * loudest

    def _reason(self, answer: _Answer, neighbours: Sequence[int]) -> tuple[str, ...]:
        """Returns the reason for a tool that these neighbours called, the most similar first; an empty tuple if none did."""
        if not neighbours:
            return ()
        requests = "1 request" if len(neighbours) == 1 else f"{len(neighbours)} requests"
        names_others = self._experience.settings.name_others
        texts: dict[str, None] = {}
        for each in neighbours:
            entry = answer.near.past_entries[each]
            if names_others or entry.owner in (OPERATOR_LOG, answer.me):
                texts[_short(entry.text)] = None
                if len(texts) == _QUOTED:
                    break
        quoted = ", ".join(f"'{text}'" for text in texts if text)
        return (f"called after: {quoted} ({requests})",) if quoted else (f"called after {requests} like this",)


def factory(experience: Experience) -> RankerFactory:
    """Returns the factory of the ranker `learned` over this log."""

    def make(catalog: Catalog, previous: Ranker | None = None) -> Ranker:
        # `previous` is not needed: the state is in `experience`.
        return Learned(catalog, experience)

    return make


def refit(experience: Experience, selector: Selector, catalog: Catalog) -> None:
    """Fits the weight of the log in a catalog again, with the scores of the selector's other rankers. Does nothing if the
    selector does not use the ranker `learned`. It takes seconds, so call it in another thread."""
    if NAME in selector.settings.rankers:
        Learned(catalog, experience).fit(selector.scores_without(catalog, {NAME}))


def _others_alone(base: Floats, factor: float) -> Floats:
    """Returns the scores of the other rankers unchanged: the log has no entry for this request."""
    return base


def _blended(answer: _Answer, own_weight: float, visible: Visible | None, base: Floats, factor: float) -> Floats:
    """Joins the scores of all other rankers (`base`) with the learned ones. `factor` is the ranker's weight in the settings, by
    which the fitted weight is multiplied.

    The sum of both (`_blend`) is scaled to 0 to 1, so that the best tool has the higher of its two scores. With weight 0, or if
    no tool has a score, the result is `base`.
    """
    weight = own_weight * factor
    if not weight:
        return base
    joined = _blend(base, answer.scores, answer.tried, weight)
    if visible is not None:
        joined[~visible] = 0.0
    best = int(joined.argmax())
    if not joined[best] > 0:
        return base
    learned = float(answer.scores[best])
    return joined * np.float32(max(float(base[best]), learned / (1 + learned)) / joined[best])


def _blend(base: Floats, learned: Floats, tried: Floats, weight: float) -> Floats:
    """Returns base + weight * max(learned, share), unscaled.

    `share` makes up for tools that the log cannot know: UNTRIED * the best learned score * base / the best base score, divided
    by 1 + the number of the tool's calls (`tried`). Without a learned score above 0, the result is `base`.
    """
    best, best_learned = base.max(initial=0.0), learned.max(initial=0.0)
    if not weight or not best_learned > 0:
        return base
    if best > 0:
        learned = np.maximum(learned, UNTRIED * best_learned / best * base / (1 + tried))
    joined: Floats = (base + np.float32(weight) * learned).astype(np.float32)
    return joined


def _nearest(entries: Ints, likeness: Floats, owners: Ints, me: int) -> Ints:
    """Returns the indexes into `entries` of the most similar entries, at most `NEIGHBOURS`, and at most `MOST_OF_ONE` of each
    other principal. If two entries are equally similar, the later one comes first."""
    order = np.lexsort((-entries, -likeness))
    order = order[likeness[order] > 0]
    ordered_owners = owners[entries[order]]
    others = (ordered_owners != OPERATOR_LOG) & (ordered_owners != me)
    if not others.any():
        return order[:NEIGHBOURS]
    counts: dict[int, int] = {}
    counted: list[int] = []
    for place, owner, other in zip(order.tolist(), ordered_owners.tolist(), others.tolist(), strict=True):
        if other:
            counts[owner] = counts.get(owner, 0) + 1
            if counts[owner] > MOST_OF_ONE:
                continue
        counted.append(place)
        if len(counted) == NEIGHBOURS:
            break
    return np.array(counted, dtype=np.int64)


def _unrelated(cosines: Floats) -> float:
    """Returns the cosine up to which a past request counts as unrelated, from the cosines of a sample of past requests."""
    if not len(cosines):
        return _LEAST_UNRELATED
    place = int(UNRELATED * (len(cosines) - 1))
    return min(max(float(np.partition(cosines, place)[place]), _LEAST_UNRELATED), _MOST_UNRELATED)


def _recall(scores: Floats, right: Ints) -> float:
    """Returns the share of the right tools that are among the first five. If two tools have equal scores, the earlier one in the
    catalog comes first. A tool with score 0 is a miss."""
    above = [(scores > scores[each]).sum() + (scores[:each] == scores[each]).sum() for each in right.tolist()]
    hits = [place < _AT and scores[each] > 0 for place, each in zip(above, right.tolist(), strict=True)]
    return sum(map(bool, hits)) / len(right)


def _best_weight(recalls: npt.NDArray[np.float64]) -> int:
    """Returns the index of the weight to use, from the recall of each request (row) with each weight (column).

    The expected gain of a weight is the mean of the measured and the usual gains. The usual ones are proportional to r * (1 - r),
    where r is the recall without the log: a log has little to improve if nearly all results are right, and if nearly all are
    wrong, it is probably not a log of these tools. The first weight, 0, is used unless the largest expected gain is above 0 by
    `_PROOF` standard errors.
    """
    gains = recalls - recalls[:, :1]
    recall = float(recalls[:, 0].mean())
    room = recall * (1 - recall)
    counted = len(gains) + _USUAL_REQUESTS
    expected = (gains.sum(axis=0) + _USUAL_REQUESTS * room * np.array(USUAL_GAINS)) / counted
    best = int(expected.argmax())
    squares = np.square(gains[:, best] - expected[best]).sum() + _USUAL_REQUESTS * room * _USUAL_VARIANCE
    return best if expected[best] > _PROOF * squares**0.5 / counted else 0


def _short(text: str) -> str:
    return text if len(text) <= _QUOTED_TEXT else f"{text[:_QUOTED_TEXT].rstrip()}…"
