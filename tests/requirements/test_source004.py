"""Source 004, everything loaded for each request: demands that were proved too weakly."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import weakref
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.requirements.scenes import Recorder, function, tool_texts, user_messages, work
from toolcaddie import PRESETS, Runtime, tool
from toolcaddie.core.catalog import View
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import LimitExceededError, ProviderUnavailableError
from toolcaddie.core.events import CallFinished
from toolcaddie.core.run import RunContext, RunRequest, RunState
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.testing import ScriptedProvider, calls, say

pytestmark = pytest.mark.anyio


def execute(name: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "execute_tool", {"tool_name": name, "arguments": arguments}


def results(request: Any) -> int:
    return sum(message.role == "tool" for message in request.messages)


# ---------------------------------------------------------------- a context of its own


@pytest.mark.proves("R004-1")
async def test_two_requests_under_way_have_ids_settings_and_variables_of_their_own() -> None:
    """They meet inside their tools, so that each context is looked at while the other one lives."""
    both, contexts = asyncio.Barrier(2), dict[str, RunContext]()

    @tool
    async def look(context: RunContext) -> str:
        """Look at what belongs to this request."""
        contexts[context.principal.id] = context
        context.variables["mine"] = context.principal.id
        await both.wait()
        return f"{context.principal.id} sees {context.variables}"

    def script(request: Any) -> Any:
        return say(request.messages[-1].content) if results(request) else calls(execute("look"))

    provider = ScriptedProvider(script)
    runtime = Runtime(provider=provider, sources=[look, function("secret", roles=["boss"])], preset="compact")
    ann, bob = await asyncio.gather(
        runtime.run("go", principal=Principal(id="ann", role="boss"), model="large", params={"temperature": 0}),
        runtime.run("go", principal=Principal(id="bob"), model="small", injected={"_chatId": "7"}),
    )
    assert (ann.text, bob.text) == ("ann sees {'mine': 'ann'}", "bob sees {'mine': 'bob'}")
    one, other = contexts["ann"], contexts["bob"]
    assert {one.run_id, other.run_id} == {ann.run_id, bob.run_id}
    assert one.run_id != other.run_id
    assert (one.model, dict(one.params), dict(one.injected)) == ("large", {"temperature": 0}, {})
    assert (other.model, dict(other.params), dict(other.injected)) == ("small", {}, {"_chatId": "7"})
    assert (one.view.get("secret") is not None, other.view.get("secret") is not None) == (True, False)
    with pytest.raises(AttributeError, match="immutable"):
        one.model = "another"  # type: ignore[misc]


# ---------------------------------------------------------------- gone at the end


class Held:
    """Something a tool puts into its request's variables."""


KINDS = (RunContext, RunState, View)


def living() -> dict[str, int]:
    gc.collect()
    types = [type(value) for value in gc.get_objects() if isinstance(value, KINDS)]
    return {kind.__name__: types.count(kind) for kind in KINDS}


def fail_at_the_limit(request: Any) -> Any:
    return calls(execute("keep"), *[execute("work_1")] * 40, *[execute("work_2")] * 40)


def break_off(request: Any) -> Any:
    if results(request):
        raise ProviderUnavailableError("the model is gone")
    return calls(execute("keep"))


def answer(request: Any) -> Any:
    return say("done") if results(request) else calls(execute("keep"))


@pytest.mark.proves("R004-7")
@pytest.mark.parametrize(
    ("script", "error"),
    [(answer, None), (fail_at_the_limit, LimitExceededError), (break_off, ProviderUnavailableError)],
)
async def test_at_its_end_nothing_of_a_request_is_left_also_when_it_failed(
    script: Callable[[Any], Any], error: type[Exception] | None
) -> None:
    references: list[weakref.ref[Held]] = []

    @tool
    def keep(context: RunContext) -> str:
        """Keep something until the end of the request."""
        thing = Held()
        context.variables["thing"] = thing
        references.append(weakref.ref(thing))
        return "kept"

    provider = ScriptedProvider(script)
    runtime = Runtime(provider=provider, sources=[keep, work(work=54)], preset="compact")
    await _ended(runtime, provider, error)  # what is made once and kept, such as the view of everybody, is there now
    before = living()
    for _ in range(5):
        await _ended(runtime, provider, error)
    assert len(references) == 6
    assert [reference() for reference in references] == [None] * 6
    assert living() == before


async def _ended(runtime: Runtime, provider: ScriptedProvider, error: type[Exception] | None) -> None:
    with contextlib.nullcontext() if error is None else pytest.raises(error):
        await runtime.run("go")
    provider.requests.clear()


@pytest.mark.proves("R004-7")
async def test_a_request_that_is_cancelled_leaves_nothing_behind_either() -> None:
    started, references = asyncio.Event(), list[weakref.ref[Held]]()

    @tool
    async def hang(context: RunContext) -> str:
        """Never ends."""
        thing = context.variables["thing"] = Held()
        references.append(weakref.ref(thing))
        del thing
        started.set()
        await asyncio.Event().wait()
        return ""

    provider = ScriptedProvider(lambda request: calls(execute("hang")))
    runtime = Runtime(provider=provider, sources=[hang], preset="compact")
    before = living()
    task = asyncio.create_task(runtime.run("go"))
    await started.wait()
    assert living()["RunContext"] > before["RunContext"]
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    del task
    provider.requests.clear()
    after = living()
    assert references[0]() is None
    assert (after["RunContext"], after["RunState"]) == (before["RunContext"], before["RunState"])


# ---------------------------------------------------------------- neither lazy nor by session


@pytest.mark.proves("R004-10", "A-20")
@pytest.mark.parametrize("number", [0, 77, 144])
async def test_the_first_call_of_the_first_request_may_be_any_tool(number: int) -> None:
    """Nothing has to be listed, searched or loaded before."""
    seen: list[int] = []

    @tool
    def count(context: RunContext) -> str:
        """Count the tools there are."""
        seen.append(len(context.view))
        return "counted"

    provider = ScriptedProvider([calls(execute("count"), execute(f"work_{number}", text="x")), say("done")])
    runtime = Runtime(provider=provider, sources=[count, work(work=145)], preset="compact")
    await runtime.run("go")
    assert seen == [146]
    assert tool_texts(provider.requests[1]) == ["counted", f"work_{number} ran with 'x'"]


@pytest.mark.proves("R004-10", "A-20")
async def test_turns_of_one_conversation_share_no_tools_counters_or_variables() -> None:
    """A session would still have the tool that went, lack the one that came, and go on counting."""
    seen: list[Any] = []

    @tool
    def remember(context: RunContext) -> str:
        """Remember that this ran."""
        seen.append(context.variables.setdefault("ran", len(seen)))
        return "yes"

    def script(request: Any) -> Any:
        if results(request) < 40:
            return calls(*[execute("remember")] * 40)
        if results(request) == 40:
            return calls(execute("work_0"), execute("newcomer"), ("list_tools", {}))
        return say("done")

    source, recorder = work(work=3), Recorder()
    provider = ScriptedProvider(script)
    runtime = Runtime(provider=provider, sources=[remember, source], preset="compact", sinks=[recorder])
    request = RunRequest(messages=tuple(user_messages("go")), conversation="one and the same")
    first = await runtime.run(request)
    source.remove("work_0")
    source.add(function("newcomer"))
    second = await runtime.run(request)
    gone, came, listed = tool_texts(provider.requests[-1])[-3:]
    assert "no tool 'work_0'" in gone
    assert came.startswith("newcomer ran")
    assert msgspec.json.decode(listed)["total"] == 4
    assert (first.state.calls, second.state.calls) == (41, 41)
    assert seen == [0] * 40 + [40] * 40
    numbers = [event.number for event in recorder.of(CallFinished)]
    assert numbers == [*range(1, 42), *range(1, 42)]


@pytest.mark.proves("R004-9", "A-20")
async def test_145_tools_answer_to_the_end_although_hours_pass_between_two_calls_of_one() -> None:
    """The old design held 100 tools and looked every 10 calls for some that were idle for 300 seconds."""
    now = [1_000_000.0]

    def script(request: Any) -> Any:
        done = results(request)
        now[0] += 400.0
        return calls(*(execute(f"work_{n}") for n in range(145))) if done < 290 else say("done")

    provider, recorder = ScriptedProvider(script), Recorder()
    base = PRESETS["compact"]
    unlimited = dataclasses.replace(base, limits=dataclasses.replace(base.limits, calls=None))
    source = FunctionSource("work", [function(f"work_{n}") for n in range(145)])
    runtime = Runtime(provider=provider, sources=[source], preset=unlimited, sinks=[recorder], clock=lambda: now[0])
    await runtime.run("all of them, twice")
    finished = recorder.of(CallFinished)
    assert [event.call.name for event in finished] == [f"work_{n}" for n in range(145)] * 2
    assert not any(event.result.is_error for event in finished)
