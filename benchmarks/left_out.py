"""Figures for features deliberately not built: a bigger budget, no minimum of two tools per category, and a list of categories in
the prompt.

python -m benchmarks.left_out

The preset `budget` has a first stage, which names categories, and sends only tools of these, at most 8. Each of the sample gym's
129 tools that belong to a category is the right tool of one case. The first stage names the tool's category, or a wrong one (its
neighbour); then the model may request the right category once. Nothing is random and no model is called. So this does not measure
how much worse a small model chooses among 16 tools than among 8.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from toolcaddie import PRESETS, Message, Preset, RunRequest, Runtime
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.schema import canonical_json, estimate_tokens
from toolcaddie.engine.requests import CAPABILITY_NOTE
from toolcaddie.meta.request_more_tools import request_more_tools_schema
from toolcaddie.samples import gym
from toolcaddie.testing import ScriptedProvider, call, say

BUDGETS = (8, 16)
MANY = (2, 4, 5, 8)
"""Numbers of categories that a first stage names at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The share of cases in which the right tool was sent, and the tokens of the definitions in the last request."""

    budget: int
    right: float
    """The share if the first stage names the right category."""
    wrong: float
    """The share if the first stage names a wrong category."""
    mended: float
    """The share if the first stage names a wrong category and the model then requests the right one."""
    tokens: float
    """Tokens of the definitions if the first stage names the right category."""
    mended_tokens: float
    """Tokens of the definitions after the model has requested the right category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The number of categories that get a tool, if several are named and the budget is 8."""

    categories: int
    minimum: int
    """Number of categories served if each gets at least two places, cut at 8 (preset `budget`)."""
    fair: int
    """Number of categories served if each gets at least one place (policy `fair`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Tokens of the list of categories in a request."""

    in_schema: int
    """Tokens in the description of the meta tool, which are sent only with the meta tool."""
    in_prompt: int
    """Tokens in the system prompt, which are sent with every request, also in plain chat."""


Row = Reach | Shares | Listed


def run() -> list[Row]:
    """Measures every case once, which takes some seconds."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        reaches = [asyncio.run(_reach(budget)) for budget in BUDGETS]
        return [*reaches, *(_shares(number) for number in MANY), _listed()]
    finally:
        structlog.reset_defaults()


async def _reach(budget: int) -> Reach:
    runtime, neighbours = _runtime(_budget(max_tools=budget)), _neighbours()
    right: list[bool] = []
    wrong: list[bool] = []
    mended: list[bool] = []
    tokens: list[int] = []
    mended_tokens: list[int] = []
    for category, other in neighbours.items():
        right_selection = runtime.select(_request(category))
        wrong_selection = runtime.select(_request(other))
        definitions = await _expanded(_budget(max_tools=budget), category, other)
        tokens.append(right_selection.tokens_selected)
        mended_tokens.append(estimate_tokens(canonical_json(list(definitions))))
        names = {definition["function"]["name"] for definition in definitions}
        for name in _members(runtime, category):
            right.append(name in right_selection.names)
            wrong.append(name in wrong_selection.names)
            mended.append(name in names)
    return Reach(
        budget=budget,
        right=_mean(right),
        wrong=_mean(wrong),
        mended=_mean(mended),
        tokens=_mean(tokens),
        mended_tokens=_mean(mended_tokens),
    )


async def _expanded(preset: Preset, category: str, other: str) -> Sequence[Any]:
    """Returns the definitions in the request that follows a wrong first stage and a call for the right category."""
    provider = ScriptedProvider([call(REQUEST_MORE_TOOLS, {"categories": [category]}), say("done")])
    await _runtime(preset, provider).run(_request(other))
    return provider.requests[1].tools


def _shares(number: int) -> Shares:
    """Selects tools for this number of named categories, once with each policy of the budget."""

    def served(policy: Any) -> int:
        runtime = _runtime(_budget(policy=policy))
        names = [name for name in _neighbours() if len(_members(runtime, name)) > 1][:number]
        selection = runtime.select(_request(*names))
        return len({candidate.tool.category for candidate in selection.tools})

    return Shares(categories=number, minimum=served("proportional"), fair=served("fair"))


def _listed() -> Listed:
    """Counts the tokens that a list of the gym's categories adds to a schema and to a prompt."""
    names = _runtime(_budget()).view(_request()).category_names()
    bare = estimate_tokens(canonical_json(request_more_tools_schema([])))
    prompt = f"{CAPABILITY_NOTE} Available categories: {', '.join(sorted(names))}."
    return Listed(
        in_schema=estimate_tokens(canonical_json(request_more_tools_schema(names))) - bare,
        in_prompt=estimate_tokens(prompt.encode()) - estimate_tokens(CAPABILITY_NOTE.encode()),
    )


def _budget(**changes: Any) -> Preset:
    base = PRESETS["budget"]
    return replace(base, budget=replace(base.budget, **changes))


def _runtime(preset: Preset, provider: ScriptedProvider | None = None) -> Runtime:
    return Runtime(provider=provider or ScriptedProvider([]), sources=[gym.source()], preset=preset)


def _request(*categories: str) -> RunRequest:
    return RunRequest(messages=(Message(role="user", content="please"),), categories=categories)


def _neighbours() -> dict[str, str]:
    """Returns the category before each category."""
    names = _runtime(_budget()).view(_request()).category_names()
    return {name: names[place - 1] for place, name in enumerate(names)}


def _members(runtime: Runtime, category: str) -> list[str]:
    return [tool.name for tool in runtime.source.snapshot() if tool.category == category]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def main(arguments: Sequence[str] = ()) -> list[Row]:
    rows = run()
    print(f"{'max_tools':>10}{'right first stage':>20}{'wrong':>8}{'wrong, mended':>15}{'tokens':>9}{'mended':>8}")
    formats: dict[type, Callable[[Any], str]] = {
        Reach: lambda row: (
            f"{row.budget:>10}{row.right:>20.1%}{row.wrong:>8.1%}{row.mended:>15.1%}"
            f"{row.tokens:>9.0f}{row.mended_tokens:>8.0f}"
        ),
        Shares: lambda row: (
            f"{row.categories} categories named, 8 places: a minimum of two serves {row.minimum}, fair {row.fair}"
        ),
        Listed: lambda row: f"list of categories: {row.in_schema} tokens in the schema, {row.in_prompt} in a prompt",
    }
    for row in rows:
        print(formats[type(row)](row))
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
