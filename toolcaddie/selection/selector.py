"""The selector: selects the tools of a request from the last messages of its conversation. The runtime calls it for each request.

Its steps: query -> words -> rankers -> one score for each tool -> candidates -> allotment of the budget -> `Selection`. It does
no I/O except log lines, and gives the same result in every process.

Core tools are sent with every request, essential tools because the request needs them, and pinned tools because the caller names
them. All other tools that match are candidates, and compete for the rest of the budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import SelectionSettings
from toolcaddie.core.selection import Budget, DroppedTool, QueryWords, SelectedTool, Selection, SelectionQuery
from toolcaddie.ports import RankerFactory, Visible
from toolcaddie.selection.allot import OUTCOMES, Candidates, allot
from toolcaddie.selection.capacity import capacity_of, pins_that_fit
from toolcaddie.selection.diversity import REORDERED
from toolcaddie.selection.evidence import Evidence, EvidenceReader
from toolcaddie.selection.explain import (
    Explanation,
    Grounds,
    dropped_candidates,
    drops,
    explanation,
    explanation_without_plan,
    later,
    rounded,
)
from toolcaddie.selection.factories import check_weights, ranker_factories
from toolcaddie.selection.fit import Features, features_of
from toolcaddie.selection.index.catalog_index import CatalogIndex, IndexCache
from toolcaddie.selection.index.links import LOOKED_AT, CoUsed, best_positions, lifted
from toolcaddie.selection.index.masks import all_visible, visible_in
from toolcaddie.selection.plan import RankedPool, SelectionPlan, positions_of
from toolcaddie.selection.pool import Kind, Pool, by_category, by_score, flat, nothing
from toolcaddie.selection.rankers.categories import Categories, CategoryMatches
from toolcaddie.selection.scores import Scored, Signals
from toolcaddie.selection.search import Ranked, diverse_order, reads_words, search
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

_MOST_WHOLE = 16
"""The largest number of selections that are cached for each catalog that is sent whole."""

DROPPED_LISTED = 32
"""The largest number of dropped tools that a `Selection` lists, the best first. `Selector.dropped` returns all of them."""

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_NONE: Ints = np.zeros(0, dtype=np.int64)


class Selector:
    """Selects the tools of a view that fit a request. Make one selector for each configuration and keep it, because it caches an
    index of each catalog. Safe for many threads.

    `rankers` maps names in `settings.rankers` to factories, in addition to the installed ones; the ranker `categories` always
    exists. `core` False: core tools get no special treatment. `co_used` returns the pairs of tools that were used together; it is
    called in each request and must return at once. `catalogs`: the number of catalogs that are used at once, such as those of
    tenants.
    """

    def __init__(
        self,
        settings: SelectionSettings | None = None,
        rankers: Mapping[str, RankerFactory] | None = None,
        *,
        core: bool = True,
        co_used: Callable[[Catalog], CoUsed] | None = None,
        catalogs: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if settings is not None and not isinstance(settings, SelectionSettings):
            raise ConfigError(f"settings must be SelectionSettings(...), not a {type(settings).__name__}")
        self.settings = settings or SelectionSettings()
        self._core = core
        self._co_used = co_used
        self._clock = clock
        # The ranker `categories` is made by `_make_index`: it depends on the settings, and the allotment uses its matches.
        self._scorers = tuple(name for name in self.settings.rankers if name != "categories")
        self._reader = EvidenceReader(
            settings=self.settings, scorers=self._scorers, by_keyword="categories" in self.settings.rankers
        )
        self._factories = ranker_factories(self._scorers, dict(rankers or {}))
        check_weights(self.settings, self._factories)
        least = self.settings.nothing_fits
        if least is not None and not 0 <= least <= 1:
            raise ConfigError(f"selection.nothing_fits is {least}; give a number from 0 to 1")
        if not 0 <= (sure := self.settings.sure_nothing_fits) <= 1:
            raise ConfigError(f"selection.sure_nothing_fits is {sure}; give a number from 0 to 1")
        self._indexes = IndexCache(self._make_index, catalogs=catalogs)

    def select(self, view: View, query: SelectionQuery, budget: Budget) -> Selection:
        """Returns the tools for a request. Raises `BudgetError` if the tools that must be sent are over a limit of the budget."""
        started = self._clock()
        index = self._indexes.of(view.catalog)
        key = _cache_key(view, query, budget)
        if key is not None and key in index.whole_selections:
            selection = replace(index.whole_selections[key], seconds=self._clock() - started)
            _log_selected(selection)
            return selection
        plan = self._plan(index, view, query, budget, ordered=DROPPED_LISTED)
        selection = self._selection(plan, started)
        index.used = True
        if key is not None and plan.pool.kind == "whole" and len(index.whole_selections) < _MOST_WHOLE:
            index.whole_selections[key] = selection
        _log_selection(selection, plan)
        return selection

    def forget(self, catalog: Catalog) -> None:
        """Drops the index of a catalog that is no longer used."""
        self._indexes.forget(catalog)

    def is_ready(self, catalog: Catalog) -> bool:
        """Returns True if a selection from this catalog begins at once, because its index exists."""
        return self._indexes.is_ready(catalog)

    def search(self, view: View, text: str, limit: int) -> Sequence[SelectedTool]:
        """Returns at most `limit` visible tools that match some words, the best first, including core tools."""
        return self.ranked(view, SelectionQuery(text=text), limit).tools

    def ranked(self, view: View, query: SelectionQuery, limit: int) -> Ranked:
        """Returns at most `limit` visible tools that match a query, without a budget, and the score of the best one."""
        return search(self._indexes.of(view.catalog), self._reader, view, query, limit)

    def signals(self, view: View, query: SelectionQuery) -> Signals:
        """Returns the unweighted scores of every tool by each ranker, for fitting weights."""
        return self._reader.for_search(self._indexes.of(view.catalog), query, visible_in(view)).signals

    def features(self, view: View, query: SelectionQuery) -> Features | None:
        """Returns the measurements by which "nothing fits" is estimated, for fitting; None if the request is not judged."""
        index, mask = self._indexes.of(view.catalog), visible_in(view)
        evidence = self._reader.for_search(index, query, mask)
        return features_of(index, evidence.words, evidence.signals, self._reader.scored(evidence), mask)

    def dropped(self, view: View, query: SelectionQuery, budget: Budget) -> tuple[DroppedTool, ...]:
        """Returns every visible tool that a selection drops: first the candidates, the best first, then all others in catalog
        order."""
        return drops(self._plan(self._indexes.of(view.catalog), view, query, budget))

    def explain(self, view: View, query: SelectionQuery, budget: Budget, name: str) -> Explanation:
        """Returns the reasons why a tool is selected or not. It is for operators only, because it reveals whether a hidden tool
        exists."""
        position = view.catalog.position(name)
        if position is None or not view.sees(position):
            return explanation_without_plan(name, exists=position is not None)
        return explanation(self._plan(self._indexes.of(view.catalog), view, query, budget), position)

    def scores_without(self, catalog: Catalog, excluded: Collection[str]) -> Callable[[QueryWords], Floats]:
        """Returns a function that scores every tool of a catalog by all rankers but the excluded ones."""
        index = self._indexes.of(catalog)
        scorers = tuple(name for name in self._scorers if name not in excluded)

        def scores(words: QueryWords) -> Floats:
            return self._reader.scored(self._reader.for_words(index, words, scorers)).scores

        return scores

    # --- from a query to a plan ---------------------------------------------------------------------------------------

    def _make_index(self, catalog: Catalog) -> CatalogIndex:
        categories = Categories(catalog, match=self.settings.match, related_depth=self.settings.related_depth)
        return CatalogIndex(catalog, categories, self._factories, core=self._core)

    def _plan(
        self, index: CatalogIndex, view: View, query: SelectionQuery, budget: Budget, *, ordered: int | None = None
    ) -> SelectionPlan:
        """Returns the plan of a selection: the tools that must be sent, the candidates, and the allotment of the rest of the
        budget. `ordered`: the number of dropped candidates whose order is asked for; None: that of all."""
        visible = all_visible(view)
        already_sent = np.zeros(index.size, dtype=np.bool_)
        already_sent[positions_of(view, query.exclude)] = True
        essential, pinned = _must_be_sent(view, index, query, already_sent)
        eligible = visible & ~index.core
        if len(essential) or len(pinned):
            eligible[np.concatenate([essential, pinned])] = False
        if budget.policy != "proportional":
            eligible &= ~already_sent

        whole = self._goes_whole(index, view, query, budget, visible)
        if whole:
            ranked = _unscored(index, flat(index, "whole", eligible & ~already_sent))
        else:
            ranked = self._ranked_pool(index, view, query, eligible, budget)
        core = np.flatnonzero(visible & index.core & ~already_sent)
        if ranked.pool.no_match and self.settings.on_no_match == "none":
            core = core[:0]
        always = np.concatenate([core, essential]) if len(essential) else core
        if len(pinned) > 1:
            pinned = pins_that_fit(index, query, budget, always, pinned, ranked.scores)
        candidates = _candidates(index, ranked.pool, already_sent, sized=budget.max_tokens is not None)
        capacity = capacity_of(view, index, query, budget, always, pinned, whole=whole)
        policy = "ranked" if whole else budget.policy
        allotment = allot(candidates, capacity, policy=policy, redistribute=budget.redistribute, ordered=ordered)
        return SelectionPlan(
            view=view,
            query=query,
            budget=budget,
            index=index,
            ranked=ranked,
            candidates=candidates,
            allotment=allotment,
            core=core,
            pinned=np.concatenate([essential, pinned]) if len(essential) else pinned,
        )

    def _goes_whole(
        self, index: CatalogIndex, view: View, query: SelectionQuery, budget: Budget, visible: Visible
    ) -> bool:
        """Returns True if all visible tools fit into the budget, so that nothing has to be selected; always False for a search
        and for fixed categories."""
        if not self.settings.whole_if_it_fits or query.text is not None or query.categories is not None:
            return False
        count = len(view)
        ordinary = count - (index.core_count if view.mask is None else int((visible & index.core).sum()))
        if query.essential:
            ordinary -= sum(not index.core[position] for position in positions_of(view, query.essential))
        return (
            (budget.max_tools is None or ordinary <= budget.max_tools)
            and (budget.provider_cap is None or count + query.fixed_count <= budget.provider_cap)
            and (budget.max_tokens is None or int(index.full[visible].sum()) + query.fixed_tokens <= budget.max_tokens)
        )

    def _ranked_pool(
        self, index: CatalogIndex, view: View, query: SelectionQuery, eligible: Visible, budget: Budget
    ) -> RankedPool:
        """Returns the candidates and the scores of all tools. `eligible` has a flag for each tool that may become a candidate."""
        if not self.settings.rankers and query.categories is None:
            return _unscored(index, flat(index, "listed", eligible))
        mask = visible_in(view)
        evidence = self._reader.for_selection(index, query, mask)
        scored = self._diversified(index, evidence, eligible, mask, budget.max_tools)
        by_group = budget.policy == "proportional"
        pool = self._pool(index, query, evidence.matches, scored, eligible, by_group=by_group)
        ranked = RankedPool(
            pool=pool,
            scores=scored.scores,
            rankings=scored.rankings,
            signals=scored.signals,
            floor=scored.floor,
            doubt=scored.doubt,
        )
        if pool.kind != "scored" or query.categories is not None:
            return ranked
        return self._with_links(index, view.catalog, ranked, eligible, mask, budget)

    def _diversified(
        self, index: CatalogIndex, evidence: Evidence, eligible: Visible, mask: Visible | None, max_tools: int | None
    ) -> Scored:
        """Returns the scores of all tools. If `max_tools` is small, the scores of the best tools are exchanged among these, so
        that their order covers the whole request; if it is large, enough tools are sent anyway."""
        scored = self._reader.scored(evidence)
        if self.settings.nothing_fits is None:
            scored = scored.without_doubtful(self.settings.sure_nothing_fits)
        if max_tools is None or max_tools > 2 * REORDERED or not reads_words(self._scorers):
            return scored
        hits = np.flatnonzero(eligible & (scored.scores > scored.floor))
        best = hits[np.argsort(-scored.scores[hits], kind="stable")][: 2 * max_tools]
        scores = scored.scores.copy()
        scores[diverse_order(index, evidence.words, scored.scores, best, mask, max_tools)] = scored.scores[best]
        return replace(scored, scores=scores)

    def _with_links(
        self,
        index: CatalogIndex,
        catalog: Catalog,
        ranked: RankedPool,
        eligible: Visible,
        mask: Visible | None,
        budget: Budget,
    ) -> RankedPool:
        """Returns the pool with tools that the best ones need, which get a share of the budget (see `index.links`)."""
        by_group = budget.policy == "proportional"
        scores, link_reasons = lifted(
            ranked.scores,
            eligible,
            best_positions(ranked.scores, LOOKED_AT),
            ranked.pool.priority,
            index.links(),
            max_tools=budget.max_tools,
            mask=mask,
            co_used=self._co_used(catalog) if self._co_used is not None else None,
        )
        if not link_reasons:
            return ranked
        pool = by_score(index, ranked.pool.matches, scores, ranked.floor, eligible, by_group=by_group)
        return replace(ranked, pool=pool, scores=scores, link_reasons=link_reasons)

    def _pool(
        self,
        index: CatalogIndex,
        query: SelectionQuery,
        matches: CategoryMatches,
        scored: Scored,
        eligible: Visible,
        *,
        by_group: bool,
    ) -> Pool:
        """Returns the pool by the way in which tools became candidates: by fixed categories, by matched categories, by score, or
        without any match. `by_group`: True if every category gets a quota."""
        scores, floor = scored.scores, scored.floor
        if query.categories is not None:
            kind: Kind = "scored" if self._scorers else "listed"
            return by_category(index, kind, matches, matches.matched, scores if self._scorers else None, eligible)
        if not (scores > floor).any() and not matches.matched:
            return self._without_match(index, query, eligible)
        if not self._scorers:
            return by_category(index, "listed", matches, sorted((*matches.matched, *matches.related)), None, eligible)
        return by_score(index, matches, scores, floor, eligible, by_group=by_group)

    def _without_match(self, index: CatalogIndex, query: SelectionQuery, eligible: Visible) -> Pool:
        """Returns the pool of a request that matches no tool: the tools of the default categories, or no tools if some were sent
        before, which then serve as well.

        If not all default tools fit, the first tools of each category go before its last ones. Category presets keep the order of
        the list instead.
        """
        if self.settings.on_no_match != "defaults" or query.exclude:
            return nothing(index)
        priority = -index.groups.place if self._scorers else None
        return by_category(index, "defaults", CategoryMatches(), index.defaults, priority, eligible)

    # --- from a plan to a selection ------------------------------------------------------------------------------------

    def _selection(self, plan: SelectionPlan, started: float) -> Selection:
        """Returns the result of a plan. `started`: the time at which the selection began, by the selector's clock."""
        index, catalog, mask = plan.index, plan.view.catalog, visible_in(plan.view)
        positions = [*plan.core.tolist(), *self._ordered(plan)]
        array = np.array(positions, dtype=np.int64)
        slim = _slimmed(plan, array)
        categories = catalog.categories
        matched = tuple(categories[i].name for i in plan.pool.matches.matched)
        with_tools = sorted({i for i in index.categories.category_of[plan.selected].tolist() if i >= 0})
        sizes = index.slim(array) if slim else index.full[array]
        grounds = Grounds.of(plan)
        # A whole selection serves many requests, and its reasons take no time.
        reasons = grounds.reasons(positions) if plan.pool.kind == "whole" else later(grounds.reasons, positions)
        tools = [
            SelectedTool(
                tool=catalog.tools[position], score=score, reasons=tool_reasons, slim=position in slim, core=core
            )
            for position, score, tool_reasons, core in zip(
                positions, rounded(plan.scores[array]), reasons, index.core[array].tolist(), strict=True
            )
        ]
        return Selection(
            tools=tuple(tools),
            dropped=dropped_candidates(plan, DROPPED_LISTED).later(),
            categories=tuple(dict.fromkeys((*matched, *(categories[i].name for i in with_tools)))),
            matched=matched,
            no_match=plan.pool.no_match,
            doubt=None if plan.ranked.doubt is None else round(plan.ranked.doubt, 3),
            starved=_categories_without_tools(plan),
            catalog_size=len(plan.view),
            tokens_all=index.tokens if mask is None else int(index.full[mask].sum()),
            tokens_selected=int(sizes.sum()),
            seconds=self._clock() - started,
        )

    def _ordered(self, plan: SelectionPlan) -> list[int]:
        """Returns the positions of pinned and selected tools in the order in which they are sent. Category presets send them
        category by category. Others use catalog order, which stays the same across requests, as prompt caches need it."""
        if plan.pool.kind in ("listed", "defaults") and not self._scorers:
            return [*sorted(plan.pinned.tolist()), *plan.pool.positions[np.sort(plan.allotment.selected)].tolist()]
        return sorted((*plan.pinned.tolist(), *plan.selected.tolist()))


def _unscored(index: CatalogIndex, pool: Pool) -> RankedPool:
    """Returns the pool with a score of 0 for every tool."""
    return RankedPool(pool=pool, scores=np.zeros(index.size, dtype=np.float32))


def _candidates(index: CatalogIndex, pool: Pool, already_sent: Visible, *, sized: bool) -> Candidates:
    """Returns the pool in the form that `allot` takes. `sized` False: no limit of tokens, so slimmed definitions need not be
    measured."""
    full = index.full[pool.positions]
    return Candidates(
        priority=pool.priority,
        group=pool.group,
        guaranteed=pool.guaranteed,
        already_sent=already_sent[pool.positions],
        full=full,
        slim=index.slim(pool.positions) if sized else full,
    )


def _must_be_sent(view: View, index: CatalogIndex, query: SelectionQuery, already_sent: Visible) -> tuple[Ints, Ints]:
    """Returns the positions of the essential tools and those of the other pinned tools, both without core tools and tools that
    were sent before."""
    if not query.essential and not query.pinned:  # as in most requests
        return _NONE, _NONE
    selectable = ~(index.core | already_sent)
    essential = _in_mask(selectable, positions_of(view, query.essential))
    selectable[essential] = False
    return essential, _in_mask(selectable, positions_of(view, query.pinned))


def _in_mask(mask: Visible, positions: Sequence[int]) -> Ints:
    """Returns those of the positions that the mask contains."""
    return np.array([position for position in positions if mask[position]], dtype=np.int64)


def _slimmed(plan: SelectionPlan, positions: Ints) -> frozenset[int]:
    """Returns the positions of the tools that are sent slimmed: all whose definition becomes shorter, if the allotment had to
    slim; otherwise none."""
    if not plan.allotment.slimmed:
        return frozenset()
    return frozenset(positions[plan.index.slim(positions) < plan.index.full[positions]].tolist())


def _categories_without_tools(plan: SelectionPlan) -> tuple[str, ...]:
    """Returns the matched categories that have candidates, of which none was selected or sent before."""
    matched, groups = plan.pool.matches.matched, plan.pool.group_categories
    if not matched:
        return ()
    counts = np.bincount(plan.pool.group[plan.allotment.outcome <= OUTCOMES.index("sent")], minlength=len(groups))
    return tuple(
        plan.view.catalog.categories[category].name
        for category, count in zip(groups, counts.tolist(), strict=True)
        if not count and category in matched
    )


def _cache_key(view: View, query: SelectionQuery, budget: Budget) -> Hashable:
    """Returns the cache key for a selection of the whole catalog, or None if the selection must not be cached."""
    special = query.text is not None or query.categories is not None or query.pinned or query.exclude
    if special or view.mask is not None:
        return None
    return budget, query.fixed_count, query.fixed_tokens, query.expandable, tuple(query.essential.items())


def _log_selection(selection: Selection, plan: SelectionPlan) -> None:
    """Logs the selection, and a warning if the provider's cap dropped candidates."""
    if (plan.allotment.outcome == OUTCOMES.index("provider_cap")).any():
        log.warning(
            "tools_cut_to_cap",
            catalog=selection.catalog_size,
            selected=len(selection.tools),
            wanted=len(plan.core) + len(plan.pinned) + len(plan.candidates),
            cap=plan.budget.provider_cap,
            categories=sorted(selection.categories),
        )
    _log_selected(selection)


def _log_selected(selection: Selection) -> None:
    """Logs the number of selected tools and their categories."""
    if not log.is_enabled_for("info"):
        return  # without this check the line takes 3 % of the time of a selection, though most programs drop it
    log.info(
        "selection_made",
        selected=len(selection.tools),
        total=selection.catalog_size,
        categories=sorted(selection.categories),
    )
