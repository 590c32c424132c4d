"""Runs that another run or a job began: they have no more tools, calls, tokens or time than it has left, and its taint."""

from __future__ import annotations

import pytest

from toolcaddie.control.bots import Bot, ModeTools
from toolcaddie.core.bots import BEGINS_RUNS, Inherited
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, LimitExceededError, RequestError
from toolcaddie.core.run import RunContext, RunRequest
from toolcaddie.core.tool import Spent, ToolResult
from toolcaddie.core.usage import Usage
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

SEEN: list[RunContext] = []


@tool(destructive=False)
def look(context: RunContext) -> str:
    """Look around."""
    SEEN.append(context)
    return "seen"


@tool(destructive=False)
def touch() -> str:
    """Touch something."""
    return "touched"


@tool(destructive=False, tags=(BEGINS_RUNS,))
def hand_on(tokens: int) -> ToolResult:
    """Hand a task on to somebody else, who uses tokens and calls.

    Args:
        tokens: The tokens that it takes.
    """
    return ToolResult(content="done", spent=Spent(usage=Usage(input_tokens=tokens), calls=3, taint=("page",)))


def runtime(*script: object, **more: object) -> Runtime:
    SEEN.clear()
    return Runtime(provider=ScriptedProvider(list(script)), sources=[look, touch, hand_on], preset="multibot", **more)


async def test_only_inherited_tools_exist_for_the_run() -> None:
    asked = runtime(call("touch"), say("done"))
    result = await asked.run("go", inherited=Inherited(tools=("look",)))
    assert [item["function"]["name"] for item in asked.provider.requests[0].tools] == ["look"]
    assert (result.tool_calls, "touch" in result.messages[1].text) == ((), True)


async def test_a_run_that_inherits_no_tools_is_offered_none_and_no_meta_tool() -> None:
    SEEN.clear()
    asked = Runtime(provider=ScriptedProvider([say("done")]), sources=[look, touch])
    await asked.run("go", inherited=Inherited(tools=()))
    assert asked.provider.requests[0].tools == ()


async def test_the_smaller_limit_of_preset_and_inheritance_counts() -> None:
    with pytest.raises(LimitExceededError, match="more than 1 tool calls"):
        await runtime(call("look"), call("look")).run("go", inherited=Inherited(calls=1))
    with pytest.raises(LimitExceededError, match="110 of its 100 tokens"):
        await runtime(call("look"), say("done")).run("go", inherited=Inherited(tokens=100))
    with pytest.raises(LimitExceededError, match="0 s"):
        await runtime(say("done")).run("go", inherited=Inherited(seconds=0.0))


async def test_a_run_begins_with_the_inherited_taint() -> None:
    result = await runtime(call("look"), say("done")).run("go", inherited=Inherited(taint=("page",)))
    assert (SEEN[0].taint, result.state.taint) == (("page",), ("page",))


async def test_what_a_run_inside_a_call_has_used_counts_for_the_run() -> None:
    script = (calls(("hand_on", {"tokens": 50}), ("look", {})), say("done"))
    result = await runtime(*script).run("go", inherited=Inherited(calls=9, tokens=1_000))
    assert (SEEN[0].calls_left, SEEN[0].tokens_left) == (9 - 2 - 3, 1_000 - 110 - 50)
    assert (result.state.calls, result.usage.input_tokens) == (2 + 3, 2 * 100 + 50)
    assert result.state.taint == ("page",)


async def test_calls_that_begin_runs_are_made_one_after_another_so_that_each_knows_what_is_left() -> None:
    asked = Runtime(
        provider=ScriptedProvider([calls(("hand_on", {"tokens": 50}), ("look", {})), say("done")]),
        sources=[look, hand_on],
        preset="budget",
    )
    SEEN.clear()
    await asked.run(
        "go", categories=["local"], inherited=Inherited(tokens=1_000), essential={"hand_on": "a", "look": "b"}
    )
    assert SEEN[0].tokens_left == 1_000 - 110 - 50


async def test_a_mode_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(RequestError, match="no mode 'autonomus'; did you mean 'autonomous'"):
        await runtime().run("go", mode="autonomus")


@tool(name="exec", destructive=False)
def run_command() -> str:
    """Run a command."""
    return "ran"


@tool(name="memory_search", read_only=True)
def search() -> str:
    """Search memories."""
    return "nothing"


@tool(name="save_memory", destructive=False)
def save() -> str:
    """Save a memory."""
    return "saved"


class Shipped:
    """A source with the names of shipped tools."""

    def __init__(self) -> None:
        names = ("exec", "memory_search", "save_memory")
        self._source = FunctionSource("shipped", [run_command, search, save], claims=names)
        self.claims = frozenset(names)

    def __getattr__(self, name: str) -> object:
        return getattr(self._source, name)


def names_of(bots: dict[str, Bot], mode: str, bot: str = "ada") -> list[str]:
    house = Runtime(provider=ScriptedProvider([]), sources=[Shipped(), touch], bots=bots)
    request = RunRequest(messages=(), principal=Principal(bot=bot), mode=mode)
    return sorted(each.name for each in house.view(request))


@pytest.mark.proves("A-15")
async def test_each_tool_can_be_switched_for_each_bot_and_mode() -> None:
    all_names = ["exec", "memory_search", "save_memory", "touch"]
    assert names_of({"ada": Bot()}, "conversation") == all_names
    assert names_of({"ada": Bot(groups=("memory",))}, "conversation") == ["memory_search", "touch"]
    assert names_of({"ada": Bot(disabled_tools=("touch",))}, "autonomous") == all_names[:3]
    quiet = {"ada": Bot(modes={"autonomous": ModeTools(groups=("memory",), disabled_tools=("touch",))})}
    assert names_of(quiet, "autonomous") == ["memory_search"]
    assert names_of(quiet, "conversation") == all_names
    assert names_of(quiet, "collaboration") == ["exec", "memory_search", "touch"]
    opened = {"ada": Bot(modes={"collaboration": ModeTools(groups=("soul",))})}
    assert names_of(opened, "collaboration") == ["save_memory", "touch"]


async def test_a_group_that_does_not_exist_is_told_at_start() -> None:
    with pytest.raises(
        ConfigError, match=r"bots\.ada\.modes\.autonomous\.groups: there is no group 'memry'; did you mean"
    ):
        names_of({"ada": Bot(modes={"autonomous": ModeTools(groups=("memry",))})}, "autonomous")
