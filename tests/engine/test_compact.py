"""Compact mode: five meta tools stand for any number of tools."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from toolcaddie.control.bots import Bot
from toolcaddie.core.catalog import Category
from toolcaddie.core.control import Principal
from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, LIST_TOOLS, PAGE_SIZE, RESPOND, SEARCH_TOOLS
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio


def hosts(count: int = 54) -> FunctionSource:
    made = []
    for number in range(count):

        def run(unit: str = "sshd") -> str:
            return f"looked at {unit}"

        run.__name__ = f"host_{number:02}"
        run.__doc__ = f"Looks at the host, part {number}. {'Restarts the NETWORK.' if number == 7 else ''}"
        made.append(tool(category="network" if number % 9 == 0 else "system")(run))
    return FunctionSource("hosts", made, categories=[Category(name="system"), Category(name="network")])


async def ask(*steps: Any, **options: Any) -> tuple[Any, ScriptedProvider]:
    provider = ScriptedProvider([*steps, call(RESPOND, {"message": "done"})])
    runtime = Runtime(provider=provider, sources=[hosts()], preset="compact", **options.pop("runtime", {}))
    return await runtime.run("what is up", **options), provider


def answers(provider: ScriptedProvider) -> list[Any]:
    texts = [message.content for message in provider.requests[-1].messages if message.role == "tool"]
    return [msgspec.json.decode(text) if text.startswith("{") else text for text in texts]


@pytest.mark.proves("R004-14")
async def test_the_model_sees_exactly_five_meta_tools_the_same_in_every_round() -> None:
    result, provider = await ask(call(LIST_TOOLS, {}))
    five = [EXECUTE_TOOL, LIST_TOOLS, SEARCH_TOOLS, GET_TOOL_SCHEMA, RESPOND]
    for request in provider.requests:
        assert [definition["function"]["name"] for definition in request.tools] == five
    assert provider.requests[0].tools == provider.requests[1].tools
    assert result.text == "done"


@pytest.mark.proves("R004-15")
async def test_execute_tool_runs_any_loaded_tool_by_name() -> None:
    result, provider = await ask(call(EXECUTE_TOOL, {"tool_name": "host_33", "arguments": {"unit": "nginx"}}))
    assert answers(provider) == ["looked at nginx"]
    assert result.tool_calls == ("host_33",)


@pytest.mark.proves("R004-16", "R004-20")
async def test_54_tools_are_two_pages_of_50_and_4_in_a_stable_order() -> None:
    _, provider = await ask(call(LIST_TOOLS, {}), call(LIST_TOOLS, {"offset": 50}))
    first, second = answers(provider)
    assert PAGE_SIZE == 50
    assert (first["total"], first["offset"], first["limit"], first["has_more"]) == (54, 0, 50, True)
    assert (len(first["tools"]), len(second["tools"]), second["has_more"]) == (50, 4, False)
    names = [item["name"] for item in first["tools"] + second["tools"]]
    assert names == [f"host_{number:02}" for number in range(54)]


@pytest.mark.proves("R004-16")
async def test_the_total_of_a_page_counts_the_category_asked_for() -> None:
    _, provider = await ask(call(LIST_TOOLS, {"category": "network", "limit": 4}))
    (page,) = answers(provider)
    assert (page["total"], len(page["tools"]), page["has_more"]) == (6, 4, True)


@pytest.mark.proves("R004-17")
async def test_search_finds_words_in_name_description_and_category_in_any_case() -> None:
    _, provider = await ask(
        call(SEARCH_TOOLS, {"query": "restarts the network"}),
        call(SEARCH_TOOLS, {"query": "HOST_41"}),
        call(SEARCH_TOOLS, {"query": "Network", "limit": 50}),
        call(SEARCH_TOOLS, {"query": "host", "limit": 50}),
    )
    by_description, by_name, by_category, many = answers(provider)
    assert by_description["tools"][0]["name"] == "host_07"
    assert "host_41" in [hit["name"] for hit in by_name["tools"]]
    assert {hit["name"] for hit in by_category["tools"]} >= {f"host_{number:02}" for number in range(0, 54, 9)}
    assert len(many["tools"]) == 50


@pytest.mark.proves("R004-18")
async def test_a_schema_is_shown_and_an_unknown_name_is_an_error() -> None:
    _, provider = await ask(
        call(GET_TOOL_SCHEMA, {"tool_name": "host_03"}), call(GET_TOOL_SCHEMA, {"tool_name": "host_3"})
    )
    schema, unknown = answers(provider)
    assert schema["parameters"]["properties"]["unit"]["type"] == "string"
    assert "no tool 'host_3'" in unknown
    assert "Did you mean host_" in unknown


@pytest.mark.proves("R004-19")
async def test_respond_ends_the_request_with_its_text() -> None:
    result, provider = await ask()
    assert (result.text, result.status, len(provider.requests)) == ("done", "completed", 1)


async def test_respond_beside_another_call_lets_that_call_finish_first() -> None:
    both = calls((EXECUTE_TOOL, {"tool_name": "host_01", "arguments": {}}), (RESPOND, {"message": "bye"}))
    provider = ScriptedProvider([both])
    result = await Runtime(provider=provider, sources=[hosts()], preset="compact").run("x")
    assert (result.text, result.tool_calls) == ("bye", ("host_01",))


@pytest.mark.proves("R004-21", "R004-22")
async def test_tools_of_disabled_categories_are_not_listed_searched_shown_or_run() -> None:
    _, provider = await ask(
        call(LIST_TOOLS, {}),
        call(SEARCH_TOOLS, {"query": "network", "limit": 50}),
        call(GET_TOOL_SCHEMA, {"tool_name": "host_09"}),
        call(EXECUTE_TOOL, {"tool_name": "host_09", "arguments": {}}),
        runtime={"bots": {"ops": Bot(categories=("system",))}},
        principal=Principal(bot="ops"),
    )
    listed, found, shown, ran = answers(provider)
    assert listed["total"] == 48
    assert all(hit["category"] == "system" for hit in found["tools"])
    assert "no tool" in shown
    assert "no tool" in ran
    assert "host_09," not in shown


async def test_execute_tool_passes_the_same_gates_and_is_unwrapped_once_only() -> None:
    _, provider = await ask(
        call(EXECUTE_TOOL, {"tool_name": "host_01", "arguments": {"unit": 5}}),
        call(EXECUTE_TOOL, {"tool_name": EXECUTE_TOOL, "arguments": {"tool_name": "host_01"}}),
        call(EXECUTE_TOOL, {"arguments": {}}),
    )
    wrong, twice, unnamed = answers(provider)
    assert "unit" in wrong
    assert '"unit"' in wrong  # the schema is shown
    assert "directly" in twice
    assert "tool_name" in unnamed


async def test_the_model_may_also_answer_in_plain_words() -> None:
    provider = ScriptedProvider([say("just words")])
    assert (await Runtime(provider=provider, sources=[hosts()], preset="compact").run("x")).text == "just words"
