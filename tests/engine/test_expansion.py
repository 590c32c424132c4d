"""`request_more_tools` inside the loop, in its exact form and in the form of our own preset."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from toolcaddie.core.catalog import Category, View
from toolcaddie.core.events import CallDecided, CallFinished, CallIntended, MetaCalled, RunEvent
from toolcaddie.core.message import Message
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.presets import PRESETS
from toolcaddie.meta.request_more_tools import request_more_tools_schema
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.telemetry import StructlogSink
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio


class Recorder:
    def __init__(self) -> None:
        self.events: list[RunEvent] = []

    async def emit(self, event: RunEvent) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def source(**sizes: int) -> FunctionSource:
    """Categories of so many tools each: notes_0, notes_1, ..."""
    made = []
    for category, size in sizes.items():
        for number in range(size):

            def run(text: str = "") -> str:
                return f"did it with {text}"

            run.__name__ = f"{category}_{number}"
            run.__doc__ = f"Works with {category}, way {number}."
            made.append(tool(category=category)(run))
    return FunctionSource("work", made, categories=[Category(name=name, keywords=(name,)) for name in sizes])


def names(request: Any) -> list[str]:
    return [definition["function"]["name"] for definition in request.tools]


def tool_texts(request: Any) -> list[str]:
    return [message.content for message in request.messages if message.role == "tool"]


@pytest.mark.proves("R000-38", "R000-25", "R000-28", "R000-2", "R000-49")
async def test_a_wrong_first_stage_is_corrected_by_one_expansion_within_the_request() -> None:
    async def classifier(messages: Sequence[Message], view: View) -> Sequence[str]:
        return ["notes"]

    provider = ScriptedProvider(
        [
            call(REQUEST_MORE_TOOLS, {"categories": ["github"], "reason": "the issue lives there"}),
            call("github_1", {"text": "issue 7"}),
            say("The issue is closed."),
        ]
    )
    runtime = Runtime(provider=provider, sources=[source(notes=10, github=7)], preset="budget", classifier=classifier)
    result = await runtime.run("close issue 7 of project X")
    assert result.text == "The issue is closed."
    assert result.tool_calls == ("github_1",)
    assert names(provider.requests[0]) == [REQUEST_MORE_TOOLS, *(f"notes_{i}" for i in range(8))]
    assert names(provider.requests[1]) == [*names(provider.requests[0]), *(f"github_{i}" for i in range(7))]
    assert provider.requests[2].messages[: len(provider.requests[1].messages)] == provider.requests[1].messages


@pytest.mark.proves("R000-21", "R000-4")
async def test_the_meta_tool_stands_first_in_every_iteration_outside_the_budget() -> None:
    provider = ScriptedProvider([call("notes_0"), call("notes_1"), say("done")])
    runtime = Runtime(provider=provider, sources=[source(notes=20, github=20)], preset="budget")
    await runtime.run("notes and github")
    for request in provider.requests:
        assert names(request)[0] == REQUEST_MORE_TOOLS
        assert len(names(request)) == 1 + 8


@pytest.mark.proves("R000-15", "R000-16", "R000-17", "R000-18", "R000-19", "R000-20", "R000-41", "R000-48")
def test_the_schema_lists_the_categories_sorted_and_only_those_it_was_given() -> None:
    schema = request_more_tools_schema(["web", "notes", "github"])
    assert schema["type"] == "function"
    function = schema["function"]
    assert function["name"] == REQUEST_MORE_TOOLS == "request_more_tools"
    assert function["parameters"]["required"] == ["categories"]
    assert function["parameters"]["properties"]["categories"]["type"] == "array"
    assert function["parameters"]["properties"]["reason"]["type"] == "string"
    assert "github, notes, web" in function["description"]
    assert schema == request_more_tools_schema({"github", "web", "notes"})
    assert "github" not in request_more_tools_schema(["notes"])["function"]["description"]


@pytest.mark.proves("R000-18", "R000-20")
async def test_the_offered_schema_names_every_category_of_the_catalog() -> None:
    provider = ScriptedProvider([say("hi")])
    await Runtime(provider=provider, sources=[source(notes=9, github=1, web=1)], preset="budget").run("notes")
    offered = provider.requests[0].tools[0]["function"]["description"]
    assert "github, notes, web" in offered


@pytest.mark.proves("R000-22", "R000-23", "R000-24", "R000-30", "R000-31", "R000-26")
async def test_meta_and_regular_calls_of_one_turn_both_work_and_answers_keep_the_order_of_the_calls() -> None:
    provider = ScriptedProvider(
        [
            calls(
                ("notes_0", {"text": "a"}),
                (REQUEST_MORE_TOOLS, {"categories": ["github"]}),
                ("github_0", {"text": "b"}),
                (REQUEST_MORE_TOOLS, {"categories": ["web"]}),
            ),
            say("done"),
        ]
    )
    recorder = Recorder()
    runtime = Runtime(provider=provider, sources=[source(notes=8, github=2, web=1)], preset="budget", sinks=[recorder])
    await runtime.run("notes")
    assert tool_texts(provider.requests[1]) == [
        "did it with a",
        "Loaded 2 tools: github_0, github_1. You can call them now.",
        "did it with b",
        "Loaded 1 tools: web_0. You can call them now.",
    ]
    order = [type(event) for event in recorder.events if isinstance(event, MetaCalled | CallFinished)]
    assert order == [MetaCalled, MetaCalled, CallFinished, CallFinished]


@pytest.mark.proves("R000-29", "R000-30")
async def test_regular_calls_of_a_turn_run_at_the_same_time_and_answer_in_call_order() -> None:
    both_started = asyncio.Barrier(2)
    finished: list[str] = []
    second_done = asyncio.Event()

    @tool(category="notes")
    async def first() -> str:
        """The first."""
        await both_started.wait()
        await second_done.wait()
        finished.append("first")
        return "one"

    @tool(category="notes")
    async def second() -> str:
        """The second."""
        await both_started.wait()
        finished.append("second")
        second_done.set()
        return "two"

    provider = ScriptedProvider([calls(("first", {}), ("second", {})), say("done")])
    runtime = Runtime(provider=provider, sources=[FunctionSource("s", [first, second])], preset="budget")
    await runtime.run("notes")
    assert finished == ["second", "first"]
    assert tool_texts(provider.requests[1]) == ["one", "two"]


@pytest.mark.proves("R000-32", "R000-23")
async def test_a_meta_call_is_not_judged_and_leaves_one_event_while_a_regular_call_passes_every_gate() -> None:
    recorder = Recorder()
    provider = ScriptedProvider([calls((REQUEST_MORE_TOOLS, {"categories": ["github"]}), ("notes_0", {})), say("x")])
    runtime = Runtime(provider=provider, sources=[source(notes=8, github=2)], preset="budget", sinks=[recorder])
    await runtime.run("notes")
    assert [event.call.name for event in recorder.of(MetaCalled)] == [REQUEST_MORE_TOOLS]
    for kind in (CallDecided, CallIntended, CallFinished):
        assert [event.call.name for event in recorder.of(kind)] == ["notes_0"]


@pytest.mark.proves("R000-33", "R000-34", "R000-36")
async def test_a_model_that_only_asks_for_more_tools_ends_after_five_rounds_and_one_without_tools() -> None:
    provider = ScriptedProvider(lambda request: call(REQUEST_MORE_TOOLS, {"categories": ["github"]}))
    runtime = Runtime(provider=provider, sources=[source(notes=8, github=2)], preset="budget")
    result = await runtime.run("notes")
    assert [bool(request.tools) for request in provider.requests] == [True] * 5 + [False]
    assert result.status == "completed"
    assert result.text
    assert len(set(names(provider.requests[4]))) == len(names(provider.requests[4])) == 1 + 8 + 2
    assert "No new tools added" in tool_texts(provider.requests[5])[1]


@pytest.mark.proves("R000-35")
async def test_an_unknown_category_adds_nothing_and_is_named() -> None:
    provider = ScriptedProvider([call(REQUEST_MORE_TOOLS, {"categories": ["nonsense"]}), say("well")])
    await Runtime(provider=provider, sources=[source(notes=8, github=2)], preset="budget").run("notes")
    answer = tool_texts(provider.requests[1])[0]
    assert answer.startswith("No new tools added")
    assert "'nonsense'" in answer
    assert "github, notes" in answer
    assert names(provider.requests[1]) == names(provider.requests[0])


@pytest.mark.proves("R000-27")
async def test_an_expansion_writes_an_info_line_with_the_number_added() -> None:
    provider = ScriptedProvider([call(REQUEST_MORE_TOOLS, {"categories": ["github"], "reason": "why not"}), say("x")])
    with capture_logs() as lines:
        await Runtime(
            provider=provider, sources=[source(notes=8, github=2)], preset="budget", sinks=[StructlogSink()]
        ).run("notes")
    line = next(line for line in lines if line.get("added") is not None)
    assert line["added"] == 2
    assert line["log_level"] == "info"
    assert REQUEST_MORE_TOOLS in str(line)
    assert "github" in str(line)


@pytest.mark.proves("R000-37")
async def test_the_system_prompt_says_that_the_set_of_tools_can_be_expanded() -> None:
    provider = ScriptedProvider([say("x")])
    runtime = Runtime(provider=provider, sources=[source(notes=9)], preset="budget")
    result = await runtime.run("notes")
    first = provider.requests[0].messages[0]
    assert first.role == "system"
    assert "request_more_tools" in first.text
    assert "expanded" in first.text
    assert all("request_more_tools" not in message.text for message in result.state.messages)


@pytest.mark.proves("R000-39", "R000-40", "R000-43")
async def test_budget_and_meta_tool_are_one_setting_each_and_on_without_any() -> None:
    base = PRESETS["budget"]
    smaller = replace(base, budget=replace(base.budget, max_tools=3))
    provider = ScriptedProvider([say("x")])
    await Runtime(provider=provider, sources=[source(notes=9)], preset=smaller).run("notes")
    assert names(provider.requests[0]) == [REQUEST_MORE_TOOLS, "notes_0", "notes_1", "notes_2"]
    without = ScriptedProvider([call("notes_0"), say("x")])
    await Runtime(provider=without, sources=[source(notes=9)], preset=replace(base, meta=())).run("notes")
    assert names(without.requests[0]) == [f"notes_{i}" for i in range(8)]


async def test_the_default_preset_finds_omitted_tools_by_words_and_appends_them() -> None:
    provider = ScriptedProvider(
        [call(REQUEST_MORE_TOOLS, {"query": "works with github"}), call("github_0"), say("done")]
    )
    runtime = Runtime(provider=provider, sources=[source(notes=60, github=2)])
    await runtime.run("notes please")
    before, after = names(provider.requests[0]), names(provider.requests[1])
    assert after[: len(before)] == before
    assert set(after[len(before) :]) >= {"github_0", "github_1"}


async def test_an_expansion_that_no_longer_fits_selects_again_and_stays_under_the_cap() -> None:
    base = PRESETS["default"]
    tight = replace(base, budget=replace(base.budget, max_tools=8, provider_cap=14, reserve_tools=2))
    provider = ScriptedProvider(
        [
            call(REQUEST_MORE_TOOLS, {"categories": ["github"]}),
            call(REQUEST_MORE_TOOLS, {"categories": ["web"]}),
            call(REQUEST_MORE_TOOLS, {"categories": ["mail"]}),
            say("x"),
        ]
    )
    runtime = Runtime(provider=provider, sources=[source(notes=30, github=30, web=30, mail=30)], preset=tight)
    await runtime.run("notes")
    for request in provider.requests:
        assert len(names(request)) <= 14
    assert any(name.startswith("mail") for name in names(provider.requests[3]))


async def test_only_categories_the_caller_may_see_are_offered_and_loaded() -> None:
    provider = ScriptedProvider([call(REQUEST_MORE_TOOLS, {"categories": ["github"]}), say("x")])
    runtime = Runtime(provider=provider, sources=[source(notes=9, github=1, web=2)], preset="budget")
    await runtime.run("notes", disabled_tools=("github_0",))
    assert "github" not in provider.requests[0].tools[0]["function"]["description"]
    assert "github_0" not in tool_texts(provider.requests[1])[0]
