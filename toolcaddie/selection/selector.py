"""The selector: from a message window to the tools that a request carries.

query -> words -> rankers -> one score a tool -> candidates -> allotment -> Selection. Pure: no I/O but a log line, and the
same answer in every process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import LEXICAL, SIGNALS, SelectionSettings
from toolcaddie.core.selection import (
    Budget,
    DroppedTool,
    DropStage,
    QueryWords,
    SelectedTool,
    Selection,
    SelectionQuery,
)
from toolcaddie.ports import RankerFactory, Ranking, Visible
from toolcaddie.registry import Registry
from toolcaddie.selection.allot import OUTCOMES, Allotment, Candidates, allot
from toolcaddie.selection.diversity import PLACES, spread, worth_of
from toolcaddie.selection.index.catalog_index import CatalogIndex, IndexCache
from toolcaddie.selection.index.links import LOOKED_AT, CoUsed, best_places, lifted
from toolcaddie.selection.index.masks import visible_in
from toolcaddie.selection.index.postings import postings_of
from toolcaddie.selection.pool import Kind, Pool, by_category, by_score, flat, nothing
from toolcaddie.selection.query import query_words
from toolcaddie.selection.rankers.categories import Categories, Found, Hit
from toolcaddie.selection.room import pins_that_fit, room_for
from toolcaddie.selection.scores import Said, Scored, scored, signals_of
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace
from toolcaddie.util.suggest import did_you_mean

log = Logger(__name__)

_SETTLED = 16
"""Selections kept of a catalog that goes through whole."""

DROPPED_LISTED = 32
"""Losers that a `Selection` lists, the best first. `Selector.dropped` gives all of them, `explain` any one."""

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

RANKER = "ranker"
"""The socket of rankers in the registry."""

_FACTORIES = 64

_BY_WORDS = frozenset(LEXICAL[1:])
"""Rankers that read the catalog's words, which are then there to be looked at."""

_MAY_WEIGH = frozenset({*SIGNALS["plain"], *SIGNALS["embedding"], "learned"})
"""Weights of these may stand in the settings whether or not anything brings the ranker now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a tool is in or out."""

    tool: str
    chosen: bool
    stage: str
    """'selected', 'core', 'pinned', 'sent' (before), 'unknown', or the stage that dropped it."""
    score: float = 0.0
    rank: int | None = None
    """Place among the candidates, the best is 1; None: it was not one."""
    candidates: int = 0
    detail: str = ""
    reasons: tuple[str, ...] = ()
    signals: Mapping[str, float] = field(default_factory=dict)
    """What each ranker said, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """Tools in the order they are preferred."""

    tools: tuple[SelectedTool, ...]
    """The best first."""
    fit: float
    """How well the best one serves the request, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ranking:
    """The candidates, and what was said of every tool on the way to them."""

    pool: Pool
    scores: Floats
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    signals: Mapping[str, Floats] = field(default_factory=dict)
    floor: float = 0.0
    lent: Mapping[int, str] = field(default_factory=dict)
    """Why tools were raised that others need, by position."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Plan:
    """A selection before it is written down."""

    index: CatalogIndex
    ranking: _Ranking
    candidates: Candidates
    allotment: Allotment
    core: Ints
    pinned: Ints
    essential: Mapping[str, str]
    """Of the pinned tools, the ones the caller cannot do without, each with its reason."""

    @property
    def pool(self) -> Pool:
        return self.ranking.pool

    @property
    def scores(self) -> Floats:
        return self.ranking.scores

    @property
    def chosen(self) -> Ints:
        return self.pool.positions[self.allotment.chosen]


@lru_cache(maxsize=_FACTORIES)
def _loaded(name: str) -> RankerFactory:
    """Returns an installed ranker's factory. Ours are found like those of other packages; looking takes milliseconds."""
    factory: RankerFactory = Registry().make(RANKER, name)
    return factory


def _installed(name: str, given: Mapping[str, RankerFactory]) -> RankerFactory:
    try:
        return _loaded(name)
    except ConfigError:
        if name in Registry().names(RANKER):
            raise
        raise ConfigError(f"selection.rankers: no ranker {name!r}; {did_you_mean(name, _names(given))}") from None


def _names(given: Mapping[str, RankerFactory]) -> list[str]:
    return sorted({*_MAY_WEIGH, *given, *Registry().names(RANKER)})


class Selector:
    """Finds the tools of a view that fit. Make one per configuration and keep it: it remembers what it worked out of each
    catalog. Safe for many threads.

    `rankers` maps names used in `settings.rankers` to factories, beside those that are installed; `categories` is always there.
    `co_used` is asked in each request for pairs of tools that were used together, and must answer at once.
    """

    def __init__(
        self,
        settings: SelectionSettings | None = None,
        rankers: Mapping[str, RankerFactory] | None = None,
        *,
        core: bool = True,
        co_used: Callable[[Catalog], CoUsed] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if settings is not None and not isinstance(settings, SelectionSettings):
            raise ConfigError(f"settings must be SelectionSettings(...), not a {type(settings).__name__}")
        self.settings = settings or SelectionSettings()
        self._core = core
        self._co_used = co_used
        self._clock = clock
        given = dict(rankers or {})
        # Categories decide the allotment too and follow the settings, so the selector makes its own.
        self._scorers = tuple(name for name in self.settings.rankers if name != "categories")
        self._by_keyword = "categories" in self.settings.rankers
        self._factories = {name: given[name] if name in given else _installed(name, given) for name in self._scorers}
        self._factories |= {"bm25": given.get("bm25") or _installed("bm25", given), **given}
        for name in self.settings.weights:
            if name not in _MAY_WEIGH and name not in self._factories and name not in Registry().names(RANKER):
                raise ConfigError(f"selection.weights: no ranker {name!r}; {did_you_mean(name, _names(given))}")
        for name, weight in self.settings.weights.items():
            if not 0 <= weight < math.inf:  # what is no number is neither
                raise ConfigError(f"selection.weights: {name} is {weight}; a weight is a number from 0 up")
        least = self.settings.nothing_fits
        if least is not None and not 0 <= least <= 1:
            raise ConfigError(f"selection.nothing_fits is {least}; give a number from 0 to 1")
        self._indexes = IndexCache(self._make_index)

    def select(self, view: View, query: SelectionQuery, budget: Budget) -> Selection:
        """The tools for a request. Raises `BudgetError` when those that must be sent are over a limit."""
        started = self._clock()
        settled = self._indexes.of(view.catalog).settled
        key = _all_it_depends_on(view, query, budget)
        if key is not None and key in settled:
            selection = replace(settled[key], seconds=self._clock() - started)
            _log_selected(selection)
            return selection
        plan = self._plan(view, query, budget)
        selection = self._written(view, plan, budget, started)
        plan.index.used = True
        if key is not None and plan.pool.kind == "whole" and len(settled) < _SETTLED:
            settled[key] = selection
        _log_selection(selection, plan, budget)
        return selection

    def is_ready(self, catalog: Catalog) -> bool:
        """Whether a selection from this catalog begins at once, without anything to work out of it first."""
        return self._indexes.is_ready(catalog)

    def search(self, view: View, text: str, limit: int) -> Sequence[SelectedTool]:
        """The best matches for some words, best first, core tools too; only tools that match at all."""
        return self.ranked(view, SelectionQuery(text=text), limit).tools

    def ranked(self, view: View, query: SelectionQuery, limit: int) -> Ranked:
        """The best matches for a query whatever the budget, core tools too; only tools that match at all."""
        index = self._indexes.of(view.catalog)
        words = query_words(query, window=self.settings.window, window_user=self.settings.window_user)
        found = Found(matched=index.categories.found(words, visible_in(view)).matched)  # a relation is no match
        names = self._scorers or ("bm25",)
        said = scored(
            index,
            ("categories", *names),
            words,
            found,
            visible_in(view),
            self.settings.weights,
            self.settings.nothing_fits,
        )
        scores = said.scores
        hits = np.flatnonzero(scores > said.floor)
        best = hits[np.argsort(-scores[hits], kind="stable")][: max(limit, 2 * PLACES)]
        if _BY_WORDS & {*names}:
            best = _spread(index, words, scores, best, visible_in(view), PLACES)
        best = best[: max(0, limit)]
        why = _reasons(index, said.rankings, found, best.tolist())
        tools = tuple(
            SelectedTool(
                tool=view.catalog.tools[position],
                score=score,
                reasons=reasons,
                core=bool(index.core[position]),
            )
            for position, score, reasons in zip(best.tolist(), _rounded(scores, best), why, strict=True)
        )
        return Ranked(tools=tools, fit=said.fit)

    def said(self, view: View, query: SelectionQuery) -> Said:
        """What each ranker says of every tool, unweighed: for whoever looks for other weights."""
        index = self._indexes.of(view.catalog)
        words = query_words(query, window=self.settings.window, window_user=self.settings.window_user)
        found = Found(matched=index.categories.found(words, visible_in(view)).matched)
        return signals_of(index, ("categories", *(self._scorers or ("bm25",))), words, found, visible_in(view))

    def dropped(self, view: View, query: SelectionQuery, budget: Budget) -> tuple[DroppedTool, ...]:
        """Every visible tool left out: candidates first, the best first, then those that never were, in catalog order."""
        plan = self._plan(view, query, budget)
        outside = _visible(view, plan.index).copy()
        outside[np.concatenate([plan.pool.positions, plan.core, plan.pinned])] = False
        outside[_positions(view, query.exclude)] = False
        rest = (self._outsider(view, plan, position) for position in np.flatnonzero(outside).tolist())
        return (*_losers(view, plan, budget, None), *rest)

    def explain(self, view: View, query: SelectionQuery, budget: Budget, name: str) -> Explanation:
        """Why the tool of that name is in or out. For the operator: it says of a hidden tool that it is hidden."""
        position = view.catalog.position(name)
        if position is None:
            return Explanation(tool=name, chosen=False, stage="unknown", detail="the catalog has no tool of this name")
        if not view.sees(position):
            return Explanation(tool=name, chosen=False, stage="hidden", detail="this caller may not see it")
        plan = self._plan(view, query, budget)
        stage, detail = self._stage(view, plan, query, budget, position)
        ranks = np.flatnonzero(plan.pool.positions[plan.allotment.ranked] == position)
        return Explanation(
            tool=name,
            chosen=stage in ("selected", "core", "pinned"),
            stage=stage,
            score=round(float(plan.scores[position]), 4),
            rank=int(ranks[0]) + 1 if len(ranks) else None,
            candidates=len(plan.candidates),
            detail=detail,
            reasons=self._why(view, plan, [position])[0],
            signals={name: round(float(signal[position]), 4) for name, signal in plan.ranking.signals.items()},
        )

    def scores_without(self, catalog: Catalog, excluded: Collection[str]) -> Callable[[QueryWords], Floats]:
        """Returns a function that scores every tool of a catalog by all rankers but the excluded ones."""
        index = self._indexes.of(catalog)
        others = tuple(name for name in self._scorers if name not in excluded)
        names = ("categories", *others) if self._by_keyword else others

        def scores(words: QueryWords) -> Floats:
            found = index.categories.found(words, None) if self._by_keyword else Found()
            return scored(index, names, words, found, None, self.settings.weights, self.settings.nothing_fits).scores

        return scores

    # --- from a query to a plan ---------------------------------------------------------------------------------------

    def _make_index(self, catalog: Catalog) -> CatalogIndex:
        categories = Categories(catalog, match=self.settings.match, related_depth=self.settings.related_depth)
        return CatalogIndex(catalog, categories, self._factories, core=self._core)

    def _plan(self, view: View, query: SelectionQuery, budget: Budget) -> _Plan:
        index = self._indexes.of(view.catalog)
        visible = _visible(view, index)
        sent = np.zeros(index.size, dtype=np.bool_)
        sent[_positions(view, query.exclude)] = True
        essential, pinned = _asked_for(view, index, query, sent)
        eligible = visible & ~index.core
        if len(essential) or len(pinned):
            eligible[np.concatenate([essential, pinned])] = False
        if budget.policy != "proportional":
            eligible &= ~sent

        whole = self._goes_whole(index, view, query, budget, visible)
        if whole:
            pool = flat(index, "whole", eligible & ~sent)
            ranking = _Ranking(pool=pool, scores=np.zeros(index.size, dtype=np.float32))
        else:
            ranking = self._ranking(index, view, query, eligible, budget.max_tools)
        core = np.flatnonzero(visible & index.core & ~sent)
        if ranking.pool.no_match and self.settings.on_no_match == "none":
            core = core[:0]
        always = np.concatenate([core, essential]) if len(essential) else core
        if len(pinned) > 1:
            pinned = pins_that_fit(index, query, budget, always, pinned, ranking.scores)
        candidates = _candidates(index, ranking.pool, sent, sized=budget.max_tokens is not None)
        room = room_for(view, index, query, budget, always, pinned, whole=whole)
        policy = "ranked" if whole else budget.policy
        allotment = allot(candidates, room, policy=policy, redistribute=budget.redistribute)
        return _Plan(
            index=index,
            ranking=ranking,
            candidates=candidates,
            allotment=allotment,
            core=core,
            pinned=np.concatenate([essential, pinned]) if len(essential) else pinned,
            essential=query.essential,
        )

    def _goes_whole(
        self, index: CatalogIndex, view: View, query: SelectionQuery, budget: Budget, visible: Visible
    ) -> bool:
        """Whether there is nothing to choose: the visible catalog fits as it is. Not asked when something is looked for."""
        if not self.settings.whole_if_it_fits or query.text is not None or query.categories is not None:
            return False
        count = int(visible.sum())
        ordinary = count - int((visible & index.core).sum())
        if query.essential:
            ordinary -= sum(not index.core[position] for position in _positions(view, query.essential))
        return (
            (budget.max_tools is None or ordinary <= budget.max_tools)
            and (budget.provider_cap is None or count + query.fixed_count <= budget.provider_cap)
            and (budget.max_tokens is None or int(index.full[visible].sum()) + query.fixed_tokens <= budget.max_tokens)
        )

    def _ranking(
        self, index: CatalogIndex, view: View, query: SelectionQuery, eligible: Visible, places: int | None
    ) -> _Ranking:
        if not self.settings.rankers and query.categories is None:
            return _Ranking(pool=flat(index, "listed", eligible), scores=np.zeros(index.size, dtype=np.float32))
        words, found = self._found(index, query, visible_in(view))
        drawers = self._by_keyword or query.categories is not None or bool(query.suggested)
        names = ("categories", *self._scorers) if drawers else self._scorers
        said = scored(index, names, words, found, visible_in(view), self.settings.weights, self.settings.nothing_fits)
        said = self._shared(index, words, said, eligible, visible_in(view), places)
        pool = self._pool(index, query, found, said.scores, said.floor, eligible)
        if pool.kind != "scored" or query.categories is not None:
            return _Ranking(
                pool=pool, scores=said.scores, rankings=said.rankings, signals=said.signals, floor=said.floor
            )
        scores, lent = self._lent(index, view, said, eligible, places)
        if lent:
            pool = by_score(index, found, scores, said.floor, eligible)
        return _Ranking(
            pool=pool, scores=scores, rankings=said.rankings, signals=said.signals, floor=said.floor, lent=lent
        )

    def _shared(
        self,
        index: CatalogIndex,
        words: QueryWords,
        said: Scored,
        eligible: Visible,
        mask: Visible | None,
        places: int | None,
    ) -> Scored:
        """The scores dealt anew among the best where places are few; where they are many, all that the request names has
        one anyway."""
        if places is None or places > 2 * PLACES or not _BY_WORDS & {*self._scorers}:
            return said
        hits = np.flatnonzero(eligible & (said.scores > said.floor))
        best = hits[np.argsort(-said.scores[hits], kind="stable")][: 2 * places]
        scores = said.scores.copy()
        scores[_spread(index, words, said.scores, best, mask, places)] = said.scores[best]
        return replace(said, scores=scores)

    def _lent(
        self, index: CatalogIndex, view: View, said: Scored, eligible: Visible, places: int | None
    ) -> tuple[Floats, Mapping[int, str]]:
        """The scores with a share of the places lent to what the best tools need."""
        best = best_places(said.scores, LOOKED_AT)
        used = self._co_used(view.catalog) if self._co_used is not None else None
        links = index.links()
        return lifted(
            said.scores, eligible, best, said.floor, links, places=places, mask=visible_in(view), co_used=used
        )

    def _found(self, index: CatalogIndex, query: SelectionQuery, mask: Visible | None) -> tuple[QueryWords, Found]:
        """The words of the query, and the categories that they or the caller name."""
        words = query_words(query, window=self.settings.window, window_user=self.settings.window_user)
        if query.categories is None:
            drawers = self._by_keyword or query.suggested
            return words, index.categories.found(words, mask, query.suggested) if drawers else Found()
        shown = index.categories.visible(mask)
        named = (index.categories.index(name) for name in dict.fromkeys(query.categories))
        return words, Found(matched={i: Hit(weight=1.0) for i in named if i is not None and shown[i]})

    def _pool(
        self, index: CatalogIndex, query: SelectionQuery, found: Found, scores: Floats, floor: float, eligible: Visible
    ) -> Pool:
        if query.categories is not None:
            kind: Kind = "scored" if self._scorers else "listed"
            return by_category(index, kind, found, found.matched, scores if self._scorers else None, eligible)
        if not (scores > floor).any() and not found.matched:
            return self._without_match(index, query, eligible)
        if not self._scorers:
            return by_category(index, "listed", found, sorted((*found.matched, *found.related)), None, eligible)
        return by_score(index, found, scores, floor, eligible)

    def _without_match(self, index: CatalogIndex, query: SelectionQuery, eligible: Visible) -> Pool:
        """The default categories, unless tools were sent before: then nothing more is what fits.

        Where they do not all fit, each category's first tools go before its last; the exact presets keep the list's order.
        """
        if self.settings.on_no_match != "defaults" or query.exclude:
            return nothing(index)
        priority = -index.groups.place if self._scorers else None
        return by_category(index, "defaults", Found(), index.defaults, priority, eligible)

    # --- from a plan to what is written down --------------------------------------------------------------------------

    def _written(self, view: View, plan: _Plan, budget: Budget, started: float) -> Selection:
        positions = [*plan.core.tolist(), *self._ordered(plan)]
        slim = self._slimmed(plan, positions)
        categories = view.catalog.categories
        matched = tuple(categories[i].name for i in plan.pool.found.matched)
        gave = sorted({i for i in plan.index.categories.category_of[plan.chosen].tolist() if i >= 0})
        sizes = plan.index.slim(np.array(positions, dtype=np.int64)) if slim else plan.index.full[positions]
        return Selection(
            tools=tuple(
                SelectedTool(
                    tool=view.catalog.tools[position],
                    score=score,
                    reasons=reasons,
                    slim=position in slim,
                    core=core,
                )
                for position, score, reasons, core in zip(
                    positions,
                    _rounded(plan.scores, positions),
                    self._why(view, plan, positions),
                    plan.index.core[np.array(positions, dtype=np.int64)].tolist(),
                    strict=True,
                )
            ),
            dropped=tuple(_losers(view, plan, budget, DROPPED_LISTED)),
            categories=tuple(dict.fromkeys((*matched, *(categories[i].name for i in gave)))),
            matched=matched,
            no_match=plan.pool.no_match,
            starved=_starved(view, plan),
            catalog_size=len(view),
            tokens_all=plan.index.tokens if (mask := visible_in(view)) is None else int(plan.index.full[mask].sum()),
            tokens_selected=int(sizes.sum()),
            seconds=self._clock() - started,
        )

    def _ordered(self, plan: _Plan) -> list[int]:
        """Exact presets keep the order of the list, category by category; ours is catalog order, which caches like."""
        if plan.pool.kind in ("listed", "defaults") and not self._scorers:
            return [*sorted(plan.pinned.tolist()), *plan.pool.positions[np.sort(plan.allotment.chosen)].tolist()]
        return sorted((*plan.pinned.tolist(), *plan.chosen.tolist()))

    def _slimmed(self, plan: _Plan, positions: Sequence[int]) -> frozenset[int]:
        """Positions to be sent slimmed: all that slimming makes smaller, once anything had to be slimmed."""
        if not plan.allotment.slimmed:
            return frozenset()
        array = np.array(positions, dtype=np.int64)
        return frozenset(array[plan.index.slim(array) < plan.index.full[array]].tolist())

    def _why(self, view: View, plan: _Plan, positions: Sequence[int]) -> list[tuple[str, ...]]:
        """Of each, only what is true of this very tool, also where it was left out."""
        core, pinned, kind = frozenset(plan.core.tolist()), frozenset(plan.pinned.tolist()), plan.pool.kind
        ranked = kind in ("scored", "listed")
        said = _reasons(plan.index, plan.ranking.rankings, plan.pool.found, positions) if ranked else []
        why: list[tuple[str, ...]] = []
        for number, position in enumerate(positions):
            if position in core:
                why.append(("core: sent always",))
            elif position in pinned:
                name = view.catalog.tools[position].name
                why.append((f"pinned: {plan.essential.get(name, 'asked for by name')}",))
            elif kind == "whole":
                why.append(("the whole catalog fits",))
            elif kind == "defaults" and position in plan.pool.positions:
                why.append((f"default category {view.catalog.tools[position].category}: nothing matched",))
            else:
                lent = plan.ranking.lent.get(position)
                why.append((*(said[number] if ranked else ()), *((lent,) if lent else ())))
        return why

    def _stage(self, view: View, plan: _Plan, query: SelectionQuery, budget: Budget, position: int) -> tuple[str, str]:
        if position in plan.core:
            return "core", ""
        if position in plan.pinned:
            return "pinned", ""
        if view.catalog.tools[position].name in query.exclude:
            return "sent", "the conversation has it already"
        at = np.flatnonzero(plan.pool.positions == position)
        if not len(at):
            drop = self._outsider(view, plan, position)
            return drop.stage, drop.detail
        if OUTCOMES[plan.allotment.outcome[at[0]]] == "chosen":
            return "selected", ""
        (lost,) = _lost(view, plan, budget, at[:1])
        return lost.stage, lost.detail

    def _outsider(self, view: View, plan: _Plan, position: int) -> DroppedTool:
        """A visible tool that was no candidate."""
        score = float(plan.scores[position])
        stage: DropStage = "floor" if score > 0 else "no_match"
        detail = (
            f"score {score:.3f} is under the floor of {plan.ranking.floor:.3f}"
            if score > 0
            else "nothing in it was asked for"
        )
        return DroppedTool(name=view.catalog.tools[position].name, stage=stage, detail=detail, score=round(score, 4))


def _spread(
    index: CatalogIndex, words: QueryWords, scores: Floats, best: Ints, mask: Visible | None, places: int
) -> Ints:
    """The best tools, falling by score, in the order that serves all that the request names."""
    postings = postings_of(index.catalog)
    asked = postings.asked(words)
    worth = worth_of(asked, postings.scope(mask))
    depth = min(len(best), 2 * places)
    order = spread(scores[best], postings.terms_of(best[:depth].tolist()), asked.ids, worth, places=places, depth=depth)
    return best[order]


def _candidates(index: CatalogIndex, pool: Pool, sent: Visible, *, sized: bool) -> Candidates:
    full = index.full[pool.positions]
    return Candidates(
        priority=pool.priority,
        group=pool.group,
        guaranteed=pool.guaranteed,
        sent=sent[pool.positions],
        full=full,
        slim=index.slim(pool.positions) if sized else full,
    )


_STAGES = cast(Sequence[DropStage], OUTCOMES)  # of what was lost, and so neither chosen nor sent

# --- words for what happened ----------------------------------------------------------------------------------------------


def _reasons(
    index: CatalogIndex, rankings: Mapping[str, Ranking], found: Found, positions: Sequence[int]
) -> list[tuple[str, ...]]:
    """What the rankers say of each of these tools, the categories first."""
    reasons = index.categories.reasons_in(found, positions)
    for name, ranking in rankings.items():
        if name != "categories":
            more = ranking.explain(positions)
            reasons = [(*said, *new) for said, new in zip(reasons, more, strict=True)]
    return reasons


def _losers(view: View, plan: _Plan, budget: Budget, limit: int | None) -> list[DroppedTool]:
    """Candidates that were not chosen, the best first."""
    ranked = plan.allotment.ranked
    return _lost(view, plan, budget, ranked[plan.allotment.outcome[ranked] >= OUTCOMES.index("quota")][:limit])


def _lost(view: View, plan: _Plan, budget: Budget, numbers: Ints) -> list[DroppedTool]:
    """These candidates as what was dropped, each with the stage and the number it lost by."""
    details = {
        "quota": f"its category has {plan.allotment.quota} places",
        "max_tools": f"max_tools is {budget.max_tools}",
        "provider_cap": f"the provider takes {budget.provider_cap}",
    }
    positions = plan.pool.positions[numbers]
    stages = [_STAGES[code] for code in plan.allotment.outcome[numbers].tolist()]
    sizes = plan.candidates.slim[numbers].tolist()
    tools = view.catalog.tools
    return [
        DroppedTool(
            name=tools[position].name,
            stage=stage,
            detail=details.get(stage) or f"{size} tokens did not fit into {budget.max_tokens}",
            score=score,
        )
        for position, stage, size, score in zip(
            positions.tolist(), stages, sizes, _rounded(plan.scores, positions), strict=True
        )
    ]


def _rounded(scores: Floats, positions: Ints | Sequence[int]) -> list[float]:
    """The scores of some tools as they are shown."""
    shown: list[float] = scores[np.array(positions, dtype=np.int64)].astype(np.float64).round(4).tolist()
    return shown


def _starved(view: View, plan: _Plan) -> tuple[str, ...]:
    """Categories that were asked for, have tools, and got none."""
    matched, groups = plan.pool.found.matched, plan.pool.group_categories
    if not matched:
        return ()
    counts = np.bincount(plan.pool.group[plan.allotment.outcome <= OUTCOMES.index("sent")], minlength=len(groups))
    return tuple(
        view.catalog.categories[category].name
        for category, count in zip(groups, counts.tolist(), strict=True)
        if not count and category in matched
    )


def _all_it_depends_on(view: View, query: SelectionQuery, budget: Budget) -> Hashable:
    """What a selection follows from beside the catalog where everything fits; None: this one is special."""
    asked = query.text is not None or query.categories is not None or query.pinned or query.exclude
    if asked or view.mask is not None:
        return None
    return budget, query.fixed_count, query.fixed_tokens, query.expandable, tuple(query.essential.items())


def _log_selection(selection: Selection, plan: _Plan, budget: Budget) -> None:
    if (plan.allotment.outcome == OUTCOMES.index("provider_cap")).any():
        log.warning(
            "tools_cut_to_cap",
            catalog=selection.catalog_size,
            selected=len(selection.tools),
            wanted=len(plan.core) + len(plan.pinned) + len(plan.candidates),
            cap=budget.provider_cap,
            categories=sorted(selection.categories),
        )
    _log_selected(selection)


def _log_selected(selection: Selection) -> None:
    if not log.is_enabled_for("info"):
        return  # the usual case of a program that only wanted a selection; found out the long way it costs 3 % of one
    log.info(
        "selection_made",
        selected=len(selection.tools),
        total=selection.catalog_size,
        categories=sorted(selection.categories),
    )


def _visible(view: View, index: CatalogIndex) -> Visible:
    return np.ones(index.size, dtype=np.bool_) if (visible := visible_in(view)) is None else visible


_NONE: Ints = np.zeros(0, dtype=np.int64)


def _asked_for(view: View, index: CatalogIndex, query: SelectionQuery, sent: Visible) -> tuple[Ints, Ints]:
    """Positions of the essential tools, and of the pinned ones beside them; neither core tools nor those that were sent."""
    if not query.essential and not query.pinned:  # as in most requests
        return _NONE, _NONE
    open_to_choice = ~(index.core | sent)
    essential = _among(open_to_choice, _positions(view, query.essential))
    open_to_choice[essential] = False
    return essential, _among(open_to_choice, _positions(view, query.pinned))


def _among(mask: Visible, positions: Sequence[int]) -> Ints:
    """Those of the positions that the mask holds."""
    return np.array([position for position in positions if mask[position]], dtype=np.int64)


def _positions(view: View, names: Iterable[str]) -> list[int]:
    """Positions of the visible tools of these names, sorted."""
    found = (view.catalog.position(name) for name in names)
    return sorted({position for position in found if position is not None and view.sees(position)})
