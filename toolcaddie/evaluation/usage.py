"""Use of a catalog according to the trail: the categories and tools that were called, those that were only sent, and proposals
for the catalog's defaults and relations.

Each proposal states the number of runs that support it, which is at least `support`.
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
"""Least number of runs for a proposal."""

COVERED = 0.8
"""Share of the runs whose categories the defaults should include."""

LIFT = 1.5
"""Least factor above chance at which two categories count as used together."""

CONFIDENCE = 0.2
"""Least share of a category's runs in which a related one is used too."""

_Z = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryUse:
    """Numbers of runs in which a category was matched, related, a default, sent, called, or called without being selected."""

    name: str
    matched: int = 0
    related: int = 0
    """Runs in which it was selected with a matched category, or because of its tools' own words."""
    default: int = 0
    """Runs in which it was selected because nothing matched."""
    sent: int = 0
    called: int = 0
    missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """Numbers of a tool's use."""

    name: str
    category: str | None = None
    selected: int = 0
    """Runs that selected it."""
    sent: int = 0
    """Model calls that were sent it."""
    calls: int = 0
    failed: int = 0
    """Calls that ended in an error or were denied."""
    missed: int = 0
    """Runs that called it although it had not been selected."""
    tokens: int = 0
    """Tokens of its definition, over all model calls of runs that did not call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultProposal:
    """A category to add to the defaults, to keep there, or to drop."""

    category: str
    advice: Literal["add", "keep", "drop"]
    runs: int
    """Runs that called it, of those in which nothing matched if there are enough, else of all."""
    share: float
    """Share of the runs that called a tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedProposal:
    """A relation: runs that use `category` use `related` too."""

    category: str
    related: str
    runs: int
    confidence: float
    """The share of the category's runs in which the other is used too."""
    lift: float
    """That share divided by the related category's share of all runs."""
    low: float
    """The lower end of the lift's 95 % interval."""
    known: bool
    """True if the catalog already has the relation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of all model calls together."""

    all: int = 0
    """Tokens that sending every definition would have taken."""
    sent: int = 0
    unused: int = 0
    """Tokens of sent definitions whose tools the run did not call."""
    exact: bool = True
    """False if the catalog lacks some tools, whose size is estimated by the mean of those sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Totals of a log of runs."""

    runs: int
    with_calls: int
    since: float | None
    until: float | None
    no_match: int
    categories: tuple[CategoryUse, ...]
    """Categories, the most called first."""
    tools: tuple[ToolUse, ...]
    """The catalog's tools and those that were called, the most called first."""
    never_called: tuple[str, ...]
    """Sent in some run and called in none, the most tokens first."""
    never_sent: tuple[str, ...]
    """Tools of the catalog that no run was sent or called, in catalog order."""
    tokens: Tokens
    defaults: tuple[DefaultProposal, ...]
    related: tuple[RelatedProposal, ...]


def usage_of(runs: Sequence[RecordedRun], catalog: Catalog | None = None, *, support: int = SUPPORT) -> Usage:
    """Returns the use of a catalog. Without `catalog` only the tools in the trail are known, and no present defaults."""
    category_of = _categories(runs, catalog)
    tools = _tools(runs, catalog, category_of)
    categories = _category_uses(runs, category_of)
    called_names = {use.name for use in tools if use.calls}
    used_names = {use.name for use in tools if use.selected or use.sent or use.calls}
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
        never_sent=tuple(tool.name for tool in catalog or () if tool.name not in used_names),
        tokens=_tokens(runs, tools, catalog),
        defaults=_defaults(runs, category_of, catalog, support),
        related=_related(runs, category_of, catalog, support),
    )


def selects_nothing(run: RecordedRun) -> bool:
    """True if a run's preset selects nothing, so that its calls say nothing of the selection."""
    preset = PRESETS.get(run.preset)
    return preset is not None and preset.exposure == "compact"


CategoryOf = Mapping[str, str | None]


def _categories(runs: Iterable[RecordedRun], catalog: Catalog | None) -> CategoryOf:
    """Returns each tool's category: the catalog's, or that of the newest run for tools it does not have."""
    categories: dict[str, str | None] = {}
    for run in runs:
        categories.update(run.category_of)
    for tool in catalog or ():
        categories[tool.name] = tool.category
    return categories


def _tools(runs: Sequence[RecordedRun], catalog: Catalog | None, category_of: CategoryOf) -> tuple[ToolUse, ...]:
    selected: Counter[str] = Counter()
    deliveries: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for run in runs:
        used_names = set(run.used)
        selected.update(run.selected)
        for delivery in run.deliveries:
            deliveries.update(delivery.tools)
            idle.update(name for name in delivery.tools if name not in used_names)
        for call in run.called:
            if call.error != "unknown_tool":
                calls[call.name] += 1
                failed[call.name] += bool(call.error)
        if not selects_nothing(run):
            missed.update(run.missed)
    sizes = {tool.name: definition_tokens((tool,)) for tool in catalog or ()}
    usual = _usual_size(runs)
    names = dict.fromkeys([*sizes, *selected, *deliveries, *calls])
    uses = [
        ToolUse(
            name=name,
            category=category_of.get(name),
            selected=selected[name],
            sent=deliveries[name],
            calls=calls[name],
            failed=failed[name],
            missed=missed[name],
            tokens=round(idle[name] * sizes.get(name, usual)),
        )
        for name in names
    ]
    return tuple(sorted(uses, key=lambda use: (-use.calls, -use.missed, -use.sent, use.name)))


def _usual_size(runs: Iterable[RecordedRun]) -> float:
    deliveries = [delivery for run in runs for delivery in run.deliveries]
    count = sum(len(delivery.tools) for delivery in deliveries)
    return sum(delivery.tokens for delivery in deliveries) / count if count else 0.0


def _category_uses(runs: Iterable[RecordedRun], category_of: CategoryOf) -> tuple[CategoryUse, ...]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        matched = set(run.matched)
        for name in run.categories:
            column = "matched" if name in matched else "default" if run.no_match else "related"
            counts[name][column] += 1
        for column, names in (
            ("sent", run.delivered or run.selected),
            ("called", run.used),
            ("missed", () if selects_nothing(run) else run.missed),
        ):
            for category in {category_of.get(name) for name in names} - {None}:
                counts[str(category)][column] += 1
    uses = [CategoryUse(name=name, **columns) for name, columns in counts.items()]
    return tuple(sorted(uses, key=lambda use: (-use.called, -use.missed, -use.matched, use.name)))


def _tokens(runs: Iterable[RecordedRun], tools: Iterable[ToolUse], catalog: Catalog | None) -> Tokens:
    names = {tool.name for tool in catalog or ()}
    idle = [use for use in tools if use.tokens]
    return Tokens(
        all=sum(run.tokens_all * len(run.deliveries) for run in runs),
        sent=sum(delivery.tokens for run in runs for delivery in run.deliveries),
        unused=sum(use.tokens for use in idle),
        exact=all(use.name in names for use in idle),
    )


# --- proposals ------------------------------------------------------------------------------------------------------------


def _used_categories(runs: Iterable[RecordedRun], category_of: CategoryOf) -> list[frozenset[str]]:
    """Returns the categories of each run that called a tool with a category."""
    groups = (frozenset(c for name in run.used if (c := category_of.get(name)) is not None) for run in runs)
    return [group for group in groups if group]


def _defaults(
    runs: Sequence[RecordedRun], category_of: CategoryOf, catalog: Catalog | None, support: int
) -> tuple[DefaultProposal, ...]:
    """Returns the fewest categories, chosen greedily, that include those of `COVERED` of the runs.

    Defaults serve the runs in which nothing matched; if these are too few, all runs count.
    """
    groups = _used_categories([run for run in runs if run.no_match], category_of)
    if len(groups) < support:
        groups = _used_categories(runs, category_of)
    if len(groups) < support:
        return ()
    now = {category.name for category in catalog.categories if category.default} if catalog else set()
    core = {category.name for category in catalog.categories if category.core} if catalog else set()
    counts = Counter(name for group in groups for name in group if name not in core)
    defaults: list[str] = []
    others = [group - core for group in groups]
    while sum(1 for group in others if group) > (1 - COVERED) * len(groups):
        name, gained = min(
            Counter(name for group in others for name in group).items(),
            key=lambda item: (-item[1], item[0] not in now, item[0]),
        )
        if gained < support:
            break
        defaults.append(name)
        others = [group - {name} for group in others]
    proposals = [
        DefaultProposal(
            category=name, advice="keep" if name in now else "add", runs=counts[name], share=counts[name] / len(groups)
        )
        for name in defaults
    ]
    # A default is dropped only if there were enough runs to observe its use.
    idle = [
        name for name in sorted(now - set(defaults)) if counts[name] == 0 and len(groups) * (1 - COVERED) >= support
    ]
    return (*proposals, *(DefaultProposal(category=name, advice="drop", runs=0, share=0.0) for name in idle))


def _related(
    runs: Sequence[RecordedRun], category_of: CategoryOf, catalog: Catalog | None, support: int
) -> tuple[RelatedProposal, ...]:
    """Returns pairs of categories that are used together, the most certain first.

    A pair needs `support` runs, `CONFIDENCE` of the first category's runs, and a lift of `LIFT` whose interval is above 1.
    """
    groups = _used_categories(runs, category_of)
    alone = Counter(name for group in groups for name in group)
    pairs = Counter(pair for group in groups for pair in permutations(sorted(group), 2))
    related = {category.name: set(category.related) for category in catalog.categories} if catalog else {}
    proposals = []
    for (first, second), shared_runs in pairs.items():
        lift, low = _lift(shared_runs, alone[first], alone[second], len(groups))
        confidence = shared_runs / alone[first]
        if shared_runs >= support and confidence >= CONFIDENCE and lift >= LIFT and low > 1:
            proposals.append(
                RelatedProposal(
                    category=first,
                    related=second,
                    runs=shared_runs,
                    confidence=confidence,
                    lift=lift,
                    low=low,
                    known=second in related.get(first, ()),
                )
            )
    return tuple(sorted(proposals, key=lambda group: (group.known, -group.low, group.category, group.related)))


def _lift(shared_runs: int, first_runs: int, second_runs: int, runs: int) -> tuple[float, float]:
    """Returns the lift and the lower end of its interval, by the delta method on the logarithm of the ratio of shares.

    The lift is the second category's share of the first one's runs, divided by its share of all runs.
    """
    lift = shared_runs * runs / (first_runs * second_runs)
    spread = math.sqrt(max(0.0, 1 / shared_runs - 1 / first_runs + 1 / second_runs - 1 / runs))
    return lift, lift * math.exp(-_Z * spread)
