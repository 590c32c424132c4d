"""Points on which the five source systems contradict themselves or each other, and what was decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.doors.commandline import CommandLine
from tests.requirements.scenes import (
    Recorder,
    catalog_names,
    function,
    names,
    names_categories,
    tool_texts,
    user_messages,
    work,
)
from toolcaddie import PRESETS, Bot, Runtime, tool
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Category, Mask, View
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.errors import DuplicateToolError, LimitExceededError, ToolcaddieError, ToolNotCalledError
from toolcaddie.core.events import CallFinished
from toolcaddie.core.message import Message
from toolcaddie.core.meta_names import META_TOOLS, REQUEST_MORE_TOOLS
from toolcaddie.core.run import RunContext, RunRequest
from toolcaddie.core.selection import Selection
from toolcaddie.samples import gym
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.telemetry import StructlogSink
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

SOURCES = ("budget", "keyword", "multibot", "forced", "compact")
COMPACT = ["execute_tool", "get_tool_schema", "list_tools", "respond", "search_tools"]
CORE = 8
LONG_LIST = (
    "clients salary attendance revenue trainers staff facilities diets plans offers leads referrals documents goals "
    "photos notes classes appointments guests products campaigns equipment engagement gamification loyalty wearables "
    "surveys"
)


def gym_runtime(preset: Any, script: Any = (), **options: Any) -> Runtime:
    return Runtime(provider=ScriptedProvider(script), sources=[gym.source()], preset=preset, **options)


def selected(preset: Any, *texts: str) -> Selection:
    return gym_runtime(preset).select(RunRequest(messages=user_messages(*texts)))


async def sent_names(preset: Any, text: str, source: Any = None, **options: Any) -> list[str]:
    """The tools of the first model request."""
    provider = ScriptedProvider(lambda request: say("hi"))
    await Runtime(provider=provider, sources=[source or gym.source()], preset=preset, **options).run(text)
    return names(provider.requests[0])


# ---------------------------------------------------------------- inside one source


@pytest.mark.proves("X-1")
@pytest.mark.parametrize(("count", "without"), [(2, 0), (4, 0), (5, 1), (8, 4), (10, 6)])
async def test_a_least_quota_of_two_starves_late_categories_and_the_log_names_them(count: int, without: int) -> None:
    categories = [f"c{number}" for number in range(count)]
    source = work(**dict.fromkeys(categories, 10))
    with capture_logs() as logs:
        selection = await sent_names("budget", " ".join(categories), source, sinks=[StructlogSink()])
    served = sorted({name.split("_")[0] for name in selection if name != REQUEST_MORE_TOOLS})
    assert served == categories[: count - without]
    assert len(selection) == 1 + 8
    (line,) = [line for line in logs if line["event"] == "tools_selected"]
    assert line["starved"] == categories[count - without :]


@pytest.mark.proves("X-1")
@pytest.mark.parametrize("count", [2, 5, 8])
async def test_policy_fair_leaves_no_category_out_while_there_are_as_many_places(count: int) -> None:
    base, categories = PRESETS["budget"], [f"c{number}" for number in range(count)]
    assert (base.budget.policy, PRESETS["default"].budget.policy) == ("proportional", "fair")
    fair = replace(base, budget=replace(base.budget, policy="fair"))
    names_of_fair = await sent_names(fair, " ".join(categories), work(**dict.fromkeys(categories, 10)))
    assert {name.split("_")[0] for name in names_of_fair if name != REQUEST_MORE_TOOLS} == set(categories)
    assert len(names_of_fair) == 1 + 8


@pytest.mark.proves("X-3")
def test_related_categories_come_along_to_the_end_unless_one_step_is_set(
    toolcaddie: CommandLine, tmp_path: Path
) -> None:
    command = ("select", "book appointment for client", "--catalog", "gym", "--preset", "keyword")
    assert len(toolcaddie.json(*command)["tools"]) == 43
    (tmp_path / "toolcaddie.toml").write_text("[selection]\nrelated_depth = 1\n")
    assert len(toolcaddie.json(*command)["tools"]) == 38


@pytest.mark.proves("X-5")
def test_the_sources_message_wants_131_and_every_first_keyword_137_and_both_are_cut_with_a_warning() -> None:
    every = ", ".join(category.keywords[0] for category in gym_runtime("keyword").source.snapshot().categories)
    for message, count in ((LONG_LIST, 131), (every, 137)):
        with capture_logs() as logs:
            selection = selected("keyword", message)
        assert len(selection.names) == 128
        (warning,) = [line for line in logs if line["log_level"] == "warning"]
        assert (warning["catalog"], warning["wanted"], warning["selected"], warning["cap"]) == (137, count, 128, 128)


@pytest.mark.proves("X-6")
def test_what_is_cut_are_the_last_tools_of_the_catalog() -> None:
    """That it is so in every process is proved in test_source001.py."""
    order = [tool.name for tool in gym_runtime("keyword").source.snapshot()]
    selection = selected("keyword", LONG_LIST)
    assert list(selection.names) == sorted(selection.names, key=order.index)
    assert min(order.index(drop.name) for drop in selection.dropped if drop.stage == "provider_cap") > max(
        map(order.index, selection.names)
    )


@pytest.mark.proves("X-15")
async def test_the_tools_of_a_category_stand_in_the_order_of_the_catalog_and_not_of_an_alphabet() -> None:
    made = ["create_project", "list_projects", "get_project", "add_task", "update_task"]
    for order in (made, made[::-1]):
        tools = [function(name, category="projects") for name in order]
        source = FunctionSource("work", [*tools, function("other", category="others")])
        assert (await sent_names("budget", "projects", source))[1:] == order


# ---------------------------------------------------------------- limits, and their ends


def executes(preset: str, name: str, **arguments: Any) -> Any:
    """A call of a tool in the words of a preset."""
    wrapped = {"tool_name": name, "arguments": arguments}
    return call("execute_tool", wrapped) if preset == "compact" else call(name, arguments)


def restless(preset: str, last: Any) -> Callable[[Any], Any]:
    """A model that calls one tool after another as long as it is given any."""

    def script(request: Any) -> Any:
        done = sum(message.role == "tool" for message in request.messages)
        return executes(preset, "work_0", text=str(done)) if request.tools else last

    return script


@pytest.mark.proves("X-16", "X-17")
@pytest.mark.parametrize(("preset", "rounds"), [("budget", 5), ("keyword", 10), ("multibot", 5), ("default", 5)])
async def test_a_limit_of_rounds_ends_in_a_round_of_words_and_these_in_the_fallback_message_if_empty(
    preset: str, rounds: int
) -> None:
    for last, text in ((say("So far I came."), "So far I came."), (say(""), "could not finish")):
        provider = ScriptedProvider(restless(preset, last))
        result = await Runtime(provider=provider, sources=[work(work=40)], preset=preset).run("work")
        assert [bool(request.tools) for request in provider.requests[:rounds]] == [True] * rounds
        assert len(provider.requests) == rounds + 1
        assert (result.status, result.state.rounds, result.state.calls) == ("completed", rounds, rounds)
        assert text in result.text


@pytest.mark.proves("X-16", "X-17")
async def test_the_last_round_is_told_that_no_tool_can_be_called_and_to_answer_with_what_it_has() -> None:
    provider = ScriptedProvider(restless("multibot", say("So far.")))
    result = await Runtime(provider=provider, sources=[work(work=2)], preset="multibot").run("work")
    note = provider.requests[-1].messages[-1]
    assert (note.role, note.text) == (
        "system",
        "No more tools can be called. Answer now with what you have found out so far.",
    )
    assert all(message.role != "system" for request in provider.requests[:-1] for message in request.messages)
    assert note.text not in [message.text for message in result.state.messages]


@pytest.mark.proves("X-16", "X-17")
async def test_75_calls_are_the_limit_of_compact_and_the_request_fails_there() -> None:
    recorder = Recorder()
    runtime = Runtime(
        provider=ScriptedProvider(restless("compact", say(""))),
        sources=[work(work=54)],
        preset="compact",
        sinks=[recorder],
    )
    with pytest.raises(LimitExceededError) as failure:
        await runtime.run("work")
    assert failure.value.limit == "calls"
    assert len(recorder.of(CallFinished)) == 75


@pytest.mark.proves("X-16", "X-17")
async def test_three_attempts_without_a_tool_are_the_limit_of_forced_and_lead_to_fallback_error_or_return() -> None:
    async def ended(policy: Any = "retry", **options: Any) -> tuple[Any, ScriptedProvider]:
        provider = ScriptedProvider(lambda request: say("I just know."))
        preset = replace(PRESETS["forced"], on_not_called=policy)
        runtime = Runtime(provider=provider, sources=[work(work=2)], preset=preset, **options)
        return await runtime.run("work"), provider

    returned, provider = await ended()
    assert (returned.text, len(provider.requests)) == ("I just know.", 3)
    with capture_logs() as logs:
        assert (await ended("warn"))[0].text == "I just know."
    assert "answered_without_tool" in [line["event"] for line in logs]
    with pytest.raises(ToolNotCalledError, match="3 attempts"):
        await ended("error")


# ---------------------------------------------------------------- who picks, and what is seen


@pytest.mark.proves("X-18")
@pytest.mark.parametrize(
    ("preset", "rounds", "matched"),
    [
        ("budget", 1, ("salary",)),
        ("keyword", 0, ("clients",)),
        ("multibot", 0, ()),
        ("forced", 0, ()),
        ("compact", 0, ()),
    ],
)
async def test_categories_are_picked_by_a_model_by_keywords_or_by_nobody(
    preset: str, rounds: int, matched: tuple[str, ...]
) -> None:
    times = 0

    async def classify(messages: Sequence[Message], view: View) -> Sequence[str]:
        nonlocal times
        times += 1
        return ["salary"]

    provider = ScriptedProvider(lambda request: say("hi"))
    runtime = Runtime(provider=provider, sources=[gym.source()], preset=preset, classifier=classify)
    result = await runtime.run("show me all clients")
    assert times == rounds
    assert result.selection is not None
    assert result.selection.matched == matched


@pytest.mark.proves("X-18")
async def test_in_compact_the_model_itself_searches() -> None:
    search = call("search_tools", {"query": "freeze membership"})
    provider = ScriptedProvider([search, call("respond", {"message": "found"})])
    await Runtime(provider=provider, sources=[gym.source()], preset="compact").run("show me all clients")
    assert "freeze_membership" in tool_texts(provider.requests[1])[0]


@pytest.mark.proves("X-19")
async def test_hello_gives_no_tools_the_defaults_all_of_them_or_the_meta_tools() -> None:
    hello = "hello, how are you?"
    assert await sent_names("budget", hello, classifier=names_categories()) == [], (
        "the first stage says that none is needed"
    )
    assert len(await sent_names("keyword", hello)) == 44
    for preset in ("multibot", "forced"):
        tools = await sent_names(preset, hello, work(notes=30, web=30))
        assert tools == [f"{name}_{number}" for name in ("notes", "web") for number in range(30)]
    assert sorted(await sent_names("compact", hello)) == COMPACT
    forced = ScriptedProvider(lambda request: say("Hi!"))
    await Runtime(provider=forced, sources=[work(notes=3)], preset="forced").run(hello)
    assert len(forced.requests) == 3, "a greeting is forced like everything else"


@pytest.mark.proves("X-20")
async def test_so_many_tools_are_shown() -> None:
    async def sizes(preset: str, source: Any = None) -> list[int]:
        rows = ("show me all clients", "what is pending salary?", "book appointment for client", "show me dashboard")
        return [len(await sent_names(preset, row, source)) for row in rows]

    assert (await sizes("budget"))[:3] == [9, 7, 9], "salary has six"
    keyword = await sizes("keyword")
    assert max(keyword) <= 128
    assert 30 <= sum(keyword) / len(keyword) <= 50
    for preset in ("multibot", "forced"):
        assert await sizes(preset, work(notes=60, web=60)) == [120] * 4
    assert await sizes("compact") == [5] * 4


@pytest.mark.proves("X-23")
async def test_what_is_always_there_is_one_meta_tool_eight_core_tools_or_five_meta_tools() -> None:
    core = [tool.name for tool in gym_runtime("keyword").source.snapshot() if tool.core]
    for message in ("show me all clients", "book appointment for client", LONG_LIST):
        budget = await sent_names("budget", message)
        assert budget[0] == REQUEST_MORE_TOOLS
        assert len(budget) == 1 + 8, "outside the budget"
        keyword = await sent_names("keyword", message)
        assert keyword[:CORE] == core
        assert len(keyword) <= 128, "inside the 128"
        assert sorted(await sent_names("compact", message)) == COMPACT
    for preset in ("multibot", "forced"):
        assert await sent_names(preset, "hello", work(notes=3)) == ["notes_0", "notes_1", "notes_2"]


# ---------------------------------------------------------------- names and lifetimes


@pytest.mark.proves("X-22")
def test_a_name_is_one_tool_so_that_equal_names_and_equal_objects_are_the_same() -> None:
    with pytest.raises(DuplicateToolError, match=r"'search'.*one.*two"):
        Runtime(
            provider=ScriptedProvider([]),
            sources=[FunctionSource("one", [function("search")]), FunctionSource("two", [function("search")])],
        )


@pytest.mark.proves("X-22")
@pytest.mark.parametrize("name", sorted(META_TOOLS))
def test_names_of_meta_tools_are_reserved(name: str) -> None:
    with pytest.raises(ToolcaddieError, match=name):
        Runtime(provider=ScriptedProvider([]), sources=[function(name)])


@pytest.mark.proves("X-22")
async def test_a_tool_stands_once_among_those_sent_however_often_it_was_found() -> None:
    """Through two relations, named twice, loaded again, called by its name."""
    related = [
        Category(name="a", keywords=("a",), related=("shared",)),
        Category(name="b", keywords=("b",), related=("shared",)),
        Category(name="shared"),
    ]
    made = [function(f"{name}_{number}", category=name) for name in ("a", "b", "shared") for number in range(3)]
    source = FunctionSource("work", made, categories=related)
    assert sorted(await sent_names("keyword", "a and b and a", source)) == sorted(tool.__name__ for tool in made)
    again = call(REQUEST_MORE_TOOLS, {"categories": ["web", "web", "notes"]})
    provider = ScriptedProvider([again, again, say("done")])
    await Runtime(provider=provider, sources=[work(notes=9, web=2)], preset="budget").run("notes")
    assert catalog_names(provider.requests[2]) == [*(f"notes_{n}" for n in range(8)), "web_0", "web_1"]
    compact = ScriptedProvider([executes("compact", "web_1", text="x"), call("respond", {"message": "done"})])
    result = await Runtime(provider=compact, sources=[work(notes=9, web=2)], preset="compact").run("go")
    assert result.tool_calls == ("web_1",)


@pytest.mark.proves("X-24")
async def test_what_a_request_loaded_is_gone_with_it_in_budget() -> None:
    load = call(REQUEST_MORE_TOOLS, {"categories": ["web"]})
    provider = ScriptedProvider([load, say("done"), say("done")])
    runtime = Runtime(provider=provider, sources=[work(notes=9, web=2)], preset="budget")
    await runtime.run("notes")
    await runtime.run("notes")
    first, grown, second = map(names, provider.requests)
    assert grown == [*first, "web_0", "web_1"]
    assert second == first


@pytest.mark.proves("X-24")
@pytest.mark.parametrize("preset", SOURCES)
async def test_a_tool_that_comes_is_there_from_the_next_request_on_and_one_that_goes_is_refused_at_once(
    preset: str,
) -> None:
    """A request works on the tools of its beginning; what was taken back does not run. Both hold for all bots at once."""
    source = work(work=3)

    def script(request: Any) -> Any:
        if any(message.role == "tool" for message in request.messages):
            return say("done")
        source.add(function("newcomer", category="work"))
        source.remove("work_1")
        steps = [("newcomer", {}), ("work_1", {}), ("work_2", {})]
        if preset != "compact":
            return calls(*steps)
        return calls(*(("execute_tool", {"tool_name": name, "arguments": {}}) for name, _ in steps))

    recorder = Recorder()
    provider = ScriptedProvider(script)
    runtime = Runtime(provider=provider, sources=[source], preset=preset, sinks=[recorder])
    await runtime.run("work", principal=Principal(bot="one"))
    unknown, *_ = tool_texts(provider.requests[1])
    assert "no tool 'newcomer'" in unknown
    outcomes = {event.call.name: event.result.error for event in recorder.of(CallFinished)}
    assert {name: error or "ran" for name, error in outcomes.items()} == {"work_1": "revoked", "work_2": "ran"}
    assert names(provider.requests[1]) == names(provider.requests[0])
    for bot in ("one", "two"):
        view = runtime.view(RunRequest(messages=user_messages("work"), principal=Principal(bot=bot)))
        assert [tool.name for tool in view] == ["work_0", "work_2", "newcomer"]


@pytest.mark.proves("X-24")
async def test_an_agent_has_its_own_tools() -> None:
    first, second = work(notes=2), work(web=2)
    assert await sent_names("forced", "hello", first) == ["notes_0", "notes_1"]
    assert await sent_names("forced", "hello", second) == ["web_0", "web_1"]


# ---------------------------------------------------------------- what may run, and the checks before it


class Rules:
    """Denies `denied`, asks before `asked`, and allows all others."""

    version = "1"

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        if request.tool.name == "denied":
            return Decision(verdict="deny", reason="it is closed", rule="closed")
        if request.tool.name == "asked":
            return Decision(verdict="ask", reason="it costs money", rule="money")
        return Decision(verdict="allow")


def calls_in(preset: str, *steps: tuple[str, dict[str, Any]]) -> Any:
    """Calls of tools in one answer, in the words of a preset."""
    if preset != "compact":
        return calls(*steps)
    return calls(*(("execute_tool", {"tool_name": name, "arguments": arguments}) for name, arguments in steps))


@pytest.mark.proves("X-25")
@pytest.mark.parametrize("preset", [*SOURCES, "default"])
async def test_every_tool_of_the_bot_may_run_sent_or_not_and_no_other(preset: str) -> None:
    provider = ScriptedProvider([calls_in(preset, ("notes_0", {}), ("notes_1", {}), ("nowhere", {})), say("done")])
    recorder = Recorder()
    runtime = Runtime(
        provider=provider,
        sources=[work(web=200, notes=60)],
        preset=preset,
        sinks=[recorder],
        bots={"clerk": Bot(disabled_tools=("notes_1",))},
    )
    await runtime.run("web", principal=Principal(bot="clerk"))
    assert "notes_0" not in names(provider.requests[0])
    ran, hidden, unknown = tool_texts(provider.requests[1])
    assert ran.startswith("notes_0 ran")
    assert hidden.startswith("There is no tool 'notes_1'.")
    assert unknown.startswith("There is no tool 'nowhere'.")
    assert [event.call.name for event in recorder.of(CallFinished)] == ["notes_0"]


@pytest.mark.proves("X-27")
@pytest.mark.parametrize("preset", [*SOURCES, "default"])
async def test_every_preset_checks_a_call_in_the_same_way(preset: str) -> None:
    effects: list[str] = []

    @tool(category="work")
    def denied(number: int) -> None:
        """Never runs."""
        effects.append("denied")

    @tool(category="work")
    def asked(number: int) -> str:
        """Runs after a person said yes."""
        effects.append("asked")
        return "ran"

    @tool(category="work")
    def checked(number: int) -> None:
        """Takes a number."""
        effects.append("checked")

    wrong = calls_in(preset, ("denied", {"number": 1}), ("checked", {"number": "many"}))
    provider = ScriptedProvider([wrong, calls_in(preset, ("asked", {"number": 1})), say("done")])
    runtime = Runtime(provider=provider, sources=[denied, asked, checked], preset=preset, policy=Rules())
    paused = await runtime.run("work")
    refusal, invalid = tool_texts(provider.requests[1])
    assert "it is closed" in refusal
    assert "number" in invalid
    assert (paused.status, effects) == ("pending", [])
    (question,) = await runtime.approvals.list("default", status="open")
    result = await runtime.resume(paused.run_id, approvals={question.call_id: True})
    assert (result.text, effects) == ("done", ["asked"])


@pytest.mark.proves("X-27")
@pytest.mark.parametrize("preset", [*SOURCES, "default"])
async def test_every_preset_takes_a_limit_of_calls(preset: str) -> None:
    base = PRESETS[preset]
    limited = replace(base, limits=replace(base.limits, calls=2))
    provider = ScriptedProvider([calls_in(preset, *[("notes_0", {})] * 3), say("done")])
    with pytest.raises(LimitExceededError) as exceeded:
        await Runtime(provider=provider, sources=[work(notes=2)], preset=limited).run("notes")
    assert exceeded.value.limit == "calls"


# ---------------------------------------------------------------- the order of execution


@pytest.mark.proves("X-26")
async def test_budget_runs_the_calls_of_a_turn_together_and_answers_in_their_order() -> None:
    both, second_done = asyncio.Barrier(2), asyncio.Event()
    ended: list[str] = []

    @tool(category="notes", timeout=5)
    async def first() -> str:
        """Ends last."""
        await both.wait()
        await second_done.wait()
        ended.append("first")
        return "one"

    @tool(category="notes", timeout=5)
    async def second() -> str:
        """Ends first."""
        await both.wait()
        ended.append("second")
        second_done.set()
        return "two"

    provider = ScriptedProvider([calls(("first", {}), ("second", {})), say("done")])
    await Runtime(provider=provider, sources=[first, second], preset="budget").run("notes")
    assert ended == ["second", "first"]
    assert tool_texts(provider.requests[1]) == ["one", "two"]


@pytest.mark.proves("X-26")
@pytest.mark.parametrize("preset", ["keyword", "multibot", "compact"])
async def test_the_others_run_them_one_by_one_with_a_turn_for_each(preset: str) -> None:
    running, order = 0, list[tuple[str, int]]()

    @tool(category="step")
    async def step(number: int, context: RunContext) -> str:
        """One step; the first ones take the longest."""
        nonlocal running
        running += 1
        for _ in range(5 - number):
            await asyncio.sleep(0)
        order.append((str(number), running))
        running -= 1
        return str(number)

    steps = [("step", {"number": number}) for number in range(4)]
    if preset == "compact":
        steps = [("execute_tool", {"tool_name": "step", "arguments": arguments}) for _, arguments in steps]
    recorder = Recorder()
    provider = ScriptedProvider([calls(*steps), say("done")])
    await Runtime(provider=provider, sources=[step], preset=preset, sinks=[recorder]).run("step")
    assert order == [("0", 1), ("1", 1), ("2", 1), ("3", 1)]
    assert tool_texts(provider.requests[1]) == ["0", "1", "2", "3"]
    made = recorder.of(CallFinished)
    assert [event.number for event in made] == [1, 2, 3, 4]
    assert [msgspec.json.decode(event.call.arguments)["number"] for event in made] == [0, 1, 2, 3]
