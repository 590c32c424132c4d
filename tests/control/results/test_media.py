"""A tool that returns a picture and data: what the model sees of it on every wire, what is stored, cut, kept and recorded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from toolcaddie import Limits, Message, Runtime, Tool, ToolCall, ToolResult, tool
from toolcaddie.audit.trail import Trail
from toolcaddie.control.results.cache import Cache
from toolcaddie.control.results.result_check import ResultCheck
from toolcaddie.control.results.truncate import truncated
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.content import Audio, Image, Resource, Text
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.events import CallFinished
from toolcaddie.core.presets import preset
from toolcaddie.ports import Invocation
from toolcaddie.registry import Registry
from toolcaddie.sources.functions.results import to_result
from toolcaddie.storage.cache import MemoryCache
from toolcaddie.storage.database import Database
from toolcaddie.testing import (
    CHAT,
    AnthropicWire,
    GeminiWire,
    ResponsesWire,
    ScriptedProvider,
    ScriptedUpstream,
    call,
    say,
)
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio

DOT = b"\x89PNG dot" * 400
PICTURE = Image.from_bytes(DOT, "image/png")
DATA = PICTURE.data
SOUND = Audio.from_bytes(b"beep", "audio/wav")
RESULT = ToolResult(content=(Text(text="a chart"), PICTURE, SOUND), structured={"rows": 2})


@tool(read_only=True)
async def chart() -> ToolResult:
    """Draw a chart."""
    return RESULT


@pytest.mark.parametrize(
    ("name", "wire", "model", "expected"),
    [
        ("openai", lambda: CHAT, "gpt-5-mini", "a chart\n[image/png, 3 kB]\n[audio/wav, 4 bytes]"),
        (
            "openai-responses",
            ResponsesWire,
            "gpt-5-mini",
            [
                {"type": "input_text", "text": "a chart"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{DATA}", "detail": "auto"},
                {"type": "input_text", "text": "[audio/wav, 4 bytes]"},
            ],
        ),
        (
            "anthropic",
            AnthropicWire,
            "claude-sonnet-5",
            [
                {"type": "text", "text": "a chart"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
                {"type": "text", "text": "[audio/wav, 4 bytes]"},
            ],
        ),
        (
            "gemini",
            GeminiWire,
            "gemini-3-flash",
            {
                "response": {"output": "a chart"},
                "parts": [
                    {"inlineData": {"mimeType": "image/png", "data": DATA}},
                    {"inlineData": {"mimeType": "audio/wav", "data": SOUND.data}},
                ],
            },
        ),
    ],
)
async def test_a_result_with_a_picture_reaches_the_model_as_its_wire_can_say_it(
    name: str, wire: Callable[[], Any], model: str, expected: Any
) -> None:
    async with ScriptedUpstream([call("chart"), say("Two bars.")], wire=wire()) as upstream:
        provider = Registry().factory("provider", name)(base_url=upstream.base_url, api_key="test-key", model=model)
        async with Runtime(provider=provider, sources=[chart]) as runtime:
            result = await runtime.run("draw it", model=model)
    assert result.text == "Two bars."
    assert _result_in(upstream.bodies[1]) == expected


def _result_in(body: dict[str, Any]) -> Any:
    if "contents" in body:
        answer = body["contents"][-1]["parts"][0]["functionResponse"]
        return {name: answer[name] for name in ("response", "parts")}
    if "input" in body:
        return body["input"][-1]["output"]
    last = body["messages"][-1]
    return last["content"] if last["role"] == "tool" else last["content"][0]["content"]


class AsksAlways:
    version = "1"

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        return Decision(verdict="ask", rule="asks")


async def test_a_conversation_with_pictures_is_paused_and_carried_on() -> None:
    provider = ScriptedProvider([call("chart", call_id="c1"), say("done")])
    async with Runtime(provider=provider, sources=[chart], policy=AsksAlways()) as runtime:
        waiting = await runtime.run(messages=[Message(role="user", content=(Text(text="like this"), PICTURE))])
        assert waiting.status == "pending"
        result = await runtime.resume(waiting.run_id, approvals={"c1": True})
    assert result.text == "done"
    messages = provider.requests[1].messages
    assert (messages[-3].content, messages[-1].content) == ((Text(text="like this"), PICTURE), RESULT.content)


def test_text_is_cut_and_media_beyond_its_own_limit_is_named() -> None:
    long = replace(RESULT, content=(*RESULT.content, Text(text="x" * 5_000)))
    cut = truncated(long, 1_000, media_bytes=5_000)
    assert isinstance(cut.content, tuple)
    (
        first,
        picture,
        sound,
    ) = cut.content
    assert isinstance(first, Text)
    assert first.text.startswith("a chart\nxxx")
    assert "the whole result has 5008 bytes" in first.text
    assert (len(first.text), picture, sound, cut.structured) == (1_000, PICTURE, SOUND, None)
    small = truncated(RESULT, 1_000, media_bytes=500)
    assert small.content == (
        Text(text="a chart"),
        SOUND,
        Text(text="[left out: [image/png, 3 kB]; the media of a result may have 500 bytes]"),
    )
    assert small.structured == {"rows": 2}


def test_a_cut_reads_on_by_its_handle_and_many_blocks_are_counted() -> None:
    cut = truncated(replace(RESULT, content=(Text(text="y" * 3_000), PICTURE)), 1_000, media_bytes=0, handle="h1")
    assert cut.held == "h1"
    assert "handle 'h1', offset" in cut.text
    assert "[left out: [image/png, 3 kB]; " in cut.text
    many = truncated(ToolResult(content=(PICTURE,) * 5_000), 1_000, media_bytes=0)
    assert "and 4,990 more" in many.text
    assert len(many.text) < 1_000


@pytest.mark.parametrize("limit", [5_000_000, 100])
async def test_a_runs_limits_hold_for_media(limit: int) -> None:
    base = preset("default")
    limits = replace(base.limits, result_media_bytes=limit)
    provider = ScriptedProvider([call("chart"), say("done")])
    async with Runtime(provider=provider, sources=[chart], preset=replace(base, limits=limits)) as runtime:
        await runtime.run("draw")
    content = provider.requests[1].messages[-1].content
    assert (PICTURE in content) is (limit > 100)
    assert Limits().result_media_bytes == 4_000_000


async def test_an_equal_call_gets_the_same_picture_from_the_cache(invocation: Callable[..., Invocation]) -> None:
    ran = 0

    async def draw(_: Invocation) -> ToolResult:
        nonlocal ran
        ran += 1
        return RESULT

    cache, once = Cache(MemoryCache()), invocation(tool=Tool(name="chart", cache_ttl=60.0))
    assert (await cache(once, draw)).content == RESULT.content
    again = await cache(once, draw)
    assert (again.content, again.structured, again.cached, ran) == (RESULT.content, {"rows": 2}, True, 1)


async def test_media_counts_where_a_result_is_checked(invocation: Callable[..., Invocation]) -> None:
    async def draw(_: Invocation) -> ToolResult:
        return RESULT

    assert (await ResultCheck()(invocation(), draw)).success
    refused = await ResultCheck(max_bytes=4_000)(invocation(), draw)
    assert "bytes, and results have at most 4,000" in refused.text


async def test_the_trail_has_the_digest_of_a_picture_and_not_the_picture(file_url: str) -> None:
    event = CallFinished(
        run_id="r", call=ToolCall(id="c1", name="chart"), result=RESULT, source="local", seconds=0.1, number=1
    )
    async with Database(file_url) as database:
        await Trail(database.events).emit(event)
        [row] = await database.events.events("r")
    data = row.data
    assert data["content"] == "a chart\n[image/png, 3 kB]\n[audio/wav, 4 bytes]"
    assert data["bytes"] == len("a chart") + len(DOT) + len(b"beep")
    assert data["media"][0] == {
        "type": "image",
        "mime_type": "image/png",
        "bytes": len(DOT),
        "sha256": hashlib.sha256(DOT).hexdigest(),
    }
    assert DATA not in json.dumps(data)


def test_a_function_may_return_blocks_and_lists_of_them() -> None:
    assert to_result(PICTURE).content == (PICTURE,)
    assert to_result([Text(text="a"), PICTURE]).content == (Text(text="a"), PICTURE)
    assert to_result(["a", PICTURE, {"b": 1}]).content == (Text(text="a"), PICTURE, Text(text='{"b":1}'))
    assert to_result(ToolResult(content=[PICTURE], structured={"a": 1})).structured == {"a": 1}  # type: ignore[arg-type]
    assert to_result(["a", "b"]).text == '["a","b"]'
    assert to_result(Resource(uri="file:///a", text="words")).text == "words"


async def test_a_direct_call_gives_the_blocks() -> None:
    async with Runtime(provider=ScriptedProvider([]), sources=[chart]) as runtime:
        assert (await runtime.call("chart", {})).content == RESULT.content
