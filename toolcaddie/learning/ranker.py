"""Ranking by experience: the tools that were called after similar requests.

The past requests most similar to this one count for the tools that they called (k nearest neighbours; Yang, "An evaluation of
statistical approaches to text categorization", 1999). Their weight is fitted: each logged request is ranked again without its
own conversation, and the smallest weight that does as well as the best is taken (Breiman's one-standard-error rule;
"Classification and Regression Trees", 1984), or 0 if the log does not help.
"""

from __future__ import annotations

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
    EVERYBODY,
    Experience,
    Fit,
    Past,
    Remembered,
    meaning_of,
    owner_of,
    tenant_of,
)
from toolcaddie.learning.features import Floats, features_of
from toolcaddie.learning.search import Bools, Ints, Request, first_of_each, limited
from toolcaddie.ports import LastWord, Ranker, RankerFactory, Ranking, Visible
from toolcaddie.ports.ranking import Reasons, no_reasons
from toolcaddie.selection.selector import Selector
from toolcaddie.util.bounded import Bounded

NAME = "learned"

Base = Callable[[QueryWords], npt.NDArray[np.float32]]
"""The joint scores of the other rankers for every tool of the catalog."""

NEIGHBOURS = 300
"""Past requests that count."""
ALONE = 0.25
"""Weight of the principal with the most calls of a tool, in the rankings of others. It limits poisoning."""
MOST_OF_ONE = 75
"""Neighbours of another principal that count: a thousand copies of one request do not crowd out the requests of others."""
COUNTED_OF_ONE = 20
"""Entries of another principal that are counted for one tool at most, when frequent tools are weighed down."""
UNRELATED = 0.9
"""Share of past requests that are taken to be unrelated to a request: their largest cosine counts as no similarity. It is
measured, because long conversations are all closer to each other than single sentences are."""
_LEAST_UNRELATED, _MOST_UNRELATED = 0.2, 0.8
"""Bounds on that cosine, for logs that are small or all of one kind."""
UNTRIED = 0.75
"""Share of the best learned score for a tool that was never called, if the other rankers put it first: the log cannot know it.
A tool called n times gets 1 / (1 + n) of that."""
WEIGHTS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
ENOUGH = 30
"""Logged requests of a catalog below which the log has no weight."""
NEW = 0.1
"""Expected share of requests for tools that are not in the log, unless the log itself suggests more."""

_STANDARD_ERRORS = 0.25
_PROOF = 2.0
"""Standard errors by which a log must help to have any weight: a random log may help by chance."""
_TRIFLE = 0.001
_AT = 5
_QUOTED = 3
_QUOTED_TEXT = 60
_MOST_READERS = 32
_BACKGROUND = 500
"""Past requests that the cosine of unrelated requests is measured on."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Catalogued:
    """The tools of a past as positions of the catalog."""

    past: Past
    positions: Ints
    """The position of each tool; -1: it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Near:
    """The past requests most similar to one, and the tools they called."""

    past_entries: Sequence[Remembered]
    """All entries of the past."""
    entries: Ints
    owners: Ints
    likeness: Floats
    neighbour: Ints
    """The neighbour of each call."""
    position: Ints
    """The tool of each call, as a position of the catalog."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Answer:
    near: _Near
    scores: Floats
    """Learned scores, 0 or more, without an upper bound."""
    tried: Floats
    """Calls of each tool that the caller may learn from."""
    me: int


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
        """Returns scores from 0 to 1; 0 if no similar request called the tool, or it is hidden.

        The ranker has the last word, because its weight was fitted beside the scores of all others.
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
        """Returns the past requests that called each tool: the caller's own and the operator's are quoted, those of others only
        counted, unless the settings say otherwise."""
        return [self._reason(answer, position) for position in positions]

    # --- fitting the weight --------------------------------------------------------------------------------------------

    def fit(self, base: Base) -> Fit:
        """Chooses the weight by its effect on the logged requests: each without its own conversation, once as it is and once as
        if its tools had never been called."""
        recalls = [self._trial(place, words, base) for place, words in self._experience.sample()]
        trials = np.array([trial for trial in recalls if trial is not None], dtype=np.float64)
        fit = Fit(weight=0.0, requests=len(trials), tools=self._names)
        if len(trials) >= ENOUGH:
            seen_gains, unseen_gains = trials[:, 0], trials[:, 1]
            new_share = max(NEW, self._once())
            gains = (1 - new_share) * seen_gains + new_share * unseen_gains
            best = _smallest_as_good(gains)
            fit = Fit(
                weight=WEIGHTS[best],
                requests=len(trials),
                without=float(seen_gains[:, 0].mean()),
                with_log=float(seen_gains[:, best].mean()),
                tools=self._names,
            )
        self._experience.keep_fit(self._version, fit)
        return fit

    def _trial(self, place: int, words: QueryWords, base: Base) -> Sequence[Sequence[float]] | None:
        """Returns the recall of one logged request by weight, for called tools and for new ones; None: its tools are gone."""
        catalogued = self._catalogued()
        past = catalogued.past
        entry = past.entries[place]
        gold = {position for tool in entry.tools if (position := self._position(tool)) is not None}
        if not gold:
            return None
        right = np.array(sorted(gold), dtype=np.int64)
        near = self._near(catalogued, words, None, owner=entry.owner, tenant=entry.tenant, without=entry.group)
        scores = self._summed(near, self._tried_by(catalogued, entry.owner, entry.tenant), entry.owner)
        others = np.zeros(self._size, dtype=np.float32)
        same = np.flatnonzero(np.isin(past.pairs.entries, np.flatnonzero(past.groups == entry.group)))
        called = catalogued.positions[past.pairs.tools[same]]
        np.add.at(others, called[called >= 0], 1)
        tried = np.maximum(self._tried_by(catalogued, entry.owner, entry.tenant) - others, 0)
        base_scores, unseen_scores, untried = base(words), scores.copy(), tried.copy()
        unseen_scores[right] = 0.0
        untried[right] = 0.0
        return [
            [_recall(_blend(base_scores, scores, tried, weight), right) for weight in WEIGHTS],
            [_recall(_blend(base_scores, unseen_scores, untried, weight), right) for weight in WEIGHTS],
        ]

    def _once(self) -> float:
        """Returns the share of tools called only once among all calls, an estimate of the share of coming requests that call a
        new tool (Good, "The population frequencies of species", 1953)."""
        catalogued = self._catalogued()
        positions = catalogued.positions[catalogued.past.pairs.tools]
        counts = np.bincount(positions[positions >= 0], minlength=self._size)
        return float((counts == 1).sum() / max(1, counts.sum()))

    # --- searching the past -------------------------------------------------------------------------------------------

    def _answer(self, words: QueryWords, mask: Visible | None) -> _Answer | None:
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
        if tool not in self._positions:
            position = self._lookup.position(tool)
            self._positions[tool] = -1 if position is None else position
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
        past = catalogued.past
        allowed = self._readable(catalogued, mask, owner, tenant)
        if without is not None:
            allowed = allowed & (past.groups != without)
        background = self._background(catalogued, owner, tenant)
        entries, likeness = self._alike(past, words, allowed, owner, background)
        counted = _nearest(entries, likeness, past.owners, owner)
        entries, likeness = entries[counted], likeness[counted]
        first = np.searchsorted(past.pairs.entries, entries)
        counts = np.searchsorted(past.pairs.entries, entries, side="right") - first
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
        """Returns the entries similar to a request, and their similarities from 0 to 1: the mean of words and meaning, or
        words alone if the embedder has no vector for either."""
        request = Request(features_of(words), past.index.rarity)
        vector = meaning_of(self._experience.embedder, words)
        has_vector = bool(vector.any())
        indexed = len(past.index.rows)
        entries = past.index.candidates(request, allowed[:indexed], past.owners, (EVERYBODY, me), MOST_OF_ONE)
        if has_vector:
            limits = (EVERYBODY, me), MOST_OF_ONE, NEIGHBOURS
            near = past.meanings.near(vector, allowed[:indexed], past.owners, *limits)
            entries = np.union1d(entries, near) if len(near) else entries
        likeness = request.likeness(past.index.rows, past.index.lengths, entries)
        cosines = past.meanings.rows[entries] @ vector
        if len(past) > indexed:
            new = np.flatnonzero(allowed[indexed:])
            entries = np.concatenate([entries, indexed + new])
            likeness = np.concatenate([likeness, request.likeness(past.tail, past.tail_lengths, new)])
            cosines = np.concatenate([cosines, past.tail_meanings[new] @ vector])
        if has_vector:
            unrelated = _unrelated(background @ vector)
            by_meaning = np.clip((cosines - unrelated) / (1 - unrelated), 0.0, 1.0)
            likeness = np.where(cosines == 0, likeness, (likeness + by_meaning) / 2).astype(np.float32)
        return entries, likeness

    def _background(self, catalogued: _Catalogued, owner: int, tenant: int) -> Floats:
        """Returns the vectors of a sample of the entries this principal learns from, with a limit for each other principal."""
        past = catalogued.past
        alone = self._experience.settings.scope == "principal" or owner == EVERYBODY
        if (cached := self._backgrounds.get((owner, alone))) is not None and cached[0].index is past.index:
            return cached[1]
        indexed = len(past.index.rows)
        entries = np.flatnonzero(self._readable(catalogued, None, owner, tenant)[:indexed])
        entries = entries[
            np.lexsort(past.meanings.rows[entries, :2].T)
        ]  # an order that does not depend on their arrival
        limits = limited(past.owners[entries], (EVERYBODY, owner))
        if limits.any():
            entries = entries[first_of_each(limits, MOST_OF_ONE)]
        rows = past.meanings.rows[entries[:: len(entries) // _BACKGROUND + 1]]
        self._backgrounds.put((owner, alone), (past, rows))
        return rows

    def _readable(self, catalogued: _Catalogued, mask: Visible | None, owner: int, tenant: int) -> Bools:
        """Returns the entries that teach this principal and called a visible tool."""
        past = catalogued.past
        alone = self._experience.settings.scope == "principal" or owner == EVERYBODY
        key = (owner if alone else tenant, alone, None if mask is None else mask.tobytes())
        if (cached := self._readers.get(key)) is not None and cached[0] is past:
            return cached[1]
        visible = catalogued.positions >= 0
        if mask is not None:
            visible = visible & mask[catalogued.positions]
        allowed = np.zeros(len(past), dtype=np.bool_)
        allowed[past.pairs.entries[visible[past.pairs.tools]]] = True
        allowed &= (past.owners == EVERYBODY) | (past.owners == owner if alone else past.tenants == tenant)
        self._readers.put(key, (past, allowed))
        return allowed

    def _tried_by(self, catalogued: _Catalogued, owner: int, tenant: int) -> Floats:
        """Returns the calls of each tool in the entries this principal learns from; those of another principal up to a limit."""
        past = catalogued.past
        alone = self._experience.settings.scope == "principal" or owner == EVERYBODY
        if (cached := self._tried.get((owner, alone))) is not None and cached[0].index is past.index:
            return cached[1]
        allowed = self._readable(catalogued, None, owner, tenant)
        pairs = np.flatnonzero(allowed[past.pairs.entries] & (catalogued.positions[past.pairs.tools] >= 0))
        positions = catalogued.positions[past.pairs.tools[pairs]]
        owners = past.owners[past.pairs.entries[pairs]]
        mine = (owners == EVERYBODY) | (owners == owner)
        tried = np.bincount(positions[mine], minlength=self._size).astype(np.float32)
        if not mine.all():
            both = np.stack([positions[~mine], owners[~mine]])
            (theirs, _), counts = np.unique(both, axis=1, return_counts=True)
            tried += np.bincount(theirs, weights=np.minimum(counts, COUNTED_OF_ONE), minlength=self._size)
        self._tried.put((owner, alone), (past, tried))
        return tried

    def _summed(self, near: _Near, tried: Floats, me: int) -> Floats:
        """Returns the joint scores of the neighbours.

        The length of the vector of their similarities, which the nearest decide, plus twice their sum over the square root of
        the tool's calls, so that a tool called all the time does not win by that alone. No other principal counts for more than
        one identical request, and the one with the most only for `ALONE` of that.
        """
        likeness = near.likeness[near.neighbour]
        owners = near.owners[near.neighbour]
        mine = (owners == EVERYBODY) | (owners == me)
        squares = self._by_tool(near.position[mine], np.square(likeness[mine]))
        sums = self._by_tool(near.position[mine], likeness[mine])
        if not mine.all():
            squares += self._of_others(near.position[~mine], owners[~mine], np.square(likeness[~mine]), ALONE**2)
            sums += self._of_others(near.position[~mine], owners[~mine], likeness[~mine], ALONE)
        scores: Floats = (np.sqrt(squares) + 2 * sums / np.sqrt(np.maximum(tried, 1.0))).astype(np.float32)
        return scores

    def _by_tool(self, positions: Ints, values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        summed: npt.NDArray[np.float64] = np.bincount(positions, weights=values, minlength=self._size).astype(
            np.float64
        )
        return summed

    def _of_others(self, positions: Ints, owners: Ints, values: Floats, alone: float) -> npt.NDArray[np.float64]:
        both, number = np.unique(np.stack([positions, owners]), axis=1, return_inverse=True)
        each = np.minimum(np.bincount(number.ravel(), weights=values), 1.0)
        loudest = np.zeros(self._size)
        np.maximum.at(loudest, both[0], each)
        return self._by_tool(both[0], each) - (1 - alone) * loudest

    def _reason(self, answer: _Answer, position: int) -> tuple[str, ...]:
        near = answer.near
        neighbours = near.neighbour[near.position == position]
        if not len(neighbours):
            return ()
        order = neighbours[np.argsort(-near.likeness[neighbours], kind="stable")].tolist()
        count = len(order)
        requests = "1 request" if count == 1 else f"{count} requests"
        names_others = self._experience.settings.name_others
        past_entries = [near.past_entries[near.entries[each]] for each in order]
        texts = dict.fromkeys(
            _short(entry.text) for entry in past_entries if names_others or entry.owner in (EVERYBODY, answer.me)
        )
        quoted = ", ".join(f"'{text}'" for text in list(texts)[:_QUOTED] if text)
        return (f"called after: {quoted} ({requests})",) if quoted else (f"called after {requests} like this",)


def factory(experience: Experience) -> RankerFactory:
    """Returns the factory of the ranker `learned` over this memory."""

    def make(catalog: Catalog, previous: Ranker | None = None) -> Ranker:
        return Learned(catalog, experience)

    return make


def refit(experience: Experience, selector: Selector, catalog: Catalog) -> None:
    """Fits the weight of the memory in a catalog again, beside the selector's other rankers; does nothing if the selector does
    not use the memory. Takes seconds while requests go on: call it in a thread of its own."""
    if NAME in selector.settings.rankers:
        Learned(catalog, experience).fit(selector.scores_without(catalog, {NAME}))


def _others_alone(base: Floats, factor: float) -> Floats:
    return base


def _blended(answer: _Answer, own_weight: float, visible: Visible | None, base: Floats, factor: float) -> Floats:
    """Joins the scores of all other rankers with the learned ones. `factor` is the operator's, on the weight.

    base + weight * max(learned, untried * the best learned * base / the best base), where `untried` makes up for tools that
    the log cannot know; then scaled back to 0 to 1, with the best tool as certain as the more certain of the two scores. With
    weight 0, or without a similar request in the log: exactly `base`.
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
    best, best_learned = base.max(initial=0.0), learned.max(initial=0.0)
    if not weight or not best_learned > 0:
        return base
    if best > 0:
        learned = np.maximum(learned, UNTRIED * best_learned / best * base / (1 + tried))
    joined: Floats = (base + np.float32(weight) * learned).astype(np.float32)
    return joined


def _nearest(entries: Ints, likeness: Floats, owners: Ints, me: int) -> Ints:
    """Returns the nearest entries, with a limit for each other principal; of equally near ones the later."""
    order = np.lexsort((-entries, -likeness))
    order = order[likeness[order] > 0]
    theirs = owners[entries[order]]
    others = (theirs != EVERYBODY) & (theirs != me)
    if not others.any():
        return order[:NEIGHBOURS]
    counts: dict[int, int] = {}
    counted: list[int] = []
    for place, owner, other in zip(order.tolist(), theirs.tolist(), others.tolist(), strict=True):
        if other:
            counts[owner] = counts.get(owner, 0) + 1
            if counts[owner] > MOST_OF_ONE:
                continue
        counted.append(place)
        if len(counted) == NEIGHBOURS:
            break
    return np.array(counted, dtype=np.int64)


def _unrelated(cosines: Floats) -> float:
    """Returns the cosine up to which a past request counts as unrelated."""
    if not len(cosines):
        return _LEAST_UNRELATED
    place = int(UNRELATED * (len(cosines) - 1))
    return min(max(float(np.partition(cosines, place)[place]), _LEAST_UNRELATED), _MOST_UNRELATED)


def _recall(scores: Floats, right: Ints) -> float:
    """Returns the share of the right tools among the first five; of equal scores the earlier tool is first, and 0 is a miss."""
    above = [(scores > scores[each]).sum() + (scores[:each] == scores[each]).sum() for each in right.tolist()]
    hits = [place < _AT and scores[each] > 0 for place, each in zip(above, right.tolist(), strict=True)]
    return sum(map(bool, hits)) / len(right)


def _smallest_as_good(gains: npt.NDArray[np.float64]) -> int:
    """Returns the place of the weight to use: 0 unless the best beats it beyond chance; else the smallest within a quarter of a
    standard error of the best."""
    best = int(gains.mean(axis=0).argmax())
    over_none = gains[:, best] - gains[:, 0]
    if over_none.mean() <= _PROOF * over_none.std() / len(over_none) ** 0.5:
        return 0
    for each in range(best):
        less = gains[:, best] - gains[:, each]
        if less.mean() <= max(_TRIFLE, _STANDARD_ERRORS * less.std() / len(less) ** 0.5):
            return each
    return best


def _short(text: str) -> str:
    return text if len(text) <= _QUOTED_TEXT else f"{text[:_QUOTED_TEXT].rstrip()}…"
