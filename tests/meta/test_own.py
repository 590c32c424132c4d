"""Meta tools of applications: a file with a class, offered by a preset that names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import PRESETS, Preset
from toolcaddie.core.tool import Reveal, Tool, ToolCall, ToolResult
from toolcaddie.ports import MetaOffer, MetaScene
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio


class CountTools:
    """Says how many tools the caller may see, and reveals the last of them."""

    name = "count_tools"

    def definition(self, offer: MetaOffer) -> Tool:
        return Tool(name=self.name, description=f"Count the tools of {len(offer.categories)} categories.")

    async def answer(self, arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
        names = [each.name for each in scene.view]
        return ToolResult(content=f"{len(names)} tools", effect=Reveal(names=(names[-1],)))


class RunLoudly:
    """Runs another tool with its text in capitals."""

    name = "run_loudly"

    def definition(self, offer: MetaOffer) -> Tool:
        schema = {"type": "object", "properties": {"tool": {"type": "string"}}, "required": ["tool"]}
        return Tool(name=self.name, description="Run a tool loudly.", input_schema=schema)

    def unwrapped(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        return replace(call, name=arguments["tool"], arguments='{"text": "LOUD"}')


@tool(roles=["admin"])
def secret(text: str = "") -> str:
    """Say a secret."""
    return f"secret {text}"


@tool
def speak(text: str = "") -> str:
    """Say something."""
    return f"spoken {text}"


OFFERING = replace(PRESETS["compact"], meta=("count_tools", "run_loudly", "respond"))


def house(*steps: Any, preset: Preset = OFFERING) -> tuple[Runtime, ScriptedProvider]:
    provider = ScriptedProvider([*steps, say("done")])
    sources = [FunctionSource("house", [secret, speak])]
    return Runtime(provider=provider, sources=sources, preset=preset, meta_tools=[CountTools(), RunLoudly()]), provider


def results(provider: ScriptedProvider) -> list[str]:
    return [message.content for message in provider.requests[-1].messages if message.role == "tool"]


async def test_a_preset_offers_it_and_it_answers_from_what_the_caller_may_see() -> None:
    runtime, provider = house(call("count_tools"))
    result = await runtime.run("how many?")
    assert [each["function"]["name"] for each in provider.requests[0].tools] == ["count_tools", "run_loudly", "respond"]
    assert results(provider)[0].startswith("1 tools")
    assert result.state.known == ("speak",) or "speak" in [each.name for each in result.state.delivered]
    assert result.tool_calls == ()


async def test_its_wrong_arguments_come_back_with_the_schema() -> None:
    runtime, provider = house(call("run_loudly", {}))
    await runtime.run("go")
    assert "run_loudly" in results(provider)[0]
    assert '"required":["tool"]' in results(provider)[0]


async def test_the_call_inside_a_wrapper_passes_the_gates_in_its_place() -> None:
    runtime, provider = house(call("run_loudly", {"tool": "speak"}), call("run_loudly", {"tool": "secret"}))
    result = await runtime.run("go")
    spoken, refused = results(provider)
    assert spoken == "spoken LOUD"
    assert "There is no tool 'secret'" in refused
    assert result.tool_calls == ("speak",)


async def test_no_meta_tool_runs_inside_a_wrapper() -> None:
    runtime, provider = house(call("run_loudly", {"tool": "count_tools"}))
    await runtime.run("go")
    assert "count_tools cannot be run through run_loudly" in results(provider)[0]


def test_an_unknown_name_is_refused_at_construction() -> None:
    with pytest.raises(ConfigError, match="count_tols"):
        house(preset=replace(OFFERING, meta=("count_tols",)))


def test_a_name_of_ours_cannot_be_taken() -> None:
    class Taken(CountTools):
        name = "list_tools"

    with pytest.raises(ConfigError, match="there is a meta tool 'list_tools' already"):
        Runtime(provider=ScriptedProvider([]), sources=[speak], meta_tools=[Taken()])
