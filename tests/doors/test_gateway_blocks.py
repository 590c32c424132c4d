"""Blocks that only one API has reach a client of that API unchanged, whole and streamed, and what else its door alone offers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.doors.serving import gateway
from tests.doors.wire_clients import client_of
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.providers.openai_responses import OpenAIResponses
from toolcaddie.testing import ScriptedUpstream

pytestmark = pytest.mark.anyio

NAMES = ("freeze_membership", "send_invoice")
BLOCKS: list[dict[str, Any]] = [
    {"type": "redacted_thinking", "data": "c2VjcmV0"},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "John"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [], "caller": {"type": "direct"}},
    {"type": "text", "text": "John is away.", "citations": [{"type": "char_location", "cited_text": "away"}]},
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "freeze_membership",
        "input": {"member": "John"},
        "caller": {"type": "direct"},
    },
]
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA", "status": "completed"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "John"}},
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "freeze_membership",
        "arguments": '{"member":"John"}',
        "status": "completed",
        "namespace": "members",
    },
]


@contextlib.asynccontextmanager
async def upstream(answers: Sequence[Any]) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A server that gives these answers in order, each a JSON body or a list of events; gives its address and the requests."""
    requests: list[dict[str, Any]] = []
    left = iter(answers)

    async def answer(request: web.Request) -> web.Response:
        requests.append({**json.loads(await request.read()), "path": request.path, "headers": dict(request.headers)})
        content = next(left)
        if isinstance(content, dict):
            return web.json_response(content)
        events = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in content)
        return web.Response(text=events, content_type="text/event-stream")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", requests
    finally:
        await runner.cleanup()


def message(blocks: Sequence[Any], stop: str = "tool_use") -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5, "service_tier": "standard"}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
    return {**head, "content": list(blocks), "stop_reason": stop, "stop_sequence": None, "usage": usage}


def message_events(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**message([]), "stop_reason": None}}]
    for index, block in enumerate(blocks):
        start, deltas = dict(block), []
        if block["type"] == "text":
            start |= {"text": "", "citations": []}
            deltas = [{"type": "text_delta", "text": block["text"]}]
            deltas += [{"type": "citations_delta", "citation": each} for each in block["citations"]]
        if block["type"] in ("tool_use", "server_tool_use"):
            start["input"] = {}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}
    return [*events, end, {"type": "message_stop"}]


def response(items: Sequence[Any]) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt",
        "status": "completed",
        "output": list(items),
        "usage": usage,
    }


def response_events(items: Sequence[Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**response([]), "status": "in_progress"}}]
    for index, item in enumerate(items):
        events.append(
            {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress"}}
        )
        if item["type"] == "web_search_call":
            events.append({"type": "response.web_search_call.searching", "output_index": index, "item_id": item["id"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return [*events, {"type": "response.completed", "response": response(items)}]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_blocks_of_messages_come_and_go_unchanged(tmp_path: Path, stream: bool) -> None:
    done: Any = [{"type": "text", "text": "Done.", "citations": []}]
    answers = [message_events(BLOCKS), message_events(done)] if stream else [message(BLOCKS), message(done, "end_turn")]
    async with (
        upstream(answers) as (address, requests),
        gateway(tmp_path, Anthropic(address, "test-key")) as served,
        client_of("messages", served.base_url) as client,
    ):
        history = client.user("freeze John")
        first = await client.ask(history, NAMES, stream=stream)
        assert first.items[0]["content"] == BLOCKS
        history += [*first.items, *client.result(first.calls[0], "done")]
        assert (await client.ask(history, NAMES, stream=stream)).text == "Done."
    assert requests[1]["messages"][1]["content"] == BLOCKS


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_items_of_responses_come_and_go_unchanged(tmp_path: Path, stream: bool) -> None:
    part = {"type": "output_text", "text": "Done.", "annotations": []}
    done: Any = [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}]
    answers = [response_events(ITEMS), response_events(done)] if stream else [response(ITEMS), response(done)]
    async with (
        upstream(answers) as (address, requests),
        gateway(tmp_path, OpenAIResponses(f"{address}/v1", "test-key")) as served,
        client_of("responses", served.base_url) as client,
    ):
        history = client.user("freeze John")
        first = await client.ask(history, NAMES, stream=stream)
        assert list(first.items) == ITEMS
        history += [*first.items, *client.result(first.calls[0], "done")]
        assert (await client.ask(history, NAMES, stream=stream)).text == "Done."
    sent = requests[1]["input"][1:4]
    for item, original in zip(sent, ITEMS, strict=True):
        assert item == {name: value for name, value in original.items() if name in item}
        assert original.keys() - item.keys() <= {"id"}


@pytest.mark.parametrize("tools", [(), NAMES], ids=["passed on", "run"])
@pytest.mark.parametrize("door", ["chat", "responses", "messages"])
async def test_a_whole_answer_to_a_request_for_a_stream_becomes_a_stream(
    tmp_path: Path, door: str, tools: Sequence[str]
) -> None:
    part = {"type": "output_text", "text": "Hello.", "annotations": []}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    bodies = {
        "chat": {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        },
        "responses": response(
            [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}]
        ),
        "messages": message([{"type": "text", "text": "Hello."}], "end_turn"),
    }
    providers: dict[str, Any] = {"chat": OpenAIChat, "responses": OpenAIResponses, "messages": Anthropic}
    async with upstream([bodies[door]]) as (address, _):
        base = address if door == "messages" else f"{address}/v1"
        async with (
            gateway(tmp_path, providers[door](base, "test-key")) as served,
            client_of(door, served.base_url) as client,
        ):
            answer = await client.ask(client.user("hello"), tools, stream=True)
    assert (answer.text, answer.usage) == ("Hello.", (10, 5))


async def test_tokens_are_counted_with_the_tools_that_are_sent(tmp_path: Path) -> None:
    names = [f"tool_number_{number}" for number in range(200)]
    async with (
        upstream([{"input_tokens": 4711}]) as (address, requests),
        gateway(tmp_path, Anthropic(address, "test-key")) as served,
        client_of("messages", served.base_url) as client,
    ):
        history, tools = client.user("call tool number 77"), client.tools(names)
        counted = await client.sdk.messages.count_tokens(
            model="m", messages=history, tools=tools, extra_headers={"anthropic-beta": "some-beta"}
        )
    assert counted.input_tokens == 4711
    assert requests[0]["path"] == "/v1/messages/count_tokens"
    assert "some-beta" in requests[0]["headers"]["anthropic-beta"]
    sent = [each["name"] for each in requests[0]["tools"]]
    assert "tool_number_77" in sent
    assert len(sent) < 60


async def test_tokens_are_estimated_in_front_of_another_api(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as scripted,
        gateway(tmp_path, scripted.base_url) as served,
        client_of("messages", served.base_url) as client,
    ):
        count = client.sdk.messages.count_tokens
        few = await count(model="m", messages=client.user("hello"))
        more = await count(model="m", messages=client.user("hello"), tools=client.tools(NAMES))
    assert 0 < few.input_tokens < more.input_tokens < 1000
