"""A tool with `ends_run` ends the run with an answer, a question or a refusal; no other tool can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from toolcaddie import Finish, FunctionSource, Tool, ToolAnnotations, ToolResult, tool
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.events import TextDelta
from toolcaddie.core.presets import preset
from toolcaddie.core.run import RunState
from toolcaddie.runtime import Runtime
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

REFUSAL = ("decline", {"reason": "I may not."})


class Host:
    """Tools of which some end the run, and a record of what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def source(self) -> FunctionSource:
        @tool(ends_run=True, read_only=True)
        def decline(reason: str) -> ToolResult:
            """Say that the task cannot be done."""
            return ToolResult(content=f"refused: {reason}", effect=Finish(text=reason, ending="refusal"))

        @tool(ends_run=True)
        async def ask_user(question: str) -> Finish:
            """Ask the user a question."""
            return Finish(text=question, ending="question")

        @tool(ends_run=True)
        def answer_user(message: str) -> Finish | str:
            """Give the final answer."""
            return Finish(text=message) if message else "write a message"

        @tool
        def sneaky(text: str) -> ToolResult:
            """Try to end the run."""
            return ToolResult(content="it goes on", effect=Finish(text=text))

        @tool
        def blunt(text: str) -> Finish:
            """Try to end the run without any care."""
            return Finish(text=text)

        @tool(ends_run=True)
        def wrong(text: str) -> Finish:
            """End the run in a way that does not exist."""
            return Finish(text=text, ending="shrug")  # type: ignore[arg-type]

        @tool(ends_run=True)
        def failing(text: str) -> ToolResult:
            """Fail, and end the run all the same."""
            return ToolResult(content="it broke", is_error=True, effect=Finish(text=text))

        @tool(destructive=True)
        def restart(unit: str) -> str:
            """Restart a unit."""
            self.done.append(unit)
            return f"restarted {unit}"

        each = (decline, ask_user, answer_user, sneaky, blunt, wrong, failing, restart)
        return FunctionSource("host", each)


def runtime(host: Host, *script: Any, **options: Any) -> Runtime:
    return Runtime(provider=ScriptedProvider(list(script)), sources=[host.source()], **options)


@pytest.mark.parametrize(
    ("name", "argument", "ending"),
    [
        ("answer_user", "message", "answer"),
        ("ask_user", "question", "question"),
        ("decline", "reason", "refusal"),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True], ids=["direct", "execute_tool"])
async def test_a_tool_ends_the_run_with_its_text(name: str, argument: str, ending: str, wrapped: bool) -> None:
    arguments = {argument: "Which one?"}
    step = call("execute_tool", {"tool_name": name, "arguments": arguments}) if wrapped else call(name, arguments)
    async with runtime(Host(), step, preset="compact" if wrapped else "default") as made:
        result = await made.run("go")
    assert (result.status, result.text, result.ending) == ("completed", "Which one?", ending)
    assert result.tool_calls == (name,)
    assert result.messages[-1].role == "assistant"
    assert result.state.idle_rounds == 0


async def test_respond_ends_with_an_answer_and_words_of_the_model_have_no_ending() -> None:
    async with runtime(Host(), call("respond", {"message": "Done."}), preset="compact") as made:
        assert (await made.run("go")).ending == "answer"
    async with runtime(Host(), say("Done.")) as made:
        assert (await made.run("go")).ending == ""


async def test_the_calls_beside_it_are_made_and_their_results_counted_first() -> None:
    host = Host()
    step = calls(REFUSAL, ("restart", {"unit": "nginx"}))
    async with runtime(host, step, policy=AllowAll()) as made:
        result = await made.run("go")
    assert (result.text, result.ending, host.done) == ("I may not.", "refusal", ["nginx"])
    assert [message.text for message in result.messages[1:]] == ["refused: I may not.", "restarted nginx", "I may not."]


async def test_of_two_endings_in_one_answer_the_first_counts() -> None:
    step = calls(("ask_user", {"question": "Which?"}), REFUSAL)
    async with runtime(Host(), step) as made:
        result = await made.run("go")
    assert (result.text, result.ending) == ("Which?", "question")


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("sneaky", "it goes on"),
        ("blunt", "only a tool marked @tool(ends_run=True)"),
        ("wrong", "needs a text and an ending that exists"),
        ("failing", "it broke"),
    ],
)
async def test_no_other_result_ends_a_run(name: str, reads: str) -> None:
    async with runtime(Host(), call(name, {"text": "over"}), say("on I go")) as made:
        result = await made.run("go")
    assert (result.text, result.ending) == ("on I go", "")
    assert reads in next(message.text for message in result.messages if message.role == "tool")


async def test_a_source_whose_tool_does_not_say_so_cannot_end_a_run() -> None:
    """A server of tools from elsewhere has a source whose tools never have `ends_run`."""

    class Remote(FunctionSource):
        async def call_tool(self, *args: Any) -> ToolResult:
            return ToolResult(content="from far away", effect=Finish(text="obey"))

        def tools(self) -> tuple[Tool, ...]:
            return (Tool(name="fetch", source="remote", annotations=ToolAnnotations(read_only=True)),)

    provider = ScriptedProvider([call("fetch"), say("on I go")])
    async with Runtime(provider=provider, sources=[Remote("remote")]) as made:
        assert (await made.run("go")).text == "on I go"


async def test_a_tool_that_may_end_the_run_need_not() -> None:
    async with runtime(Host(), call("answer_user", {"message": ""}), say("well")) as made:
        result = await made.run("go")
    assert (result.text, result.ending) == ("well", "")


async def test_a_direct_call_gives_the_text_alone() -> None:
    async with runtime(Host()) as made:
        result = await made.call("ask_user", {"question": "Which?"})
    assert (result.text, result.is_error) == ("Which?", False)


async def test_a_question_ends_a_run_that_was_paused_beside_it() -> None:
    host, store = Host(), MemoryStore()
    step = calls(("ask_user", {"question": "Which?"}), ("restart", {"unit": "nginx"}), ids=("q", "r"))
    async with runtime(host, step, documents=store) as first:
        paused = await first.run("go")
    assert (paused.status, paused.ending) == ("pending", "")
    async with runtime(host, documents=store) as second:
        result = await second.resume(paused.run_id, approvals={"r": True})
    assert (result.status, result.text, result.ending, host.done) == ("completed", "Which?", "question", ["nginx"])


async def test_a_run_stored_by_an_earlier_version_has_no_ending() -> None:
    stored = msgspec.to_builtins(RunState(run_id="run_1", text="Done."))
    del stored["ending"]
    assert msgspec.convert(stored, RunState).ending == ""


async def test_a_streamed_ending_says_what_it_is() -> None:
    async with runtime(Host(), call(*REFUSAL)) as made:
        events = [event async for event in made.stream("go")]
    pieces = [event for event in events if isinstance(event, TextDelta) and event.text]
    assert [(piece.text, piece.ending) for piece in pieces] == [("I may not.", "refusal")]


async def test_a_refusal_has_no_value_of_the_output_type() -> None:
    class Order(BaseModel):
        number: int

    async with runtime(Host(), call(*REFUSAL), output=Order) as made:
        result = await made.run("go")
    assert (result.text, result.ending, result.output) == ("I may not.", "refusal", None)


async def test_a_program_ends_the_run_and_makes_no_call_after_that() -> None:
    host = Host()
    code = "await decline(reason='I may not.')\nawait restart(unit='nginx')"
    always = replace(preset("default"), programs="always")
    options: dict[str, Any] = {"preset": always, "programs": "monty", "policy": AllowAll()}
    async with runtime(host, call("run_program", {"code": code}), **options) as made:
        result = await made.run("go")
    assert (result.text, result.ending, host.done) == ("I may not.", "refusal", [])
