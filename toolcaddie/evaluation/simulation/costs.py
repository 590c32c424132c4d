"""Costs of simulated conversations, for `toolcaddie eval costs`: under each strategy of sending tools, and each provider's
prices.

A script, which is a generated conversation, is played through a real runtime with a scripted model. Each request is billed as the
provider would bill it, and the strategies are compared script by script. The planner is the part of the engine that chooses how
to send tools; its strategy is `planned`. The caller passes in the function that makes a runtime (`MakeAnswers`).
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
"""The strategy that is compared with all others."""

STRATEGIES: Mapping[str, str] = {
    "all": "every tool of the catalog in every request",
    "fresh": "a new selection for every turn",
    "few": "a new selection of the best eight for every turn",
    "compact": "five meta tools instead of the catalog",
    "native": "later tools behind the cached prefix, by the provider's own means",
    "program": "a new selection for every turn, and programs by the model",
    PLANNED: "the planner's choice, the conversation remembered",
}
"""The strategies by name, each with a description of the tools it sends."""

BY_RULE = frozenset({"native", PLANNED})
"""Strategies that depend on the provider. The others send the same requests to every provider, so they are played once."""

DEFAULT_RULES = (
    "anthropic:claude-sonnet-5-5",
    "anthropic:claude-haiku-4-5",
    "openai-responses:gpt-6-sol",
    "openai:gpt-5.4",
    "gemini:gemini-3.8-flash",
    "deepseek:deepseek-chat",
    "mistral:mistral-large-4",
)
"""One model for each kind of price rule: cheap and expensive reading from the cache, with and without a fee for writing, with and
without deferral of definitions, a short and a long minimum of tokens, lifetimes of minutes and of an hour, and no cache at
all."""

GOAL_MEDIAN = 0.95
"""Goal for the median of `Comparison.ratios`: at most this."""
GOAL_P95 = 1.10
"""Goal for the 95th percentile of `Comparison.ratios`: at most this."""
GOAL_MISSED = 0.005
"""Goal for the share of needed tools that the planner's conversations never call: at most this."""
GOAL_KEPT = 0.95
"""Goal for the share of the prompt prefix that the next request repeats: at least this."""


class Answers(Protocol):
    """The methods of a runtime that playing a script needs."""

    async def run(self, request: RunRequest) -> RunResult: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The parts from which a runtime is made whose model follows scripts."""

    strategy: str
    model: ScriptedModel
    tools: ScriptedTools
    clock: Clock
    rule: PriceRule | None
    """Price rule of the model; None: the strategy does not depend on the provider."""


MakeAnswers = Callable[[Stage], Answers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The prefix that consecutive requests share, summed over pairs of requests within the lifetime of the cache."""

    common: int = 0
    """Tokens at the start of the earlier request with which the later one starts too."""
    of: int = 0
    """All tokens of the earlier request."""

    @property
    def share(self) -> float | None:
        return self.common / self.of if self.of else None

    def __add__(self, other: Prefix) -> Prefix:
        return Prefix(common=self.common + other.common, of=self.of + other.of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One script under one strategy and one price rule."""

    script: int
    """Number of the script."""
    bill: Bill
    misses: int
    """Number of needed tools that were not called."""
    needs: int
    """Number of needed tools."""
    requests: int
    """Number of requests to the model."""
    extra: int
    """Number of requests above that of a model that sees every tool."""
    steady: Prefix
    """Shared prefix of requests before the model asked for more tools in the turn, or if it did not."""
    revealing: Prefix
    """Shared prefix of requests after the model asked for more tools in the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A script that was played, before its requests are billed."""

    script: Script
    requests: Sequence[RenderedRequest]
    misses: int
    """Number of needed tools that were not called."""
    marked: bool
    """True if the prefix of every request counts as marked for caching."""


async def play(
    strategy: str, rule: PriceRule | None, catalog: Catalog, scripts: Sequence[Script], make: MakeAnswers
) -> AsyncIterator[Played]:
    """Plays these scripts one after another. `rule`: price rule of the model; None: the strategy does not depend on the
    provider."""
    clock = Clock()
    model, tools = ScriptedModel(catalog, clock, rule), ScriptedTools(catalog, clock)
    answers = make(Stage(strategy=strategy, model=model, tools=tools, clock=clock, rule=rule))
    for script in scripts:
        model.begin()
        await _talk(script, answers, model, tools, clock, remembered=strategy in BY_RULE)
        # Without a planner, callers mark every prompt for caching. The planner marks a prompt where that pays.
        always_marked = strategy not in BY_RULE
        yield Played(script=script, requests=tuple(model.requests), misses=model.misses, marked=always_marked)
    await answers.close()


async def _talk(
    script: Script, answers: Answers, model: ScriptedModel, tools: ScriptedTools, clock: Clock, *, remembered: bool
) -> None:
    """Plays one script: sends the user's message of each turn through the runtime. `remembered`: the runtime remembers the
    conversation between turns."""
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
    """Bills the requests of a script under a price rule."""
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
    """Figures of one strategy over all scripts, under one price rule and on one catalog."""

    strategy: str
    scripts: int
    """Number of scripts."""
    median_tokens: float
    """Tokens of a conversation, prompts and answers together: the median."""
    median_dollars: float
    """Dollars of a conversation: the median."""
    dollars: float
    """Dollars of all scripts together."""
    read: float
    """Share of the prompts' tokens that were read from the cache."""
    misses: int
    """Number of needed tools that were not called, in all scripts."""
    needs: int
    """Number of needed tools in all scripts."""
    extra: int
    """Number of requests above that of a model that sees every tool, in all scripts."""
    prefix_kept: float | None
    """Share of a request's tokens with which the next request starts too; None: nothing is cached."""
    prefix_kept_after_reveal: float | None
    """The same share for requests after the model asked for more tools in the turn; None: there are no such requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The planner compared with the cheapest other strategy, script by script."""

    ratios: tuple[float, ...]
    """For each script, the planner's dollars divided by those of the cheapest other strategy."""
    median: float
    """Median of `ratios`."""
    p95: float
    """95th percentile of `ratios`."""
    missed: float
    """Share of the needed tools that were never called under the planner."""
    cheapest: Mapping[str, int]
    """For each other strategy, the number of scripts in which it was the cheapest of the others."""
    beaten: Mapping[str, float]
    """For each other strategy, the planner's dollars divided by that strategy's dollars, over all scripts."""

    @property
    def met(self) -> bool:
        """Returns True if the ratios and the missed tools meet their goals, and every other strategy costs more over all
        scripts."""
        within = self.median <= GOAL_MEDIAN and self.p95 <= GOAL_P95 and self.missed <= GOAL_MISSED
        return within and all(ratio < 1 for ratio in self.beaten.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Costs of all strategies under one price rule and on one catalog."""

    model: str
    tools: int
    """Number of tools of the catalog."""
    strategies: tuple[StrategyCosts, ...]
    comparison: Comparison | None
    """None if the planner was not played, or if in every script all other strategies missed more tools."""


def report(model: str, tools: int, conversations_by_strategy: Mapping[str, Sequence[Conversation]]) -> CostReport:
    """Returns the report of one price rule and catalog. All strategies must have the same scripts in the same order."""
    return CostReport(
        model=model,
        tools=tools,
        strategies=tuple(_costs(name, conversations) for name, conversations in conversations_by_strategy.items()),
        comparison=compared(conversations_by_strategy),
    )


def _costs(strategy: str, conversations: Sequence[Conversation]) -> StrategyCosts:
    """Returns the figures of one strategy from all its conversations."""
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
    """Compares the planner with the other strategies. None: there is nothing to compare.

    A strategy that misses needed tools is cheap. So the ratio of a script is computed with strategies that missed no more tools
    than the planner. `beaten` is computed over all scripts; the report shows the misses next to it.
    """
    others = {name: conversations for name, conversations in conversations_by_strategy.items() if name != PLANNED}
    if PLANNED not in conversations_by_strategy:
        return None
    ratios: list[float] = []
    cheapest = dict.fromkeys(others, 0)
    for at, planned in enumerate(conversations_by_strategy[PLANNED]):
        fair = {
            name: conversations[at].bill.dollars
            for name, conversations in others.items()
            if conversations[at].misses <= planned.misses
        }
        if not fair:
            continue
        best = min(fair, key=fair.__getitem__)
        cheapest[best] += 1
        ratios.append(planned.bill.dollars / fair[best])
    if not ratios:
        return None
    total = _dollars(conversations_by_strategy[PLANNED])
    return Comparison(
        ratios=tuple(ratios),
        median=statistics.median(ratios),
        p95=_p95(ratios),
        missed=_missed(conversations_by_strategy[PLANNED]),
        cheapest=cheapest,
        beaten={name: total / _dollars(conversations) for name, conversations in others.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """Comparison of the planner over all price rules and catalogs."""

    median: float
    """Median of the ratios of all scripts under all rules."""
    p95: float
    """95th percentile of the ratios of all scripts under all rules."""
    beaten: Mapping[str, float]
    """For each other strategy, the planner's dollars divided by that strategy's dollars, where both were played."""
    least_prefix_kept: float | None
    """The planner's smallest `prefix_kept` over all rules and catalogs; None: nothing is cached anywhere."""
    met: int
    """Number of reports whose comparison meets its goals (`Comparison.met`)."""
    of: int
    """Number of reports with a comparison."""


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


def _missed(conversations: Sequence[Conversation]) -> float:
    """Returns the share of needed tools that were not called."""
    needs = sum(conversation.needs for conversation in conversations)
    return sum(conversation.misses for conversation in conversations) / needs if needs else 0.0


def _p95(values: Sequence[float]) -> float:
    """Returns the 95th percentile."""
    return sorted(values)[min(int(len(values) * 0.95), len(values) - 1)]


def _dollars(conversations: Sequence[Conversation]) -> float:
    return sum(conversation.bill.dollars for conversation in conversations)
