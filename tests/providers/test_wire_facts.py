"""What the table says of a model is what the wire in front of it can say: every provider with every family of models.

The requests go over real sockets to upstreams as strict as the providers.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from toolcaddie import Message, OpenAIChat, RunRequest, Runtime, tool
from toolcaddie.core.capabilities import CAPABILITIES, Capabilities, capabilities_from, capabilities_of
from toolcaddie.core.errors import ProviderUnavailableError
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.tool import ToolCall
from toolcaddie.core.vocabulary import WireName
from toolcaddie.providers.wrapping import Entry, capabilities_for, wire_of
from toolcaddie.registry import Registry
from toolcaddie.runtime.models import provider_names
from toolcaddie.samples import gym
from toolcaddie.testing import CHAT, AnthropicWire, GeminiWire, ResponsesWire, ScriptedProvider, ScriptedUpstream, say
from toolcaddie.wires.chat.content import read_content

pytestmark = pytest.mark.anyio

WIRES = {
    "chat": lambda: CHAT,
    "responses": ResponsesWire,
    "messages": lambda: AnthropicWire(mid_system=True),
    "gemini": GeminiWire,
}
OPEN, LATER = "find_member", "freeze_membership"
UNKNOWN = ("house-model-1", "acme/house-model-1")


def families() -> list[str]:
    """A model for each pattern of the table, with the vendors' names in front as routers write them."""
    patterns = {row.pattern.rpartition(":")[2] for row in CAPABILITIES}
    models = {re.sub(r"\[(.).*?\]", r"\1", pattern).replace("*", "") for pattern in patterns} - {""}
    routed = {f"{vendor}/{model}" for vendor, start in (("anthropic", "claude"), ("openai", "gpt")) for model in models
              if model.startswith(start)}  # fmt: skip
    return sorted({*models, *routed, *UNKNOWN} - {"practice"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a provider was asked about a model, and the body its server saw."""

    model: str
    known: Capabilities
    body: dict[str, Any]

    @property
    def text(self) -> str:
        return json.dumps(self.body)


def definition(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "description": f"{name} by name", "parameters": schema}}


def planned(model: str, known: Capabilities) -> ModelRequest:
    """A request that uses every means the table plans with."""
    search = ToolCall(id="call_1", name=OPEN, arguments="{}")
    by_result = known.deferral == "references"
    messages = (
        Message(role="user", content="freeze John"),
        Message(role="assistant", tool_calls=(search,)),
        Message(role="tool", tool_call_id="call_1", content="7", revealed=(LATER,) if by_result else ()),
        Message(role="system", content="", revealed=() if by_result else (LATER,)),
    )
    return ModelRequest(
        model=model,
        messages=messages,
        tools=(definition(OPEN), definition(LATER)),
        deferred=frozenset({LATER}) if known.deferral else frozenset(),
        allowed=(OPEN,) if known.mask else None,
        cache=True,
        cache_key="conversation-7" if known.cache_key else "",
    )


async def asked(name: str) -> list[Said]:
    provider = Registry().factory("provider", name)(base_url="http://127.0.0.1:1", api_key="test-key", model=None)
    wire = wire_of(provider)
    await provider.close()
    header = {"key_header": "authorization", "key_prefix": "Bearer "} if name == "azure" else {}
    async with ScriptedUpstream(lambda body: say("Done."), wire=WIRES[wire]()) as upstream:
        provider = Registry().factory("provider", name)(
            base_url=upstream.base_url, api_key="test-key", model=None, **header
        )
        try:
            said: dict[Any, Said] = {}
            for model in families():
                known = capabilities_for(Entry(provider=provider, model=model), CAPABILITIES)
                plan = (known.deferral, known.mask, known.cache_key, known.cache.kind, bool(known.forced_params))
                if plan in said or (wire == "gemini" and "/" in model):
                    continue  # models of which the same is planned are asked the same
                await provider.complete(planned(model, known))
                said[plan] = Said(model=model, known=known, body=upstream.bodies[-1])
            assert not upstream.refusals
            return list(said.values())
        finally:
            await provider.close()


def sent_in_array(said: Said, wire: WireName) -> set[str]:
    """The tools a model sees in the array from the start."""
    tools = said.body["tools"]
    if wire == "gemini":
        return {each["name"] for each in tools[0]["functionDeclarations"]}
    if wire == "chat":
        return {each["function"]["name"] for each in tools}
    return {each["name"] for each in tools if not each.get("defer_loading")}


@pytest.mark.parametrize("name", sorted(set(provider_names()) - {"practice"}))
async def test_what_the_table_plans_for_a_model_is_what_its_wire_says(name: str) -> None:
    wire: WireName = {"anthropic": "messages", "gemini": "gemini", "openai-responses": "responses"}.get(name, "chat")  # type: ignore[assignment]
    for said in await asked(name):
        case, known = f"{name}:{said.model}", said.known
        array = sent_in_array(said, wire)
        assert (array == {OPEN}) == bool(known.deferral), case
        assert said.text.count(f'"{LATER}"') >= 1, case
        means = {"messages": ("tool_reference",), "responses": ("additional_tools",)}.get(wire, ())
        assert any(word in said.text for word in means) == bool(known.deferral), case
        masks = ("allowedFunctionNames", '"allowed_tools"')
        assert any(word in said.text for word in masks) == bool(known.mask), case
        assert ("prompt_cache_key" in said.body) == known.cache_key, case
        assert ("cache_control" in said.text) == (known.cache.kind == "breakpoints"), case
        assert '"content": ""' not in said.text, case
        assert not known.forced_params or name in ("openai", "deepseek", "dashscope"), case


def test_what_only_one_api_understands_is_in_no_row_of_all_wires() -> None:
    for row in CAPABILITIES:
        bound = {"mask", "deferral", "cache_key", "forced_params"} & {
            name for name in (row.says or ()) if getattr(row, name)
        }
        marks = "cache" in (row.says or ()) and row.cache.kind == "breakpoints"
        assert not (bound or marks) or ":" in row.pattern or row.wire, row.pattern


@pytest.mark.parametrize(
    ("model", "like"),
    [
        ("openrouter:openai/gpt-5-mini", "openai:gpt-5-mini"),
        ("openrouter:anthropic/claude-sonnet-4.5", "anthropic:claude-sonnet-4-5"),
        ("openrouter:anthropic/claude-3.5-haiku", "anthropic:claude-3-5-haiku"),
        ("openrouter:google/gemini-3.8-flash", "gemini:gemini-3.8-flash"),
        ("openai:openai/gpt-5-mini", "openai:gpt-5-mini"),
        ("gemini:models/gemini-2.5-pro", "gemini:gemini-2.5-pro"),
    ],
)
def test_a_model_behind_its_vendors_name_costs_what_it_costs(model: str, like: str) -> None:
    known, family = capabilities_of(model), capabilities_of(like)
    assert known.prices == family.prices
    assert known.prices is not None
    assert known.cache.kind == "automatic"


def test_the_cache_of_a_family_is_known_behind_a_router_that_keeps_prefixes_too() -> None:
    assert capabilities_of("openrouter:openai/gpt-5-mini").cache == capabilities_of("openai:gpt-5-mini").cache


def test_an_own_server_answers_for_itself_whatever_runs_on_it() -> None:
    for model in ("moonshotai/kimi-k3", "deepseek-chat", "openai/gpt-5", "claude-sonnet-5-5"):
        known = capabilities_of(f"vllm:{model}")
        assert (known.required, known.named, known.forced_with_thinking) == ("honoured", "honoured", True), model
        assert (known.mask, known.deferral, known.cache_key, dict(known.forced_params)) == ("", "", False, {}), model


@pytest.mark.parametrize(("name", "deferral"), [("anthropic", ""), ("corporate", "")])
def test_the_wire_counts_and_not_the_name_somebody_gave_a_provider(name: str, deferral: str) -> None:
    provider = OpenAIChat("http://127.0.0.1:1/v1", "key", name=name)
    known = capabilities_for(Entry(provider=provider, model="claude-sonnet-5-5"), CAPABILITIES)
    assert known.deferral == deferral
    assert known.cache.kind == "automatic"


async def test_a_proxy_that_speaks_messages_under_another_name_keeps_their_means() -> None:
    provider = Registry().factory("provider", "anthropic")(
        base_url="http://127.0.0.1:1", api_key="key", name="corporate", model=None
    )
    known = capabilities_for(Entry(provider=provider, model="claude-sonnet-5-5"), CAPABILITIES)
    assert (known.deferral, known.cache.kind) == ("additions", "breakpoints")


def test_an_operators_row_cannot_plan_what_the_wire_has_no_words_for() -> None:
    mine = capabilities_from({"pattern": "*", "deferral": "additions", "mask": "allowed_function_names"})
    known = capabilities_of("vllm:anything", (mine, *CAPABILITIES))
    assert (known.deferral, known.mask) == ("", "")


def test_an_operators_row_may_be_for_one_wire() -> None:
    mine = capabilities_from({"pattern": "house-*", "wire": "messages", "deferral": "additions"})
    assert capabilities_of("anthropic:house-1", (mine, *CAPABILITIES)).deferral == "additions"
    assert capabilities_of("openai:house-1", (mine, *CAPABILITIES)).deferral == ""


LONG = "word " * 3_000


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "anthropic/claude-opus-5", "nobody-heard-of-it"])
@pytest.mark.parametrize("name", ["openai", "openrouter", "vllm", "anthropic"])
async def test_later_turns_over_chat_completions_say_what_was_planned(name: str, model: str) -> None:
    """Seen before the repair: an empty system message at the end, and tools in the array that the plan had put behind it."""
    async with ScriptedUpstream([say(LONG), say("nobody"), say("so")]) as upstream:
        provider = OpenAIChat(upstream.base_url, "test-key", name=name)
        async with Runtime(provider=provider, model=model, sources=[gym.source()]) as runtime:
            messages: list[Message] = []
            notes = []
            for text in ("freeze John's membership", "which salaries are pending this month?", "print a badge"):
                messages.append(Message(role="user", content=text))
                result = await runtime.run(RunRequest(messages=tuple(messages), conversation="c1"))
                messages += result.messages
                notes.append(result.state.later_by)
    arrays = [json.dumps(body["tools"])[:-1] for body in upstream.bodies]
    for before, after in pairwise(arrays):
        assert after.startswith(before)
    for body in upstream.bodies:
        assert all(message["content"] for message in body["messages"] if message["role"] == "system")
        assert "defer_loading" not in json.dumps(body["tools"])
    assert "reference" not in notes


@pytest.mark.parametrize("content", ["", " \n", None, [{"type": "text", "text": ""}]])
@pytest.mark.parametrize("name", ["openai", "openai-responses", "anthropic", "gemini"])
@pytest.mark.parametrize("place", [0, 2])
async def test_no_wire_sends_a_system_message_without_words(name: str, content: Any, place: int) -> None:
    said = [
        Message(role="user", content="hello"),
        Message(role="assistant", content="Yes?"),
        Message(role="user", content="go"),
    ]
    blank = Message(role="system", content=read_content(content))
    wire = {"openai-responses": ResponsesWire, "anthropic": AnthropicWire, "gemini": GeminiWire}.get(
        name, lambda: CHAT
    )()
    bodies = []
    for messages in (said, [*said[:place], blank, *said[place:]]):
        async with ScriptedUpstream([say("Done.")], wire=wire) as upstream:
            provider = Registry().factory("provider", name)(base_url=upstream.base_url, api_key="test-key", model=None)
            await provider.complete(ModelRequest(model="gpt-test", messages=tuple(messages)))
            await provider.close()
            bodies.append(upstream.bodies[0])
    assert bodies[0] == bodies[1]


async def test_a_fallback_over_another_wire_gets_the_tools_it_can_be_sent() -> None:
    """The first is Anthropic's and its later tools are told behind the conversation; the fallback's array has them openly."""

    @tool
    def unused() -> str:
        """Do nothing."""
        return ""

    def down(_: Any) -> Any:
        return ProviderUnavailableError("overloaded")

    first = ScriptedProvider([say(LONG), *[down] * 9], name="anthropic")
    async with ScriptedUpstream([say("nobody")]) as upstream:
        second = Entry(provider=OpenAIChat(upstream.base_url, "test-key"), model="claude-sonnet-5-5")
        runtime = Runtime(provider=first, model="claude-sonnet-5-5", fallbacks=[second], sources=[gym.source(), unused])
        async with runtime:
            messages = [Message(role="user", content="freeze John's membership")]
            result = await runtime.run(RunRequest(messages=tuple(messages), conversation="c1"))
            messages += [*result.messages, Message(role="user", content="which salaries are pending this month?")]
            await runtime.run(RunRequest(messages=tuple(messages), conversation="c1"))
    (body,) = upstream.bodies
    assert first.requests[1].deferred
    names = {each["function"]["name"] for each in body["tools"]}
    assert first.requests[1].deferred <= names
    assert all(message["content"] for message in body["messages"])
