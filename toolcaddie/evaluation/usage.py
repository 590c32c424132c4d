"""Use of a catalog by the trail: the categories and tools that serve, those that are only sent, and defaults and relations
that the catalog might be given.

Proposals are counted, not guessed: each names the runs it rests on, and none rests on fewer than `support`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.schema import definition_tokens
from toolcaddie.evaluation.recorded import RecordedRun

SUPPORT = 5
"""Runs that a proposal needs at least."""

COVERED = 0.8
"""The share of runs whose categories the defaults should hold."""

LIFT = 1.5
"""Least factor above chance at which two categories count as used together."""

CONFIDENCE = 0.2
"""The share of a category's runs in which a related one is used too."""

_Z = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryUse:
    """In how many runs a category was matched, came along, was sent, was called, was called though not selected."""

    name: str
    matched: int = 0
    related: int = 0
    """Came along with a matched one, or because of its tools' own words."""
    default: int = 0
    """Came in because nothing matched."""
    sent: int = 0
    called: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """Use of a tool."""

    name: str
    category: str | None = None
    selected: int = 0
    """Runs."""
    sent: int = 0
    """Model calls whose array held it."""
    calls: int = 0
    failed: int = 0
    """Calls that ended in an error or were denied."""
    missed: int = 0
    """Runs that called it though it had not been selected."""
    tokens: int = 0
    """Of its definition, over all model calls of runs that did not call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultProposal:
    """A category that should be among the defaults, or should not."""

    category: str
    advice: Literal["add", "keep", "drop"]
    runs: int
    """In which it was called: those where nothing matched, if there are enough, else all."""
    share: float
    """Of the runs that called anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedProposal:
    """A relation: runs that use `category` use `related` too."""

    category: str
    related: str
    runs: int
    confidence: float
    """The share of the category's runs in which the other is used too."""
    lift: float
    """Factor over its share of all runs."""
    low: float
    """The lower end of the lift's 95 % interval."""
    known: bool
    """The catalog relates them already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Of all model calls together."""

    all: int = 0
    """Tokens that sending every definition would have taken."""
    sent: int = 0
    unused: int = 0
    """Of what was sent: definitions of tools that the run did not call."""
    exact: bool = True
    """False: the catalog lacks some tools, whose size is the mean of what was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Totals of a log of runs."""

    runs: int
    with_calls: int
    since: float | None
    until: float | None
    no_match: int
    categories: tuple[CategoryUse, ...]
    """The most called first."""
    tools: tuple[ToolUse, ...]
    """The most called first; of the catalog's tools and those that were called."""
    never_called: tuple[str, ...]
    """Sent in some run and called in none, the most tokens first."""
    never_sent: tuple[str, ...]
    """Tools of the catalog that no run was sent or called, in catalog order."""
    tokens: Tokens
    defaults: tuple[DefaultProposal, ...]
    related: tuple[RelatedProposal, ...]


def usage_of(runs: Sequence[RecordedRun], catalog: Catalog | None = None, *, support: int = SUPPORT) -> Usage:
    """`catalog` says which tools there are, what they take and what is default and related now; without it only what the trail
    names is known."""
    category_of = _categories(runs, catalog)
    tools = _tools(runs, catalog, category_of)
    categories = _category_uses(runs, category_of)
    called_names = {use.name for use in tools if use.calls}
    met = {use.name for use in tools if use.selected or use.sent or use.calls}
    wasted = sorted((use for use in tools if use.sent and not use.calls), key=lambda use: (-use.tokens, use.name))
    return Usage(
        runs=len(runs),
        with_calls=sum(bool(run.used) for run in runs),
        since=min((run.started for run in runs), default=None),
        until=max((run.started for run in runs), default=None),
        no_match=sum(run.no_match for run in runs),
        categories=categories,
        tools=tools,
        never_called=tuple(use.name for use in wasted if use.name not in called_names),
        never_sent=tuple(tool.name for tool in catalog or () if tool.name not in met),
        tokens=_tokens(runs, tools, catalog),
        defaults=_defaults(runs, category_of, catalog, support),
        related=_related(runs, category_of, catalog, support),
    )


def whole(run: RecordedRun) -> bool:
    """True if a run's preset selects nothing, so that its calls say nothing of the selection."""
    preset = PRESETS.get(run.preset)
    return preset is not None and preset.exposure == "compact"


CategoryOf = Mapping[str, str | None]


def _categories(runs: Iterable[RecordedRun], catalog: Catalog | None) -> CategoryOf:
    """The catalog's word counts; of tools it does not have, that of the newest run."""
    categories: dict[str, str | None] = {}
    for run in runs:
        categories.update(run.category_of)
    for tool in catalog or ():
        categories[tool.name] = tool.category
    return categories


def _tools(runs: Sequence[RecordedRun], catalog: Catalog | None, category_of: CategoryOf) -> tuple[ToolUse, ...]:
    selected: Counter[str] = Counter()
    counts_sent: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for run in runs:
        used = set(run.used)
        selected.update(run.selected)
        for each in run.sent:
            counts_sent.update(each.tools)
            idle.update(name for name in each.tools if name not in used)
        for call in run.called:
            if call.error != "unknown_tool":
                calls[call.name] += 1
                failed[call.name] += bool(call.error)
        if not whole(run):
            missed.update(run.missed)
    sizes = {tool.name: definition_tokens((tool,)) for tool in catalog or ()}
    usual = _usual_size(runs)
    names = dict.fromkeys([*sizes, *selected, *counts_sent, *calls])
    uses = [
        ToolUse(
            name=name,
            category=category_of.get(name),
            selected=selected[name],
            sent=counts_sent[name],
            calls=calls[name],
            failed=failed[name],
            missed=missed[name],
            tokens=round(idle[name] * sizes.get(name, usual)),
        )
        for name in names
    ]
    return tuple(sorted(uses, key=lambda use: (-use.calls, -use.missed, -use.sent, use.name)))


def _usual_size(runs: Iterable[RecordedRun]) -> float:
    deliveries = [each for run in runs for each in run.sent]
    count = sum(len(each.tools) for each in deliveries)
    return sum(each.tokens for each in deliveries) / count if count else 0.0


def _category_uses(runs: Iterable[RecordedRun], category_of: CategoryOf) -> tuple[CategoryUse, ...]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        matched = set(run.matched)
        for name in run.categories:
            how = "matched" if name in matched else "default" if run.no_match else "related"
            counts[name][how] += 1
        for how, names in (
            ("sent", run.delivered or run.selected),
            ("called", run.used),
            ("missed", () if whole(run) else run.missed),
        ):
            for category in {category_of.get(name) for name in names} - {None}:
                counts[str(category)][how] += 1
    uses = [CategoryUse(name=name, **counted) for name, counted in counts.items()]
    return tuple(sorted(uses, key=lambda use: (-use.called, -use.missed, -use.matched, use.name)))


def _tokens(runs: Iterable[RecordedRun], tools: Iterable[ToolUse], catalog: Catalog | None) -> Tokens:
    names = {tool.name for tool in catalog or ()}
    idle = [use for use in tools if use.tokens]
    return Tokens(
        all=sum(run.tokens_all * len(run.sent) for run in runs),
        sent=sum(each.tokens for run in runs for each in run.sent),
        unused=sum(use.tokens for use in idle),
        exact=all(use.name in names for use in idle),
    )


# --- proposals ------------------------------------------------------------------------------------------------------------


def _used_categories(runs: Iterable[RecordedRun], category_of: CategoryOf) -> list[frozenset[str]]:
    """Of each run that called a tool with a category: the categories."""
    groups = (frozenset(c for name in run.used if (c := category_of.get(name)) is not None) for run in runs)
    return [group for group in groups if group]


def _defaults(
    runs: Sequence[RecordedRun], category_of: CategoryOf, catalog: Catalog | None, support: int
) -> tuple[DefaultProposal, ...]:
    """The fewest categories, taken one by one, that hold what `COVERED` of the runs used. Runs in which nothing matched are the
    ones that defaults serve; where there are too few of them, all runs stand in."""
    groups = _used_categories([run for run in runs if run.no_match], category_of)
    if len(groups) < support:
        groups = _used_categories(runs, category_of)
    if len(groups) < support:
        return ()
    now = {category.name for category in catalog.categories if category.default} if catalog else set()
    core = {category.name for category in catalog.categories if category.core} if catalog else set()
    counts = Counter(name for each in groups for name in each if name not in core)
    chosen: list[str] = []
    others = [each - core for each in groups]
    while sum(1 for each in others if each) > (1 - COVERED) * len(groups):
        name, gained = min(
            Counter(name for each in others for name in each).items(),
            key=lambda item: (-item[1], item[0] not in now, item[0]),
        )
        if gained < support:
            break
        chosen.append(name)
        others = [each - {name} for each in others]
    proposals = [
        DefaultProposal(
            category=name, advice="keep" if name in now else "add", runs=counts[name], share=counts[name] / len(groups)
        )
        for name in chosen
    ]
    # A default is dropped only where there were runs enough to see it used, had it been of use.
    idle = [name for name in sorted(now - set(chosen)) if counts[name] == 0 and len(groups) * (1 - COVERED) >= support]
    return (*proposals, *(DefaultProposal(category=name, advice="drop", runs=0, share=0.0) for name in idle))


def _related(
    runs: Sequence[RecordedRun], category_of: CategoryOf, catalog: Catalog | None, support: int
) -> tuple[RelatedProposal, ...]:
    """Pairs used together in at least `support` runs, in `CONFIDENCE` of the first one's, `LIFT` times as often as by chance, the
    lower end of whose interval is above 1. The best proven first."""
    groups = _used_categories(runs, category_of)
    alone = Counter(name for each in groups for name in each)
    pairs = Counter(pair for each in groups for pair in permutations(sorted(each), 2))
    related = {category.name: set(category.related) for category in catalog.categories} if catalog else {}
    proposals = []
    for (one, other), together in pairs.items():
        lift, low = _lift(together, alone[one], alone[other], len(groups))
        confidence = together / alone[one]
        if together >= support and confidence >= CONFIDENCE and lift >= LIFT and low > 1:
            proposals.append(
                RelatedProposal(
                    category=one,
                    related=other,
                    runs=together,
                    confidence=confidence,
                    lift=lift,
                    low=low,
                    known=other in related.get(one, ()),
                )
            )
    return tuple(sorted(proposals, key=lambda each: (each.known, -each.low, each.category, each.related)))


def _lift(together: int, one: int, other: int, runs: int) -> tuple[float, float]:
    """Factor by which the second is used more often where the first is than over all runs, and the lower end of its interval,
    by the delta method on the logarithm of the ratio of the two shares."""
    lift = together * runs / (one * other)
    spread = math.sqrt(max(0.0, 1 / together - 1 / one + 1 / other - 1 / runs))
    return lift, lift * math.exp(-_Z * spread)
