"""Costs of conversations under each strategy of sending tools and each provider's prices: `toolcaddie eval costs`.

A script is played through a real runtime against a scripted model, each request is billed as its provider bills it, and the
strategies are compared script by script. Who makes the runtimes hands them in: this floor knows only that they answer.
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
from toolcaddie.evaluation.simulation.actors import Clock, ScriptedModel, ScriptedTools, Sent
from toolcaddie.evaluation.simulation.billing import Bill, PriceRule, PromptCache, as_cached, prefix_kept
from toolcaddie.evaluation.simulation.scripts import Script

PLANNED = "planned"

STRATEGIES: Mapping[str, str] = {
    "all": "every tool of the catalog in every request",
    "fresh": "a selection made anew for every turn",
    "few": "the same, of the best eight",
    "compact": "five meta tools that stand for all",
    "native": "later tools behind the cached prefix, by the provider's own means",
    PLANNED: "the planner's choice, the conversation remembered",
}

BY_RULE = frozenset({"native", PLANNED})
"""Strategies that look at the provider; the others send the same to all and are run once."""

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
    """The part of a runtime that conversations need."""

    async def run(self, request: RunRequest) -> RunResult: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Parts a runtime is made of, so that its model follows scripts."""

    strategy: str
    model: ScriptedModel
    tools: ScriptedTools
    clock: Clock
    rule: PriceRule | None
    """None: the strategy does not look at it."""


MakeAnswers = Callable[[Stage], Answers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """Of consecutive requests within the cache's lifetime: tokens of the earlier ones, and how many of them the later ones
    begin with."""

    kept: int = 0
    of: int = 0

    @property
    def share(self) -> float | None:
        return self.kept / self.of if self.of else None

    def __add__(self, other: Prefix) -> Prefix:
        return Prefix(kept=self.kept + other.kept, of=self.of + other.of)


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
    """Turns in which no more tools were asked for."""
    revealing: Prefix
    """Requests after more tools were asked for, in the same turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Requests of a script, before they are billed."""

    script: Script
    sent: Sequence[Sent]
    misses: int
    marked: bool
    """Every request counts as one whose prefix is marked."""


async def play(
    strategy: str, rule: PriceRule | None, catalog: Catalog, scripts: Sequence[Script], make: MakeAnswers
) -> AsyncIterator[Played]:
    """Have these conversations, one after another. `rule`: of a strategy that looks at it."""
    clock = Clock()
    model, tools = ScriptedModel(catalog, clock, rule), ScriptedTools(catalog, clock)
    answers = make(Stage(strategy=strategy, model=model, tools=tools, clock=clock, rule=rule))
    for script in scripts:
        model.begin()
        await _talk(script, answers, model, tools, clock, remembered=strategy in BY_RULE)
        # A caller who sends tools his own way still marks his prompts; the planner has to say where that pays.
        marked = strategy not in BY_RULE
        yield Played(script=script, sent=tuple(model.sent), misses=model.misses, marked=marked)
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
    for sent in played.sent:
        bill += cache.bill(sent.prompt, sent.at, sent.output, marked=sent.marked or played.marked)
    steady = revealing = Prefix()
    for before, after in pairwise(played.sent):
        if rule.cache.kind == "none" or after.at - before.at > rule.cache.lifetime:
            continue
        shared, of = prefix_kept(as_cached(before.prompt, rule), as_cached(after.prompt, rule))
        if after.after_reveal:
            revealing += Prefix(kept=shared, of=of)
        else:
            steady += Prefix(kept=shared, of=of)
    fewest = sum(len(turn.steps) + 1 for turn in played.script.turns)
    return Conversation(
        script=played.script.number,
        bill=bill,
        misses=played.misses,
        needs=sum(len(turn.needs) for turn in played.script.turns),
        requests=len(played.sent),
        extra=len(played.sent) - fewest,
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
    """Prompt and answers of a conversation."""
    median_dollars: float
    dollars: float
    """All scripts together."""
    read: float
    """Share of the prompts' tokens that was read from the cache."""
    misses: int
    needs: int
    extra: int
    prefix_kept: float | None
    prefix_kept_after_reveal: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The planner against the cheapest of the others, script by script."""

    ratios: tuple[float, ...]
    """Of each conversation: the planner's dollars over those of the cheapest other."""
    median: float
    p95: float
    cheapest: Mapping[str, int]
    """Number of conversations in which each of the others was the cheapest."""
    beaten: Mapping[str, float]
    """For each of the others: the planner's dollars over theirs, over all scripts."""

    @property
    def met(self) -> bool:
        """The goals of ratios and sums; a sum is no higher than another where the planner chose the same all along."""
        return self.median <= GOAL_MEDIAN and self.p95 <= GOAL_P95 and all(each <= 1 for each in self.beaten.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """One rule and one catalog."""

    model: str
    tools: int
    strategies: tuple[StrategyCosts, ...]
    comparison: Comparison | None
    """None: the planner was left out, or nobody else missed as little."""


def report(model: str, tools: int, found: Mapping[str, Sequence[Conversation]]) -> CostReport:
    """`found`: conversations by strategy, the same scripts in the same order."""
    return CostReport(
        model=model,
        tools=tools,
        strategies=tuple(_costs(name, conversations) for name, conversations in found.items()),
        comparison=compared(found),
    )


def _costs(strategy: str, conversations: Sequence[Conversation]) -> StrategyCosts:
    bill = sum((each.bill for each in conversations), Bill())
    return StrategyCosts(
        strategy=strategy,
        scripts=len(conversations),
        median_tokens=statistics.median(each.bill.prompt + each.bill.output for each in conversations),
        median_dollars=statistics.median(each.bill.dollars for each in conversations),
        dollars=bill.dollars,
        read=bill.read / bill.prompt if bill.prompt else 0.0,
        misses=sum(each.misses for each in conversations),
        needs=sum(each.needs for each in conversations),
        extra=sum(each.extra for each in conversations),
        prefix_kept=sum((each.steady for each in conversations), Prefix()).share,
        prefix_kept_after_reveal=sum((each.revealing for each in conversations), Prefix()).share,
    )


def compared(found: Mapping[str, Sequence[Conversation]]) -> Comparison | None:
    """A strategy that misses needed tools is cheap for it. So for each script only those count that missed no more than the
    planner did; sums are of all scripts, and their misses stand beside them."""
    others = {name: conversations for name, conversations in found.items() if name != PLANNED}
    if PLANNED not in found:
        return None
    ratios: list[float] = []
    cheapest = dict.fromkeys(others, 0)
    for at, ours in enumerate(found[PLANNED]):
        fair = {name: each[at].bill.dollars for name, each in others.items() if each[at].misses <= ours.misses}
        if not fair:
            continue
        best = min(fair, key=fair.__getitem__)
        cheapest[best] += 1
        ratios.append(ours.bill.dollars / fair[best])
    if not ratios:
        return None
    total = _dollars(found[PLANNED])
    return Comparison(
        ratios=tuple(ratios),
        median=statistics.median(ratios),
        p95=_p95(ratios),
        cheapest=cheapest,
        beaten={name: total / _dollars(conversations) for name, conversations in others.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """The planner over all rules and catalogs."""

    median: float
    p95: float
    """Of the ratios of every conversation under every rule."""
    beaten: Mapping[str, float]
    """For each of the others: the planner's dollars over theirs, where both were played."""
    least_prefix_kept: float | None
    """Of the rules and catalogs, where it was least; None: nothing is cached anywhere."""
    met: int
    """Pairs of rule and catalog that meet the goals of ratios and sums."""
    of: int


def overall(reports: Sequence[CostReport]) -> Overall | None:
    """None: the planner was nowhere compared."""
    compared_ones = [(report, report.comparison) for report in reports if report.comparison is not None]
    if not compared_ones:
        return None
    ratios = [ratio for _, comparison in compared_ones for ratio in comparison.ratios]
    dollars: dict[str, list[tuple[float, float]]] = {}
    shares = []
    for report, _ in compared_ones:
        costs = {each.strategy: each for each in report.strategies}
        ours = costs.pop(PLANNED)
        shares += [] if ours.prefix_kept is None else [ours.prefix_kept]
        for name, each in costs.items():
            dollars.setdefault(name, []).append((ours.dollars, each.dollars))
    return Overall(
        median=statistics.median(ratios),
        p95=_p95(ratios),
        beaten={
            name: sum(ours for ours, _ in pairs) / sum(theirs for _, theirs in pairs) for name, pairs in dollars.items()
        },
        least_prefix_kept=min(shares, default=None),
        met=sum(comparison.met for _, comparison in compared_ones),
        of=len(compared_ones),
    )


def _p95(values: Sequence[float]) -> float:
    """The value that one in twenty is above."""
    return sorted(values)[min(int(len(values) * 0.95), len(values) - 1)]


def _dollars(conversations: Sequence[Conversation]) -> float:
    return sum(each.bill.dollars for each in conversations)
