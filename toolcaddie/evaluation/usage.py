"""The use of a catalog according to recorded runs, for `eval usage`: which categories and tools were called, and which were
only sent.

It also proposes default categories, which are selected when nothing matches a request, and relations between categories:
selecting a category also selects its related ones. Each proposal states the number of runs that support it, which is at least
`support`.
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
"""Smallest number of runs that must support a proposal."""

COVERED = 0.8
"""Share of the runs that proposed defaults must serve: the defaults contain all categories that the run used."""

LIFT = 1.5
"""Smallest lift of a proposed relation: the two categories were used together this many times as often as by chance."""

CONFIDENCE = 0.2
"""Smallest share of the runs with a category in which a proposed related category was used too."""

_Z = 1.96
"""Quantile of the normal distribution for an interval of 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryUse:
    """The use of one category. Each number counts runs."""

    name: str
    matched: int = 0
    """Runs whose request matched the category."""
    related: int = 0
    """Runs that selected it with a matched category, or because the words of its tools matched."""
    default: int = 0
    """Runs that selected it because nothing matched."""
    sent: int = 0
    """Runs that sent one of its tools to the model."""
    called: int = 0
    """Runs that called one of its tools."""
    missed: int = 0
    """Runs that called one of its tools that had not been selected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """The use of one tool."""

    name: str
    category: str | None = None
    selected: int = 0
    """Runs that selected it."""
    sent: int = 0
    """Requests to the model that contained it."""
    calls: int = 0
    """Calls of the tool."""
    failed: int = 0
    """Calls that ended in an error or were denied."""
    missed: int = 0
    """Runs that called it although it had not been selected."""
    tokens: int = 0
    """Tokens of its definition in all requests to the model, counted only for runs that did not call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultProposal:
    """A proposal to add a category to the defaults, to keep it there, or to drop it."""

    category: str
    advice: Literal["add", "keep", "drop"]
    runs: int
    """Number of runs that used the category. Only runs in which nothing matched count; if these are too few, all runs count."""
    share: float
    """`runs` as a share of the counted runs that called a tool with a category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedProposal:
    """A proposal to relate two categories: many runs that used `category` used `related` too."""

    category: str
    related: str
    runs: int
    """Number of runs that used both categories."""
    confidence: float
    """Share of the runs with `category` that also used `related`."""
    lift: float
    """`confidence` divided by the share of all runs that used `related`."""
    low: float
    """Lower end of the 95 % interval of `lift`."""
    known: bool
    """True if the catalog already has this relation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of tool definitions, over all requests to the model."""

    all: int = 0
    """Tokens if every request had contained every definition."""
    sent: int = 0
    """Tokens of the definitions that were sent."""
    unused: int = 0
    """Tokens of sent definitions whose tools the run did not call."""
    exact: bool = True
    """False if the catalog lacks some of the unused tools; for these, the mean size of all sent definitions is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationUse:
    """How often models had to add tools to their conversations. More than once in a conversation suggests wrong selections."""

    conversations: int = 0
    """Number of conversations. A run that belongs to none counts as one of its own."""
    mean: float = 0.0
    """Expansions (searches that added tools) per conversation."""
    most: int = 0
    """The largest number of expansions in a conversation."""
    several: float = 0.0
    """Share of the conversations with more than one expansion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The use of a catalog over all runs that were read."""

    runs: int
    with_calls: int
    """Number of runs that called a tool."""
    since: float | None
    """Start of the oldest run, in seconds since the epoch; None: there are no runs."""
    until: float | None
    """Start of the newest run, in seconds since the epoch; None: there are no runs."""
    no_match: int
    """Number of runs in which nothing matched the request."""
    expansions: ConversationUse
    categories: tuple[CategoryUse, ...]
    """Categories, the most called first."""
    tools: tuple[ToolUse, ...]
    """The catalog's tools and those that were called, the most called first."""
    never_called: tuple[str, ...]
    """Tools that were sent in some run and called in none, the most expensive first."""
    never_sent: tuple[str, ...]
    """Tools of the catalog that no run selected, sent or called, in the order of the catalog."""
    tokens: Tokens
    defaults: tuple[DefaultProposal, ...]
    related: tuple[RelatedProposal, ...]


def usage_of(runs: Sequence[RecordedRun], catalog: Catalog | None = None, *, support: int = SUPPORT) -> Usage:
    """Returns the use of a catalog. Without `catalog`, only tools that the trail names are counted, and no default is known."""
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
        expansions=_conversation_use(runs),
        categories=categories,
        tools=tools,
        never_called=tuple(use.name for use in wasted if use.name not in called_names),
        never_sent=tuple(tool.name for tool in catalog or () if tool.name not in used_names),
        tokens=_tokens(runs, tools, catalog),
        defaults=_defaults(runs, category_of, catalog, support),
        related=_related(runs, category_of, catalog, support),
    )


def selects_nothing(run: RecordedRun) -> bool:
    """Returns True if the run's preset sends only meta tools, with which the model searches and calls all other tools. The model
    then finds its tools itself, so a call of a tool that was not selected is no miss."""
    preset = PRESETS.get(run.preset)
    return preset is not None and preset.exposure == "compact"


def _conversation_use(runs: Iterable[RecordedRun]) -> ConversationUse:
    """Returns the expansions per conversation. Runs of older versions, whose rows name no conversation, are joined by their
    messages."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts[run.conversation or run.group or run.run_id] += run.expansions
    if not counts:
        return ConversationUse()
    return ConversationUse(
        conversations=len(counts),
        mean=counts.total() / len(counts),
        most=max(counts.values()),
        several=sum(count > 1 for count in counts.values()) / len(counts),
    )


CategoryOf = Mapping[str, str | None]


def _categories(runs: Iterable[RecordedRun], catalog: Catalog | None) -> CategoryOf:
    """Returns the category of each tool from the catalog; if the catalog lacks a tool, from the newest run that selected it."""
    categories: dict[str, str | None] = {}
    for run in runs:
        categories.update(run.category_of)
    for tool in catalog or ():
        categories[tool.name] = tool.category
    return categories


def _tools(runs: Sequence[RecordedRun], catalog: Catalog | None, category_of: CategoryOf) -> tuple[ToolUse, ...]:
    """Returns the use of each tool of the catalog and of the runs, the most called first."""
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
    mean_size = _mean_size(runs)
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
            tokens=round(idle[name] * sizes.get(name, mean_size)),
        )
        for name in names
    ]
    return tuple(sorted(uses, key=lambda use: (-use.calls, -use.missed, -use.sent, use.name)))


def _mean_size(runs: Iterable[RecordedRun]) -> float:
    deliveries = [delivery for run in runs for delivery in run.deliveries]
    count = sum(len(delivery.tools) for delivery in deliveries)
    return sum(delivery.tokens for delivery in deliveries) / count if count else 0.0


def _category_uses(runs: Iterable[RecordedRun], category_of: CategoryOf) -> tuple[CategoryUse, ...]:
    """Returns the use of each category that occurs in the runs, the most called first."""
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
    """Returns the tokens of definitions in all requests to the model, and those of tools that were not called."""
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
    """Returns the set of categories that each run called tools of. Runs without such a call are omitted."""
    groups = (frozenset(c for name in run.used if (c := category_of.get(name)) is not None) for run in runs)
    return [group for group in groups if group]


def _defaults(
    runs: Sequence[RecordedRun], category_of: CategoryOf, catalog: Catalog | None, support: int
) -> tuple[DefaultProposal, ...]:
    """Returns proposals for the defaults: a small set of categories, chosen greedily, that serves the share `COVERED` of the
    runs.

    A run is served if the set contains all categories that it used. Only runs in which nothing matched count, because defaults
    are for them; if these are too few, all runs count.
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
    """Returns pairs of categories that were used together, the most certain first.

    At least `support` runs used both; these are at least the share `CONFIDENCE` of the runs with the first category; and the
    lift is at least `LIFT`, with an interval above 1.
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
