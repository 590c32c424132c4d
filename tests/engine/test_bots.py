"""Bots by name: unknown ones are refused, and names in their settings must exist."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.engine.test_expansion import source
from toolcaddie import Bot
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunRequest
from toolcaddie.core.tool import Tool
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio

BOTS = {"therapist": Bot(disabled_tools=("notes_0",)), "front-desk": Bot()}
ASKED = RunRequest(messages=(Message(role="user", content="notes"),))


def house(*steps: Any, **options: Any) -> Runtime:
    provider = ScriptedProvider([*steps, *([say("hi")] * 4)])
    return Runtime(**{"provider": provider, "sources": [source(notes=3, web=2)], "bots": BOTS, **options})


def names(made: Any) -> list[str]:
    return [shown.name for shown in made]


async def test_a_misspelt_bot_is_refused_by_name_with_the_likely_one_on_every_way_in() -> None:
    runtime, wrong = house(), Principal(bot="terapist")
    ways: list[Any] = [
        lambda: runtime.select("notes", principal=wrong),
        lambda: runtime.preview("notes", principal=wrong),
        lambda: runtime.explain("notes_0", "notes", principal=wrong),
        lambda: runtime.view(RunRequest(messages=(), principal=wrong)),
        lambda: runtime.executor(chat_id="c", bot_id="terapist"),
    ]
    for way in ways:
        with pytest.raises(RequestError, match="there is no bot 'terapist'; did you mean 'therapist'") as refused:
            way()
        assert (refused.value.param, refused.value.code) == ("bot", "unknown_bot")
    for job in (runtime.run("notes", principal=wrong), runtime.call("notes_0", {}, principal=wrong)):
        with pytest.raises(RequestError, match="therapist"):
            await job
    with pytest.raises(RequestError, match="therapist"):
        async for _ in runtime.stream("notes", principal=wrong):
            pass
    assert runtime.provider.requests == []  # type: ignore[attr-defined]


async def test_with_bots_a_request_without_one_is_refused_unless_there_is_a_default() -> None:
    runtime = house()
    with pytest.raises(RequestError, match=r"names no bot.*default_bot"):
        await runtime.run("notes")
    runtime = house(call("notes_0"), default_bot="therapist")
    result = await runtime.run("notes")
    assert result.tool_calls == ()
    assert "notes_0" not in runtime.select("notes").names
    assert "notes_0" in runtime.select("notes", principal=Principal(bot="front-desk")).names


async def test_the_default_bots_tools_with_a_scope_are_its_own() -> None:
    @tool(scope="therapist")
    def listen() -> str:
        """Listen to the notes."""
        return "mm-hm"

    runtime = house(call("listen"), sources=[source(notes=1), listen], default_bot="therapist")
    assert (await runtime.run("notes")).tool_calls == ("listen",)
    assert "listen" not in names(runtime.view(RunRequest(messages=(), principal=Principal(bot="front-desk"))))


async def test_without_any_bots_a_principal_may_name_any() -> None:
    runtime = house(bots=None)
    assert (await runtime.run("notes", principal=Principal(bot="whoever"))).text == "hi"


async def test_an_executor_holds_its_bots_limits_for_every_principal() -> None:
    execute = house().executor(chat_id="c", bot_id="therapist", principal=Principal(id="ann"))
    assert (await execute("notes_0", {})).error == "unknown_tool"
    assert (await execute("notes_1", {})).success
    with pytest.raises(RequestError, match="front-desk"):
        house().executor(chat_id="c", bot_id="therapist", principal=Principal(bot="front-desk"))


async def test_a_run_paused_by_a_bot_that_no_longer_exists_is_not_resumed() -> None:
    mine = Tool(name="open_door", source="client")
    documents = MemoryStore()
    runtime = house(call("open_door"), default_bot="front-desk", documents=documents)
    waiting = await runtime.run("notes", client_tools=(mine,))
    other = Runtime(
        provider=ScriptedProvider([say("x")]),
        sources=[source(notes=3)],
        bots={"therapist": Bot()},
        documents=documents,
    )
    with pytest.raises(RequestError, match="there is no bot 'front-desk'"):
        await other.resume(waiting.run_id, results={waiting.client_calls[0].id: "open"})


# --- names in the settings of bots ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"bots": {"b": Bot(disabled_tools=("note_0",))}},
            r"bots\.b\.disabled_tools: there is no tool 'note_0'; .*notes_0",
        ),
        ({"bots": {"b": Bot(categories=("nots",))}}, r"bots\.b\.categories: there is no category 'nots'; .*'notes'"),
        ({"bots": {"b": Bot(disabled_tools=("request_more_tools",))}}, "there is no tool 'request_more_tools'"),
        ({"default_bot": "terapist"}, "default_bot: there is no bot 'terapist'; did you mean 'therapist'"),
        ({"bots": None, "default_bot": "b"}, "default_bot: there is no bot 'b'"),
    ],
)
def test_an_unknown_name_is_an_error_at_start(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        house(**options)


def test_one_error_lists_all_wrong_names() -> None:
    bots = {"a": Bot(disabled_tools=("x1", "notes_0")), "b": Bot(categories=("y2",))}
    with pytest.raises(ConfigError) as refused:
        house(bots=bots)
    assert "x1" in str(refused.value)
    assert "y2" in str(refused.value)
    assert "notes_0" not in str(refused.value)


def test_reserved_names_may_be_disabled_before_their_group_exists() -> None:
    """Some names of the multibot example belong to groups that its settings switch off."""
    off = ("exec", "file_write", "file_edit", "phone_call", "improve", "process", "cron")
    assert house(bots={"therapist": Bot(disabled_tools=off)}, default_bot="therapist").select("notes").names


def test_without_a_catalog_names_are_not_checked() -> None:
    Runtime(provider=ScriptedProvider([]), bots={"b": Bot(disabled_tools=("shell",), categories=("any",))})


async def test_a_callers_own_tool_may_be_disabled_in_a_gateway_without_a_catalog() -> None:
    shell = Tool(name="shell", source="client")
    runtime = Runtime(provider=ScriptedProvider([]), bots={"b": Bot(disabled_tools=("shell",))}, default_bot="b")
    assert names(runtime.view(RunRequest(messages=(), client_tools=(shell, Tool(name="ls", source="client"))))) == [
        "ls"
    ]


async def test_a_tool_that_is_removed_later_causes_one_warning_and_requests_go_on() -> None:
    changing = FunctionSource("changing", [_named("one"), _named("two")])
    runtime = house(sources=[changing], bots={"b": Bot(disabled_tools=("one",))}, default_bot="b")
    with capture_logs() as lines:
        assert (await runtime.run("go")).text == "hi"
        changing.remove("one")
        assert (await runtime.run("go")).text == "hi"
        assert (await runtime.run("go")).text == "hi"
    warned = [line for line in lines if line["event"] == "setting_names_nothing"]
    assert [line["problem"] for line in warned] == ["bots.b.disabled_tools: there is no tool 'one'"]


async def test_a_request_that_disables_an_unknown_tool_is_refused() -> None:
    runtime = house(default_bot="front-desk")
    with pytest.raises(RequestError, match="disabled_tools: there is no tool 'note_1'; did you mean 'notes_1'") as no:
        await runtime.run(ASKED, disabled_tools=("note_1",))
    assert no.value.param == "disabled_tools"
    mine = Tool(name="mine", source="client")
    assert (await runtime.run(ASKED, client_tools=(mine,), disabled_tools=("mine", "notes_1", "exec"))).text == "hi"
    assert (await runtime.run(ASKED, use_catalog=False, disabled_tools=("notes_1",))).text == "hi"


def _named(name: str) -> Any:
    def run() -> str:
        return name

    run.__name__ = name
    run.__doc__ = f"Runs {name}."
    return tool(run)
