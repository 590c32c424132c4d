"""Rounds in which the model only looked for tools do not count towards the limit of `default`, up to three."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from toolcaddie.core.errors import LimitExceededError
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, REQUEST_MORE_TOOLS, SEARCH_TOOLS
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.usage import Usage
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio


def many() -> list[Callable[..., Any]]:
    """So many tools that the model is sent meta tools too."""
    tools = []
    for number in range(60):

        def run(value: int = 0) -> str:
            return f"did {value}"

        run.__name__, run.__doc__ = f"tool_{number}", f"Works with things of kind {number}."
        tools.append(tool(read_only=True)(run))
    return tools


def search(number: int) -> Any:
    return call(SEARCH_TOOLS, {"query": f"kind {number}"})


async def rounds_with_tools(script: Callable[[int], Any], preset: Any = "default") -> int:
    """Returns the number of model calls with tools."""
    provider = ScriptedProvider(lambda request: script(_round(request)) if request.tools else say("done"))
    await Runtime(provider=provider, sources=many(), preset=preset).run("work with things of kind 3")
    return sum(bool(request.tools) for request in provider.requests)


def _round(request: ModelRequest) -> int:
    return sum(message.role == "assistant" for message in request.messages)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [(0, 5), (1, 6), (3, 8), (4, 8), (9, 8)],
)
async def test_up_to_three_rounds_that_only_looked_for_tools_do_not_count(looks: int, expected: int) -> None:
    def script(number: int) -> Any:
        return (
            search(number)
            if number < looks
            else call(EXECUTE_TOOL, {"tool_name": "tool_3", "arguments": {"value": number}})
        )

    assert await rounds_with_tools(script) == expected


@pytest.mark.parametrize(
    "step",
    [
        lambda number: calls((SEARCH_TOOLS, {"query": str(number)}), (EXECUTE_TOOL, {"tool_name": f"tool_{number}"})),
        lambda number: call("no_such_tool", {"number": number}),
    ],
    ids=["a search beside a call", "an unknown tool"],
)
async def test_other_rounds_count(step: Callable[[int], Any]) -> None:
    assert await rounds_with_tools(step) == 5


@pytest.mark.parametrize("name", [REQUEST_MORE_TOOLS, SEARCH_TOOLS, GET_TOOL_SCHEMA])
async def test_each_way_to_look_for_tools_is_one(name: str) -> None:
    arguments = {REQUEST_MORE_TOOLS: "query", SEARCH_TOOLS: "query", GET_TOOL_SCHEMA: "tool_name"}
    assert await rounds_with_tools(lambda number: call(name, {arguments[name]: f"tool_{number}"})) == 8


async def test_the_other_presets_count_every_round() -> None:
    counted = replace(PRESETS["default"], limits=PRESETS["budget"].limits)
    assert await rounds_with_tools(search, counted) == 5
    assert {name for name, preset in PRESETS.items() if preset.limits.looking_rounds} == {"default"}


async def test_rounds_that_do_not_count_cost_tokens() -> None:
    limits = replace(PRESETS["default"].limits, tokens=20)
    thrifty = replace(PRESETS["default"], limits=limits)
    provider = ScriptedProvider(
        lambda request: replace(search(_round(request)), usage=Usage(input_tokens=10, output_tokens=0))
    )
    with pytest.raises(LimitExceededError, match="20 of its 20 tokens"):
        await Runtime(provider=provider, sources=many(), preset=thrifty).run("work with things of kind 3")
    assert len(provider.requests) == 2
