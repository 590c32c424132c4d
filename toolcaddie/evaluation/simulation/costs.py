"""Costs of conversations under each strategy of sending tools and each provider's prices: `toolcaddie eval costs`.

A script is played through a real runtime against a scripted model, each request is billed as its provider bills it, and the
strategies are compared script by script. The caller passes in the function that makes a runtime (`MakeAnswers`).
"""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest, RunResult
from toolcaddie.evaluation.simulation.actors import Clock, RenderedRequest, ScriptedModel, ScriptedTools
from toolcaddie.evaluation.simulation.billing import Bill, PriceRule, PromptCache, as_cached, prefix_kept
from toolcaddie.evaluation.simulation.scripts import Script

PLANNED = "planned"

STRATEGIES: Mapping[str, str] = {
    "all": "every tool of the catalog in every request",
    "fresh": "a new selection for every turn",
    "few": "a new selection of the best eight for every turn",
    "compact": "five meta tools instead of the catalog",
    "native": "later tools behind the cached prefix, by the provider's own means",
    PLANNED: "the planner's choice, the conversation remembered",
}

BY_RULE = frozenset({"native", PLANNED})
"""Strategies that depend on the provider; the others send the same to all and are run once."""

DEFAULT_RULES = (
    "anthropic:claude-sonnet-5-5",
    "anthropic:claude-haiku-4-5",
    "openai-responses:gpt-6-sol",
    "openai:gpt-5.4",
    "gemini:gemini-3.8-flash",
    "deepseek:deepseek-chat",
    "mistral:mistral-large-4",
)
"""One model for each kind of rule: cheap and dear reading, with and without a fee for writing, with and without deferral, short
and long minimum, lifetimes of minutes and of an hour, and no cache at all."""

GOAL_MEDIAN, GOAL_P95, GOAL_KEPT = 1.05, 1.25, 0.95


class Answers(Protocol):
    """A runtime, as far as conversations need it."""

    async def run(self, request: RunRequest) -> RunResult: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Parts of a runtime whose model follows scripts."""

    strategy: str
    model: ScriptedModel
    tools: ScriptedTools
    clock: Clock
    rule: PriceRule | None
    """None if the strategy does not depend on the provider."""


MakeAnswers = Callable[[Stage], Answers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """Tokens of consecutive requests within the cache's lifetime: `of` in the earlier one, `common` also first in the later."""

    common: int = 0
    of: int = 0

    @property
    def share(self) -> float | None:
        return self.common / self.of if self.of else None

    def __add__(self, other: Prefix) -> Prefix:
        return Prefix(common=self.common + other.common, of=self.of + other.of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One script under one strategy and one price rule."""

    script: int
    bill: Bill
    misses: int
    """Needed tools that were not called."""
    needs: int
    requests: int
    extra: int
    """Requests beyond those of a model that sees every tool."""
    steady: Prefix
    """Prefix of requests before which no more tools were asked for in their turn."""
    revealing: Prefix
    """Prefix of requests after more tools were asked for in their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Requests of a script, before they are billed."""

    script: Script
    requests: Sequence[RenderedRequest]
    misses: int
    marked: bool
    """True if the prefix of every request counts as marked."""


async def play(
    strategy: str, rule: PriceRule | None, catalog: Catalog, scripts: Sequence[Script], make: MakeAnswers
) -> AsyncIterator[Played]:
    """Plays these conversations one after another. `rule`: price rule, for strategies that depend on it."""
    clock = Clock()
    model, tools = ScriptedModel(catalog, clock, rule), ScriptedTools(catalog, clock)
    answers = make(Stage(strategy=strategy, model=model, tools=tools, clock=clock, rule=rule))
    for script in scripts:
        model.begin()
        await _talk(script, answers, model, tools, clock, remembered=strategy in BY_RULE)
        # Callers without a planner still mark their prompts; the planner decides itself where that pays.
        always_marked = strategy not in BY_RULE
        yield Played(script=script, requests=tuple(model.requests), misses=model.misses, marked=always_marked)
    await answers.close()


async def _talk(
    script: Script, answers: Answers, model: ScriptedModel, tools: ScriptedTools, clock: Clock, *, remembered: bool
) -> None:
    messages: tuple[Message, ...] = (Message(role="system", content=script.system),)
    for number, turn in enumerate(script.turns):
        clock.advance(turn.gap)
        model.begin_turn(turn, number)
        tools.results = {need.tool: need.result for need in turn.needs}
        messages = (*messages, Message(role="user", content=turn.text))
        conversation = f"script-{script.number}" if remembered else None
        result = await answers.run(RunRequest(messages=messages, conversation=conversation))
        messages = (*messages, *result.messages)
        model.end_turn()


def charge(played: Played, rule: PriceRule) -> Conversation:
    """Bills a conversation under a rule."""
    cache, bill = PromptCache(rule), Bill()
    for request in played.requests:
        bill += cache.bill(request.prompt, request.at, request.output, marked=request.marked or played.marked)
    steady = revealing = Prefix()
    for before, after in pairwise(played.requests):
        if rule.cache.kind == "none" or after.at - before.at > rule.cache.lifetime:
            continue
        shared, previous_tokens = prefix_kept(as_cached(before.prompt, rule), as_cached(after.prompt, rule))
        if after.after_reveal:
            revealing += Prefix(common=shared, of=previous_tokens)
        else:
            steady += Prefix(common=shared, of=previous_tokens)
    fewest = sum(len(turn.steps) + 1 for turn in played.script.turns)
    return Conversation(
        script=played.script.number,
        bill=bill,
        misses=played.misses,
        needs=sum(len(turn.needs) for turn in played.script.turns),
        requests=len(played.requests),
        extra=len(played.requests) - fewest,
        steady=steady,
        revealing=revealing,
    )


# --- the report -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyCosts:
    """One strategy over all scripts, under one rule and on one catalog."""

    strategy: str
    scripts: int
    median_tokens: float
    """Tokens of prompts and answers of a conversation."""
    median_dollars: float
    dollars: float
    """Dollars of all scripts together."""
    read: float
    """Share of the prompts' tokens that were read from the cache."""
    misses: int
    needs: int
    extra: int
    prefix_kept: float | None
    prefix_kept_after_reveal: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The planner compared with the cheapest of the others, script by script."""

    ratios: tuple[float, ...]
    """Planner's dollars divided by those of the cheapest other, one ratio per conversation."""
    median: float
    p95: float
    cheapest: Mapping[str, int]
    """Number of conversations in which each of the others was the cheapest."""
    beaten: Mapping[str, float]
    """Planner's dollars divided by those of each other strategy, over all scripts."""

    @property
    def met(self) -> bool:
        """True if the goals of ratios and sums are met. Equal sums count: the planner may have made the same choices."""
        return self.median <= GOAL_MEDIAN and self.p95 <= GOAL_P95 and all(ratio <= 1 for ratio in self.beaten.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Costs of all strategies under one rule on one catalog."""

    model: str
    tools: int
    strategies: tuple[StrategyCosts, ...]
    comparison: Comparison | None
    """None if the planner was not played, or if every other strategy missed more tools."""


def report(model: str, tools: int, conversations_by_strategy: Mapping[str, Sequence[Conversation]]) -> CostReport:
    """Returns the report of one rule and catalog. All strategies have the same scripts in the same order."""
    return CostReport(
        model=model,
        tools=tools,
        strategies=tuple(_costs(name, conversations) for name, conversations in conversations_by_strategy.items()),
        comparison=compared(conversations_by_strategy),
    )


def _costs(strategy: str, conversations: Sequence[Conversation]) -> StrategyCosts:
    bill = sum((conversation.bill for conversation in conversations), Bill())
    return StrategyCosts(
        strategy=strategy,
        scripts=len(conversations),
        median_tokens=statistics.median(
            conversation.bill.prompt + conversation.bill.output for conversation in conversations
        ),
        median_dollars=statistics.median(conversation.bill.dollars for conversation in conversations),
        dollars=bill.dollars,
        read=bill.read / bill.prompt if bill.prompt else 0.0,
        misses=sum(conversation.misses for conversation in conversations),
        needs=sum(conversation.needs for conversation in conversations),
        extra=sum(conversation.extra for conversation in conversations),
        prefix_kept=sum((conversation.steady for conversation in conversations), Prefix()).share,
        prefix_kept_after_reveal=sum((conversation.revealing for conversation in conversations), Prefix()).share,
    )


def compared(conversations_by_strategy: Mapping[str, Sequence[Conversation]]) -> Comparison | None:
    """Compares the planner with the others; None if there is nothing to compare.

    Missing needed tools makes a strategy cheap. So for each script only those count that missed no more than the planner; sums
    are over all scripts, and the report shows the misses next to them.
    """
    others = {name: conversations for name, conversations in conversations_by_strategy.items() if name != PLANNED}
    if PLANNED not in conversations_by_strategy:
        return None
    ratios: list[float] = []
    cheapest = dict.fromkeys(others, 0)
    for at, ours in enumerate(conversations_by_strategy[PLANNED]):
        fair = {
            name: conversations[at].bill.dollars
            for name, conversations in others.items()
            if conversations[at].misses <= ours.misses
        }
        if not fair:
            continue
        best = min(fair, key=fair.__getitem__)
        cheapest[best] += 1
        ratios.append(ours.bill.dollars / fair[best])
    if not ratios:
        return None
    total = _dollars(conversations_by_strategy[PLANNED])
    return Comparison(
        ratios=tuple(ratios),
        median=statistics.median(ratios),
        p95=_p95(ratios),
        cheapest=cheapest,
        beaten={name: total / _dollars(conversations) for name, conversations in others.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """Comparison of the planner over all rules and catalogs."""

    median: float
    p95: float
    """95th percentile of the ratios of every conversation under every rule."""
    beaten: Mapping[str, float]
    """Planner's dollars divided by those of each other strategy, where both were played."""
    least_prefix_kept: float | None
    """Smallest share over the rules and catalogs; None if nothing is cached anywhere."""
    met: int
    """Pairs of rule and catalog that meet the goals of ratios and sums."""
    of: int


def overall(reports: Sequence[CostReport]) -> Overall | None:
    """Returns the totals; None if no report compares the planner."""
    comparisons = [(report, report.comparison) for report in reports if report.comparison is not None]
    if not comparisons:
        return None
    ratios = [ratio for _, comparison in comparisons for ratio in comparison.ratios]
    dollars: dict[str, list[tuple[float, float]]] = {}
    shares = []
    for report, _ in comparisons:
        costs = {cost.strategy: cost for cost in report.strategies}
        ours = costs.pop(PLANNED)
        shares += [] if ours.prefix_kept is None else [ours.prefix_kept]
        for name, cost in costs.items():
            dollars.setdefault(name, []).append((ours.dollars, cost.dollars))
    return Overall(
        median=statistics.median(ratios),
        p95=_p95(ratios),
        beaten={
            name: sum(ours for ours, _ in pairs) / sum(theirs for _, theirs in pairs) for name, pairs in dollars.items()
        },
        least_prefix_kept=min(shares, default=None),
        met=sum(comparison.met for _, comparison in comparisons),
        of=len(comparisons),
    )


def _p95(values: Sequence[float]) -> float:
    """Returns the 95th percentile."""
    return sorted(values)[min(int(len(values) * 0.95), len(values) - 1)]


def _dollars(conversations: Sequence[Conversation]) -> float:
    return sum(conversation.bill.dollars for conversation in conversations)
