"""Every door in front of every provider, over real sockets, read back with the official SDKs: docs/wires.md is the table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.doors.serving import gateway
from tests.doors.wire_clients import PICTURE, client_of
from toolcaddie import FunctionSource, tool
from toolcaddie.core.usage import Usage
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.gemini import Gemini
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.testing import (
    AnthropicWire,
    GeminiWire,
    Reply,
    ResponsesWire,
    ScriptedUpstream,
    call,
    calls,
    refuse,
    say,
)
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio

DOORS = ("chat", "responses", "messages")
PROVIDERS: dict[str, tuple[Callable[[], Any], Callable[[str], Any]]] = {
    "chat": (lambda: None, lambda url: OpenAIChat(url, "test-key")),
    "responses": (ResponsesWire, lambda url: OpenAIResponses(url, "test-key")),
    "messages": (AnthropicWire, lambda url: Anthropic(url, "test-key")),
    "gemini": (GeminiWire, lambda url: Gemini(url, "test-key")),
}
CELLS = [pytest.param(door, provider, id=f"{door}-{provider}") for door in DOORS for provider in PROVIDERS]
STREAMS = [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
NAMES = ("freeze_membership", "send_invoice", "book_class", "close_account")
ERRORS = (openai.APIStatusError, anthropic.APIStatusError)


@asynccontextmanager
async def cell(
    folder: Path, door: str, provider: str, script: Sequence[Any], sources: Sequence[Any] = ()
) -> AsyncIterator[tuple[Any, ScriptedUpstream]]:
    """A client of a door, and the scripted upstream of a provider behind it."""
    make_wire, make_provider = PROVIDERS[provider]
    wire = make_wire()
    options = {} if wire is None else {"wire": wire}
    async with (
        ScriptedUpstream(script, **options) as upstream,
        gateway(folder, make_provider(upstream.base_url), sources=sources) as served,
        client_of(door, served.base_url) as client,
    ):
        yield client, upstream
        assert not upstream.refusals


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("door", "provider"), CELLS)
async def test_text_and_usage(tmp_path: Path, door: str, provider: str, stream: bool) -> None:
    reply = replace(say("Good morning."), usage=Usage(input_tokens=120, output_tokens=30))
    async with cell(tmp_path, door, provider, [reply, reply]) as (client, _):
        alone = await client.ask(client.user("hello"), (), stream=stream)
        with_tools = await client.ask(client.user("hello"), NAMES, stream=stream)
    for answer in (alone, with_tools):
        assert (answer.text, answer.usage) == ("Good morning.", (120, 30))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("door", "provider"), CELLS)
async def test_one_call_and_its_result(tmp_path: Path, door: str, provider: str, stream: bool) -> None:
    script = [call("freeze_membership", {"member": "John"}, text="One moment."), say("Frozen.")]
    async with cell(tmp_path, door, provider, script) as (client, upstream):
        history = client.user("freeze John")
        first = await client.ask(history, NAMES, stream=stream)
        (made,) = first.calls
        assert (first.text, made.name, made.arguments) == ("One moment.", "freeze_membership", {"member": "John"})
        history += [*first.items, *client.result(made, "done")]
        second = await client.ask(history, NAMES, stream=stream)
    assert second.text == "Frozen."
    assert "done" in upstream.requests[1].raw.decode()


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("door", "provider"), CELLS)
async def test_four_parallel_calls(tmp_path: Path, door: str, provider: str, stream: bool) -> None:
    script = [calls(*((name, {"member": f"M{number}"}) for number, name in enumerate(NAMES))), say("All four.")]
    async with cell(tmp_path, door, provider, script) as (client, upstream):
        history = client.user("do all four for everybody")
        first = await client.ask(history, NAMES, stream=stream)
        assert [(made.name, made.arguments) for made in first.calls] == [
            (name, {"member": f"M{number}"}) for number, name in enumerate(NAMES)
        ]
        history += [*first.items, *(item for made in first.calls for item in client.result(made, f"did {made.name}"))]
        second = await client.ask(history, NAMES, stream=stream)
    assert second.text == "All four."
    assert all(f"did {name}" in upstream.requests[1].raw.decode() for name in NAMES)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("door", "provider"), CELLS)
async def test_thinking_is_kept_over_rounds(tmp_path: Path, door: str, provider: str, stream: bool) -> None:
    """The scripted servers of Responses, Messages and Gemini refuse reasoning that does not come back as it was signed, and calls
    whose reasoning is missing."""
    first = Reply(calls=call("freeze_membership", {"member": "John"}).calls, reasoning="John is on holiday.")
    second = Reply(calls=call("send_invoice", {"member": "John"}).calls, reasoning="Now the invoice.")
    async with cell(tmp_path, door, provider, [first, second, say("Done.")]) as (client, upstream):
        history = client.user("freeze John and send his invoice")
        shown = []
        for _ in range(2):
            answer = await client.ask(history, NAMES, stream=stream)
            shown.append(answer.thinking)
            history += [*answer.items, *client.result(answer.calls[0], "done")]
        assert (await client.ask(history, NAMES, stream=stream)).text == "Done."
    if door == provider != "chat":
        assert shown == ["John is on holiday.", "Now the invoice."]
    if provider == "responses":
        kinds = [item.get("type") for item in upstream.bodies[2]["input"]]
        assert kinds.count("reasoning") == 2
    if provider == "messages":
        blocks = [block["type"] for message in upstream.bodies[2]["messages"] for block in message["content"]]
        assert blocks.count("thinking") == 2


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("door", "provider"), CELLS)
async def test_the_servers_own_tools_run_inside(tmp_path: Path, door: str, provider: str, stream: bool) -> None:
    @tool
    def find_member(member: str) -> str:
        """Find a member."""
        return f"{member} has the number 4711"

    inner = Reply(calls=call("find_member", {"member": "John"}).calls, reasoning="First the number.", text="I look.")
    outer = Reply(calls=call("freeze_membership", {"member": "4711"}).calls, reasoning="Now freeze.", text="I freeze.")
    sources = [FunctionSource("members", [find_member])]
    async with cell(tmp_path, door, provider, [inner, outer, say("Done.")], sources) as (client, upstream):
        history = client.user("freeze John")
        answer = await client.ask(history, NAMES, stream=stream)
        (made,) = answer.calls
        assert (made.name, answer.text) == ("freeze_membership", "I look.\n\nI freeze.")
        history += [*answer.items, *client.result(made, "frozen")]
        assert (await client.ask(history, NAMES, stream=stream)).text == "Done."
    last = upstream.requests[2].raw.decode()
    assert "John has the number 4711" in last
    assert last.count("I freeze.") == 1


@pytest.mark.parametrize(("door", "provider"), CELLS)
async def test_a_picture_reaches_the_model(tmp_path: Path, door: str, provider: str) -> None:
    async with cell(tmp_path, door, provider, [say("A dot.")]) as (client, upstream):
        answer = await client.ask(client.user("what is this?", picture=True), NAMES)
    assert answer.text == "A dot."
    assert PICTURE in upstream.requests[0].raw.decode()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("door", ["responses", "messages"])
async def test_a_picture_in_a_tools_result(tmp_path: Path, door: str, provider: str) -> None:
    """Chat completions accept only text in a result: a line says that there was a picture."""
    async with cell(tmp_path, door, provider, [call("book_class", {"member": "J"}), say("A dot.")]) as (
        client,
        upstream,
    ):
        history = client.user("book it")
        first = await client.ask(history, NAMES)
        history += [*first.items, *client.result(first.calls[0], "here", picture=True)]
        assert (await client.ask(history, NAMES)).text == "A dot."
    sent = upstream.requests[1].raw.decode()
    assert (PICTURE in sent) == (provider != "chat")
    if provider == "chat":
        assert "[image/png" in sent


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("door", "provider"), CELLS)
async def test_an_error_of_the_upstream(tmp_path: Path, door: str, provider: str, stream: bool) -> None:
    async with cell(tmp_path, door, provider, [refuse(429, "slow down"), refuse(400, "no such thing")]) as (client, _):
        for status, text in ((429, "slow down"), (400, "no such thing")):
            with pytest.raises(ERRORS, match=text) as caught:
                await client.ask(client.user("hello"), NAMES, stream=stream)
            assert caught.value.status_code == status
