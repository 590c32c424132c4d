"""The caller's own tools, its `tool_choice` and its parameters, against the meta tools and the provider's cap."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from toolcaddie.core.events import ClientCallDelta, RunFinished
from toolcaddie.core.message import Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.meta_names import EXECUTE_TOOL, META_TOOLS, REQUEST_MORE_TOOLS, SEARCH_TOOLS
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.run import Limits, RunRequest
from toolcaddie.core.schema import estimate_tokens
from toolcaddie.core.tool import CLIENT_SOURCE, Tool, ToolCall
from toolcaddie.runtime import Runtime
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

DEFAULT = PRESETS["default"]
STRING = {"type": "object", "properties": {"q": {"type": "string"}}}


def own(*names: str) -> list[Tool]:
    return [
        Tool(name=name, description=f"Does {name.replace('_', ' ')}.", input_schema=STRING, source=CLIENT_SOURCE)
        for name in names
    ]


def things(count: int, kind: str = "thing") -> list[Tool]:
    return own(*(f"{kind}_{number}" for number in range(count)))


def names(request: Any) -> list[str]:
    return [definition["function"]["name"] for definition in request.tools]


def allowed(tools: Sequence[str]) -> dict[str, Any]:
    listed = [{"type": "function", "function": {"name": name}} for name in tools]
    return {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": listed}}


@pytest.mark.parametrize("name", sorted(META_TOOLS))
@pytest.mark.parametrize("count", [3, 60])
async def test_a_callers_tool_with_a_meta_tools_name_is_the_callers(name: str, count: int) -> None:
    provider = ScriptedProvider([call(name, {"q": "x"})] * 2)
    runtime = Runtime(provider=provider)
    tools = [*things(count), *own(name)]
    result = await runtime.run(f"do {name} please", client_tools=tools)
    assert (result.status, [one.name for one in result.client_calls]) == ("client_calls", [name])
    assert result.client_calls[0].arguments == '{"q":"x"}'
    assert names(provider.requests[0]).count(name) == 1
    streamed = [event async for event in runtime.stream(f"do {name} please", client_tools=tools)]
    assert any(isinstance(event, ClientCallDelta) and event.delta.name == name for event in streamed)


async def test_the_other_meta_tools_work_beside_a_callers_namesake() -> None:
    provider = ScriptedProvider([call(EXECUTE_TOOL, {"tool_name": SEARCH_TOOLS, "arguments": {"q": "x"}})])
    result = await Runtime(provider=provider).run("thing 3", client_tools=[*things(60), *own(SEARCH_TOOLS)])
    assert {REQUEST_MORE_TOOLS, EXECUTE_TOOL} <= set(names(provider.requests[0]))
    assert [one.name for one in result.client_calls] == [SEARCH_TOOLS]


async def test_the_last_round_goes_without_parameters_that_need_tools() -> None:
    preset = replace(DEFAULT, limits=Limits(rounds=1, looking_rounds=0))
    provider = ScriptedProvider([call(REQUEST_MORE_TOOLS, {"query": "thing 5"}), say("done")])
    params = {"parallel_tool_calls": False, "functions": [], "function_call": "auto", "seed": 1}
    await Runtime(provider=provider, preset=preset).run("thing 3", client_tools=things(60), params=params)
    assert [dict(request.params or {}) for request in provider.requests] == [params, {"seed": 1}]


async def test_old_style_functions_of_the_caller_stay_if_no_tools_were_offered() -> None:
    provider = ScriptedProvider([say("done")] * 2)
    runtime = Runtime(provider=provider)
    params = {"functions": [{"name": "f"}], "function_call": "auto"}
    await runtime.run("hello", params=params)
    await runtime.run("hello", params={"parallel_tool_calls": True})
    assert [request.params for request in provider.requests] == [params, {}]


@pytest.mark.parametrize("odd", [5, "s", None, [], [1], {}, {"a": 1}, True, [None], [[]], {"name": 5}, {"tools": 5}])
async def test_a_tool_choice_may_be_any_json_and_the_run_goes_on(odd: Any) -> None:
    choices = [
        {"type": "function", "function": odd},
        {"type": "function", "function": {"name": odd}},
        {"type": "custom", "custom": odd},
        {"type": "allowed_tools", "allowed_tools": odd},
        {"type": "allowed_tools", "allowed_tools": {"tools": odd}},
        {"type": "allowed_tools", "allowed_tools": {"tools": [odd]}},
    ]
    provider = ScriptedProvider(lambda request: say("ok"))
    runtime = Runtime(provider=provider)
    for choice in choices:
        assert (await runtime.run("thing 3", client_tools=things(60), tool_choice=choice)).text == "ok"
    assert [request.tool_choice for request in provider.requests] == choices


@pytest.mark.parametrize("count", [30, 124, 125, 128, 200])
async def test_so_many_allowed_tools_as_fit_are_sent_and_no_other_is_named(count: int) -> None:
    provider = ScriptedProvider([say("ok")])
    tools = things(300)
    choice = allowed([tool.name for tool in tools[:count]])
    await Runtime(provider=provider).run("thing 150 and thing 3", client_tools=tools, tool_choice=choice)
    (request,) = provider.requests
    named = [item["function"]["name"] for item in request.tool_choice["allowed_tools"]["tools"]]
    assert len(named) == min(count, 128)
    assert set(named) <= set(names(request))
    assert len(request.tools) <= 128
    assert {"thing_3", *(["thing_150"] if count > 150 else [])} <= set(named)


async def test_allowed_tools_over_the_token_limit_are_cut_as_well() -> None:
    preset = replace(DEFAULT, budget=replace(DEFAULT.budget, max_tokens=600))
    provider = ScriptedProvider([say("ok")])
    tools = things(60)
    await Runtime(provider=provider, preset=preset).run(
        "thing 7", client_tools=tools, tool_choice=allowed([tool.name for tool in tools])
    )
    (request,) = provider.requests
    assert 0 < len(request.tool_choice["allowed_tools"]["tools"]) < 60
    assert "thing_7" in names(request)


async def test_loaded_tools_are_sent_and_the_forced_one_stays() -> None:
    """The array is rebuilt when nothing more fits: its meta tools count with their tokens, and the choice has its place."""
    preset = replace(DEFAULT, budget=replace(DEFAULT.budget, max_tokens=1_500), limits=Limits(rounds=12))
    kinds = ["beta", "gamma", "delta", "epsilon", "zeta"]
    tools = [tool for kind in ["alpha", *kinds] for tool in things(60, kind)]
    provider = ScriptedProvider([*(call(REQUEST_MORE_TOOLS, {"query": kind}) for kind in kinds * 2), say("done")])
    choice = {"type": "function", "function": {"name": "alpha_17"}}
    await Runtime(provider=provider, preset=preset).run("do alpha", client_tools=tools, tool_choice=choice)
    for request in provider.requests[1:]:
        told = str(request.messages[-1].content)
        loaded = told.split(": ", 1)[1].split(". You", 1)[0].split(", ") if told.startswith("Loaded") else []
        assert set(loaded) <= set(names(request))
        assert "alpha_17" in names(request)
        assert sum(estimate_tokens(_encoded(definition)) for definition in request.tools) <= 1_500
    assert any(str(request.messages[-1].content).startswith("Loaded") for request in provider.requests[1:])


def _encoded(definition: Any) -> bytes:
    return msgspec.json.encode(definition)


async def test_a_list_of_tools_that_changed_is_seen_as_it_is_now() -> None:
    provider = ScriptedProvider([say("ok")] * 2)
    runtime = Runtime(provider=provider)
    tools = own("open_door")
    await runtime.run("hello", client_tools=tools)
    tools += own("close_door")
    await runtime.run("hello", client_tools=tools)
    assert [names(request) for request in provider.requests] == [["open_door"], ["open_door", "close_door"]]


class StreamsOneOfTwo(ScriptedProvider):
    """Streams the first call and gives the second with the reply only, as it is done with custom tools."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        async for item in super().stream(request):
            if isinstance(item, ModelReply) or all(piece.index == 0 for piece in item.calls):
                yield item


async def test_a_streamed_call_keeps_its_id_beside_one_that_came_whole() -> None:
    provider = StreamsOneOfTwo([calls(("open_door", {}), ("close_door", {}), ids=("used", "new"))])
    earlier = ToolCall(id="used", name="open_door")
    messages = (
        Message(role="assistant", tool_calls=(earlier,)),
        Message(role="tool", tool_call_id="used", content="open"),
        Message(role="user", content="and again"),
    )
    request = RunRequest(messages=messages, client_tools=own("open_door", "close_door"))
    events = [event async for event in Runtime(provider=provider).stream(request)]
    streamed = [event.delta.id for event in events if isinstance(event, ClientCallDelta) and event.delta.id]
    (end,) = (event for event in events if isinstance(event, RunFinished))
    given = [one.id for one in end.result.client_calls]
    assert given == [*streamed, "new"]
    assert streamed != ["used"]
