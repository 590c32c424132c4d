"""The context that a tool gets of its run, and the settings of pages and categories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_compact import answers, hosts
from toolcaddie.app.runtimes import runtime_of
from toolcaddie.app.settings import load_settings
from toolcaddie.core.meta_names import LIST_TOOLS, RESPOND, SEARCH_TOOLS
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio


def with_calls(preset: str, calls: int | None) -> Any:
    return replace(PRESETS[preset], limits=replace(PRESETS[preset].limits, calls=calls))


@pytest.mark.proves("R004-13")
async def test_a_tool_learns_how_many_calls_are_left_and_how_long_the_run_has_taken() -> None:
    seen: list[tuple[int | None, float]] = []

    @tool
    def look(context: RunContext) -> str:
        """Look around."""
        seen.append((context.calls_left, context.elapsed))
        return "seen"

    provider = ScriptedProvider([call("look"), calls(("look", {}), ("look", {})), call(RESPOND, {"message": "done"})])
    runtime = Runtime(provider=provider, sources=[look], preset="compact")
    assert (await runtime.run("go")).status == "completed"
    assert [left for left, _ in seen] == [74, 73, 72]
    times = [elapsed for _, elapsed in seen]
    assert 0 < times[0] < times[1] < times[2] < 5
    seen.clear()
    provider = ScriptedProvider([call("look"), say("done")])
    await Runtime(provider=provider, sources=[look], preset=with_calls("default", None)).run("go")
    assert seen[0][0] is None


@pytest.mark.proves("R004-13")
async def test_a_resumed_run_counts_what_it_had_used_before() -> None:
    seen: list[tuple[int | None, float]] = []

    @tool
    def look(context: RunContext) -> str:
        """Look around."""
        seen.append((context.calls_left, context.elapsed))
        return "seen"

    mine = Tool(name="mine", description="The caller's own.", source="client")
    provider = ScriptedProvider([call("look"), call("mine"), call("look"), say("done")])
    runtime = Runtime(provider=provider, sources=[look], preset=with_calls("multibot", 10))
    waiting = await runtime.run("go", client_tools=(mine,))
    await runtime.resume(waiting.run_id, results={waiting.client_calls[0].id: "x"})
    assert [left for left, _ in seen] == [9, 8]
    assert seen[1][1] > seen[0][1]


@pytest.mark.proves("R004-20", "R004-21", "A-14")
async def test_the_page_size_is_a_setting_of_list_and_search(tmp_path: Path) -> None:
    assert PRESETS["compact"].page_size == 50
    file = tmp_path / "toolcaddie.toml"
    file.write_text('preset = "compact"\n[catalog]\npage_size = 7\ncategories = ["system"]\n[limits]\ncalls = 3\n')
    settings = load_settings(file, environ={})
    provider = ScriptedProvider(
        [
            call(LIST_TOOLS, {}),
            call(LIST_TOOLS, {"offset": 42}),
            call(LIST_TOOLS, {"limit": 8}),
            call(SEARCH_TOOLS, {"query": "host"}),
            call(RESPOND, {"message": "done"}),
        ]
    )
    runtime = runtime_of(settings, [hosts()], provider)
    await runtime.run("what is up")
    first, last, too_many, found = answers(provider)
    assert (first["limit"], len(first["tools"]), first["total"], first["has_more"]) == (7, 7, 48, True)
    assert (len(last["tools"]), last["has_more"]) == (6, False)
    assert "8 is greater than the maximum of 7" in too_many
    assert len(found["tools"]) == 7
    listing = next(t["function"] for t in provider.requests[0].tools if t["function"]["name"] == LIST_TOOLS)
    assert listing["parameters"]["properties"]["limit"]["maximum"] == 7
    assert runtime.preset.limits.calls == 3


@pytest.mark.proves("R004-21", "R004-22", "A-14")
async def test_enabled_categories_are_a_setting_and_tools_of_others_are_hidden() -> None:
    provider = ScriptedProvider(
        [
            call(LIST_TOOLS, {"limit": 50}),
            call(SEARCH_TOOLS, {"query": "network", "limit": 50}),
            call("host_09"),
            call(RESPOND, {"message": "done"}),
        ]
    )
    runtime = Runtime(provider=provider, sources=[hosts()], preset="compact", categories=["network"])
    await runtime.run("what is up")
    listed, found, ran = answers(provider)
    assert listed["total"] == 6
    assert {hit["category"] for hit in (*listed["tools"], *found["tools"])} == {"network"}
    assert ran == "looked at sshd"
    assert (await runtime.call("host_01", {})).error == "unknown_tool"
