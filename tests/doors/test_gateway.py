"""The gateway as the official `openai` package and a strict upstream see it. Real sockets on both sides."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import openai
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from serving import gateway

from toolcaddie.core.control import Principal
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.presets import PRESETS
from toolcaddie.samples import gym
from toolcaddie.selection.classifier import ModelClassifier
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, call, calls, cut, endless, garbage, refuse, say

pytestmark = pytest.mark.anyio

SUBJECTS = ["invoice", "parcel", "meeting", "ticket", "recipe", "flight", "playlist", "contract", "camera", "garden"]
VERBS = ["create", "delete", "list", "update", "archive", "export", "share", "print", "tag", "merge"]
PLACES = ["home", "office", "cloud"]


def client_tools(count: int) -> list[dict[str, Any]]:
    """Distinct tools of an application that outgrew its provider: create_invoice_home, ..."""
    made = []
    for place in PLACES:
        for subject in SUBJECTS:
            for verb in VERBS:
                properties = {f"{subject}_id": {"type": "string", "description": f"Which {subject}."}}
                function = {
                    "name": f"{verb}_{subject}_{place}",
                    "description": f"{verb.capitalize()} one {subject} in the {place}.",
                    "parameters": {"type": "object", "properties": properties, "required": [f"{subject}_id"]},
                }
                made.append({"type": "function", "function": function})
    return made[:count]


def offered(body: Any) -> list[str]:
    return [definition["function"]["name"] for definition in body.get("tools", [])]


def said(content: str) -> list[Any]:
    return [{"role": "user", "content": content}]


async def collected(stream: Any) -> dict[str, Any]:
    """A streamed answer put together as a client does, with what must stay the same over it."""
    text, found, ids, finish, usage = "", {}, set(), None, None
    async for chunk in stream:
        ids.add((chunk.id, chunk.created, chunk.model))
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for piece in choice.delta.tool_calls or ():
                one = found.setdefault(piece.index, {"id": piece.id, "name": "", "arguments": ""})
                one["name"] += (piece.function.name or "") if piece.function else ""
                one["arguments"] += (piece.function.arguments or "") if piece.function else ""
    assert len(ids) == 1
    return {"text": text, "calls": [found[index] for index in sorted(found)], "finish": finish, "usage": usage}


@pytest.mark.parametrize("stream", [False, True])
async def test_one_hidden_expansion_brings_a_tool_that_was_left_out_and_the_client_sees_no_meta_tool(
    tmp_path: Path, stream: bool
) -> None:
    tools = client_tools(300)
    hidden = "merge_garden_cloud"
    script = [
        call(REQUEST_MORE_TOOLS, {"query": "merge garden in the cloud"}, text="Let me look."),
        call(hidden, {"garden_id": "9"}),
    ]
    async with ScriptedUpstream(script) as upstream, gateway(tmp_path, upstream.base_url) as served:
        ask = {"model": "gpt-test", "messages": said("print my flight ticket"), "tools": tools, "stream": stream}
        raw = await served.client.chat.completions.create(**ask)
        if stream:
            answer = await collected(raw)
            names = [one["name"] for one in answer["calls"]]
            assert answer["text"] == "Let me look."
        else:
            names = [one.function.name for one in raw.choices[0].message.tool_calls]
        assert names == [hidden]
        first, second = (offered(body) for body in upstream.bodies)
        assert first[0] == REQUEST_MORE_TOOLS
        assert hidden not in first
        assert hidden in second
        assert second[: len(first)] == first


async def test_a_request_without_tools_passes_through_byte_for_byte(tmp_path: Path) -> None:
    body = b'{"model":"gpt-test",  "messages":[{"role":"user","content":"hi \\u00e9"}],"x_unknown":{"b":1,"a":2.50}}'
    async with (
        ScriptedUpstream([say("hello"), say("hello")]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
        aiohttp.ClientSession() as session,
    ):
        headers = {"content-type": "application/json"}
        url = f"{served.base_url}/v1/chat/completions"
        async with session.post(url, data=body, headers=headers) as answer:
            assert answer.status == 200
            assert (await answer.json())["choices"][0]["message"]["content"] == "hello"
        assert upstream.requests[0].raw == body
        streaming = body[:-1] + b',"stream":true}'
        async with session.post(url, data=streaming, headers=headers) as answer:
            assert answer.content_type == "text/event-stream"
            assert (await answer.read()).endswith(b"data: [DONE]\n\n")
        assert upstream.requests[1].raw == streaming


async def test_unknown_fields_of_request_and_answer_go_through_a_run_untouched(tmp_path: Path) -> None:
    reply = say("hello", extra={"reasoning_content": "hmm", "annotations": []})
    async with ScriptedUpstream([reply, reply]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        message = {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "ann", "x_new": 1}
        ask = {
            "model": "gpt-test",
            "messages": [message],
            "tools": client_tools(300),
            "temperature": 0,
            "extra_body": {"x_field": {"deep": [1, 2]}},
        }
        plain = await served.client.chat.completions.create(**ask)
        assert plain.choices[0].message.model_extra["reasoning_content"] == "hmm"
        assert upstream.bodies[0]["messages"] == [message]
        assert upstream.bodies[0]["x_field"] == {"deep": [1, 2]}
        assert upstream.bodies[0]["temperature"] == 0
        chunks = [chunk async for chunk in await served.client.chat.completions.create(**ask, stream=True)]
        assert any((c.choices[0].delta.model_extra or {}).get("reasoning_content") for c in chunks if c.choices)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_small_set_of_tools_goes_through_whole_and_unchanged(tmp_path: Path, stream: bool) -> None:
    tools = client_tools(20)
    async with ScriptedUpstream([say("x")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        answer = await served.client.chat.completions.create(
            model="gpt-test", messages=said("something else"), tools=tools, stream=stream
        )
        if stream:
            await collected(answer)
        assert upstream.bodies[0]["tools"] == tools


@tool(category="stock")
def count_stock(item: str) -> str:
    """How many of an item are in stock."""
    return f"{len(item)} of {item}"


@tool(category="stock")
def reserve_stock(item: str, amount: int = 1) -> str:
    """Reserve an amount of an item."""
    return f"reserved {amount} {item}"


def shop() -> FunctionSource:
    return FunctionSource("shop", [count_stock, reserve_stock])


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_of_our_own_catalog_run_inside_and_usage_is_the_sum(tmp_path: Path, stream: bool) -> None:
    script = [call("count_stock", {"item": "pears"}), say("There are 5.")]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()]) as served,
    ):
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        raw = await served.client.chat.completions.create(model="gpt-test", messages=said("how many pears"), **options)
        if stream:
            answer = await collected(raw)
            assert (answer["text"], answer["calls"], answer["finish"]) == ("There are 5.", [], "stop")
            usage = answer["usage"]
        else:
            choice = raw.choices[0]
            assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == (
                "There are 5.",
                None,
                "stop",
            )
            usage = raw.usage
        assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (200, 20, 220)
        assert upstream.bodies[1]["messages"][-1]["content"] == "5 of pears"


async def test_a_stream_shows_usage_only_to_a_client_that_asked(tmp_path: Path) -> None:
    async with ScriptedUpstream([say("x")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        stream = await served.client.chat.completions.create(
            model="gpt-test", messages=said("hi"), tools=client_tools(300), stream=True
        )
        assert (await collected(stream))["usage"] is None


@pytest.mark.parametrize("stream", [False, True])
async def test_a_mixed_turn_survives_a_restart_and_is_spliced_into_every_later_request(
    tmp_path: Path, stream: bool
) -> None:
    tools = client_tools(2)
    mine = tools[0]["function"]["name"]
    mixed = calls((mine, {"invoice_id": "1"}), ("count_stock", {"item": "figs"}), text="Both then.")
    async with ScriptedUpstream([mixed]) as upstream, gateway(tmp_path, upstream.base_url, sources=[shop()]) as served:
        raw = await served.client.chat.completions.create(
            model="gpt-test", messages=said("count figs and create"), tools=tools, stream=stream
        )
        if stream:
            answer = await collected(raw)
            shown = [(one["id"], one["name"], one["arguments"]) for one in answer["calls"]]
        else:
            shown = [(c.id, c.function.name, c.function.arguments) for c in raw.choices[0].message.tool_calls]
    assert [name for _, name, _ in shown] == [mine]

    assistant = {
        "role": "assistant",
        "content": "Both then.",
        "tool_calls": [
            {"id": shown[0][0], "type": "function", "function": {"name": shown[0][1], "arguments": shown[0][2]}}
        ],
    }
    result = {"role": "tool", "tool_call_id": shown[0][0], "content": "created 1"}
    history = [*said("count figs and create"), assistant, result]
    script = [say("4 figs, and invoice 1."), say("You are welcome.")]
    async with ScriptedUpstream(script) as upstream, gateway(tmp_path, upstream.base_url, sources=[shop()]) as served:
        second = await served.client.chat.completions.create(model="gpt-test", messages=history, tools=tools)
        later = [*history, {"role": "assistant", "content": second.choices[0].message.content}, *said("thanks")]
        await served.client.chat.completions.create(model="gpt-test", messages=later, tools=tools)
        for body in upstream.bodies:
            spliced = body["messages"]
            assert [c["function"]["name"] for c in spliced[1]["tool_calls"]] == [mine, "count_stock"]
            assert [m["content"] for m in spliced[2:4]] == ["created 1", "4 of figs"]
        assert not upstream.refusals


async def test_hidden_work_behind_an_answer_in_words_is_there_again_in_the_next_request(tmp_path: Path) -> None:
    script = [call("count_stock", {"item": "figs"}), say("Four."), say("Still four.")]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()]) as served,
    ):
        first = await served.client.chat.completions.create(model="gpt-test", messages=said("figs?"))
        history = [*said("figs?"), {"role": "assistant", "content": first.choices[0].message.content}, *said("sure?")]
        await served.client.chat.completions.create(model="gpt-test", messages=history)
        roles = [message["role"] for message in upstream.bodies[2]["messages"]]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]


async def test_another_principal_cannot_reach_a_hidden_part_by_its_call_id(tmp_path: Path) -> None:
    mine = client_tools(1)
    mixed = calls((mine[0]["function"]["name"], {"invoice_id": "1"}), ("count_stock", {"item": "figs"}))
    async with (
        ScriptedUpstream([mixed, say("ok")]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()]) as served,
    ):
        _, one = await served.database.keys.add("one", Principal(id="one"))
        _, two = await served.database.keys.add("two", Principal(id="two"))
        ask = {"model": "gpt-test", "messages": said("both"), "tools": mine}
        first = await served.client.with_options(api_key=one).chat.completions.create(**ask)
        shown = first.choices[0].message
        history = [
            *said("both"),
            {"role": "assistant", "tool_calls": [c.model_dump() for c in shown.tool_calls]},
            {"role": "tool", "tool_call_id": shown.tool_calls[0].id, "content": "done"},
        ]
        await served.client.with_options(api_key=two).chat.completions.create(**{**ask, "messages": history})
        assert "figs" not in msgspec.json.encode(upstream.bodies[1]["messages"]).decode()


async def test_without_a_catalog_no_tools_are_ever_added(tmp_path: Path) -> None:
    async with ScriptedUpstream([say("x")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        await served.client.chat.completions.create(model="gpt-test", messages=said("hi"))
        assert "tools" not in upstream.bodies[0]


@pytest.mark.parametrize("off", [{"extra_headers": {"x-toolcaddie-catalog": "none"}}, {"tool_choice": "none"}])
async def test_a_client_can_keep_our_catalog_out(tmp_path: Path, off: dict[str, Any]) -> None:
    async with (
        ScriptedUpstream([say("x")]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()]) as served,
    ):
        await served.client.chat.completions.create(
            model="gpt-test", messages=said("stock"), tools=client_tools(2), **off
        )
        assert offered(upstream.bodies[0]) == [t["function"]["name"] for t in client_tools(2)]


async def test_a_client_tool_wins_over_ours_of_the_same_name_and_the_header_says_so(tmp_path: Path) -> None:
    own = {"type": "function", "function": {"name": "count_stock", "description": "mine", "parameters": {}}}
    async with (
        ScriptedUpstream([call("count_stock", {})]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()]) as served,
    ):
        raw = await served.client.chat.completions.with_raw_response.create(
            model="gpt-test", messages=said("count stock"), tools=[own]
        )
        assert raw.headers["x-toolcaddie-shadowed"] == "count_stock"
        assert raw.headers["x-toolcaddie-run"].startswith("run_")
        assert raw.headers["x-toolcaddie-tools"] == "2->2"
        assert raw.parse().choices[0].message.tool_calls[0].function.name == "count_stock"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_does_not_learn_the_name_of_a_tool_that_is_hidden_from_it(tmp_path: Path, stream: bool) -> None:
    @tool(roles=["admin"])
    def close_shop() -> str:
        """Close the shop."""
        return "closed"

    def own(name: str) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, "description": "mine", "parameters": {}}}

    async with (
        ScriptedUpstream([say("Hello.")]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop(), FunctionSource("doors", [close_shop])]) as served,
    ):
        raw = await served.client.chat.completions.with_raw_response.create(
            model="gpt-test", messages=said("hello"), tools=[own("count_stock"), own("close_shop")], stream=stream
        )
        assert raw.headers["x-toolcaddie-shadowed"] == "count_stock"
        run_id = raw.headers["x-toolcaddie-run"]
        await served.database.events.flush()
        rows = [row for row in await served.database.events.events(run_id) if row.kind == "tools_selected"]
        assert [row.data["shadowed"] for row in rows] == [["count_stock"]]


async def test_a_forced_tool_is_sent_whatever_it_scores(tmp_path: Path) -> None:
    tools = client_tools(300)
    name = tools[299]["function"]["name"]
    async with ScriptedUpstream([call(name, {})]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        await served.client.chat.completions.create(
            model="gpt-test",
            messages=said("create an invoice at home"),
            tools=tools,
            tool_choice={"type": "function", "function": {"name": name}},
        )
        assert name in offered(upstream.bodies[0])
        assert not upstream.refusals


async def test_the_tools_of_a_conversation_only_grow_at_the_end(tmp_path: Path) -> None:
    tools = client_tools(300)
    async with ScriptedUpstream(lambda body: say("ok")) as upstream, gateway(tmp_path, upstream.base_url) as served:
        messages: list[Any] = []
        for words in ("create an invoice at home", "print the flight in the office", "tag a recipe in the cloud"):
            messages += said(words)
            answer = await served.client.chat.completions.create(model="gpt-test", messages=messages, tools=tools)
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        arrays = [offered(body) for body in upstream.bodies]
        assert arrays[1][: len(arrays[0])] == arrays[0]
        assert arrays[2][: len(arrays[1])] == arrays[1]
        assert arrays[0][0] == REQUEST_MORE_TOOLS
        assert all(len(array) <= 128 for array in arrays)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_first_stage_is_counted_and_not_asked_again_for_a_short_follow_up(tmp_path: Path, stream: bool) -> None:
    """Also where the client sends its whole conversation each time and gives it no name."""
    small = ScriptedProvider([say('{"categories": ["memberships"]}')])
    async with (
        ScriptedUpstream([say("Shall I put John on hold?"), say("Done.")]) as upstream,
        gateway(
            tmp_path,
            upstream.base_url,
            sources=[gym.source()],
            preset="budget",
            classifier=ModelClassifier(small, model="small"),
        ) as served,
    ):
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        messages: list[Any] = said("John is ill until Monday, what can be done")
        used = []
        for _ in range(2):
            raw = await served.client.chat.completions.create(model="gpt-test", messages=messages, **options)
            answer = await collected(raw) if stream else None
            used.append(answer["usage"].prompt_tokens if answer else raw.usage.prompt_tokens)
            content = answer["text"] if answer else raw.choices[0].message.content
            messages = [*messages, {"role": "assistant", "content": content}, *said("yes, do it")]
        assert used == [200, 100]
        assert len(small.requests) == 1
        assert offered(upstream.bodies[0]) == offered(upstream.bodies[1])
        assert "freeze_membership" in offered(upstream.bodies[1])


async def test_models_are_the_upstreams(tmp_path: Path) -> None:
    async with ScriptedUpstream(models=["a", "b"]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        assert [model.id async for model in served.client.models.list()] == ["a", "b"]


async def test_health_readiness_and_metrics_answer(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([say("x")]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()]) as served,
        aiohttp.ClientSession() as session,
    ):
        await served.client.chat.completions.create(model="gpt-test", messages=said("stock"))
        for path, word in (("/healthz", '"ok"'), ("/readyz", '"ready"'), ("/metrics", "toolcaddie_gateway_requests")):
            async with session.get(served.base_url + path) as answer:
                assert answer.status == 200
                assert word in await answer.text()
        async with session.get(served.base_url + "/nowhere") as answer:
            assert answer.status == 404
            assert (await answer.json())["error"]["code"] == "unknown_url"


# --- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "error", "status"),
    [
        (refuse(401), openai.InternalServerError, 502),
        (refuse(429, headers={"retry-after": "3"}), openai.RateLimitError, 429),
        (refuse(500), openai.InternalServerError, 500),
        (garbage(), openai.InternalServerError, 502),
    ],
)
async def test_an_upstream_failure_keeps_its_status_in_openais_shape(
    tmp_path: Path, stream: bool, fault: Any, error: type[openai.APIStatusError], status: int
) -> None:
    async with ScriptedUpstream([fault, say("fine")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        ask = {"model": "gpt-test", "messages": said("hi"), "tools": client_tools(300), "stream": stream}
        with pytest.raises(error) as failure:
            await served.client.chat.completions.create(**ask)
        assert failure.value.status_code == status
        assert failure.value.body["message"]
        if status == 429:
            assert failure.value.response.headers["retry-after"] == "3"
        again = await served.client.chat.completions.create(**{**ask, "stream": False})
        assert again.choices[0].message.content == "fine"


async def test_a_stream_that_is_cut_ends_with_an_error_and_without_done(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([cut(say("one two three"), after=2)]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
    ):
        stream = await served.client.chat.completions.create(
            model="gpt-test", messages=said("hi"), tools=client_tools(300), stream=True
        )
        with pytest.raises(openai.APIError):
            await collected(stream)


async def test_a_call_of_a_tool_never_offered_is_answered_inside_with_close_names(tmp_path: Path) -> None:
    script = [call("create_invoice_hom", {}), say("sorry")]
    async with ScriptedUpstream(script) as upstream, gateway(tmp_path, upstream.base_url) as served:
        answer = await served.client.chat.completions.create(
            model="gpt-test", messages=said("hi"), tools=client_tools(300)
        )
        assert answer.choices[0].message.content == "sorry"
        assert "create_invoice_home" in upstream.bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize("stream", [False, True])
async def test_two_calls_with_one_id_reach_the_client_with_two_ids(tmp_path: Path, stream: bool) -> None:
    names = [t["function"]["name"] for t in client_tools(2)]
    script = [calls((names[0], {}), (names[1], {}), ids=("same", "same"))]
    async with ScriptedUpstream(script) as upstream, gateway(tmp_path, upstream.base_url) as served:
        raw = await served.client.chat.completions.create(
            model="gpt-test", messages=said("hi"), tools=client_tools(2), stream=stream
        )
        if stream:
            ids = [one["id"] for one in (await collected(raw))["calls"]]
        else:
            ids = [one.id for one in raw.choices[0].message.tool_calls]
        assert len(set(ids)) == 2


@pytest.mark.parametrize("tools", [[], client_tools(300)])
async def test_a_client_that_goes_away_takes_the_upstream_request_with_it(tmp_path: Path, tools: list[Any]) -> None:
    async with (
        ScriptedUpstream([endless("again "), say("fine")]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
    ):
        options = {"tools": tools} if tools else {}
        stream = await served.client.chat.completions.create(
            model="gpt-test", messages=said("hi"), stream=True, **options
        )
        async for _ in stream:
            break
        await stream.close()
        async with asyncio.timeout(5):
            await upstream.requests[0].over.wait()
        assert upstream.requests[0].outcome == "client left"
        answer = await served.client.chat.completions.create(model="gpt-test", messages=said("hi"), **options)
        assert answer.choices[0].message.content == "fine"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"n": 2}, "n"),
        ({"tools": [{"type": "function", "function": {"description": "no name"}}]}, "tools[0]"),
        ({"tools": [client_tools(1)[0], client_tools(1)[0]]}, "tools"),
    ],
)
async def test_a_bad_request_is_refused_by_name_in_openais_shape(
    tmp_path: Path, change: dict[str, Any], param: str
) -> None:
    async with ScriptedUpstream() as upstream, gateway(tmp_path, upstream.base_url) as served:
        ask = {"model": "gpt-test", "messages": said("hi"), "tools": client_tools(3)}
        with pytest.raises(openai.BadRequestError) as failure:
            await served.client.chat.completions.create(**{**ask, **change})
        assert failure.value.body["param"] == param
        assert failure.value.body["message"]
        assert not upstream.requests


async def test_a_run_that_failed_after_it_acted_is_not_sent_again_by_the_client(tmp_path: Path) -> None:
    one_call = replace(PRESETS["default"], limits=replace(PRESETS["default"].limits, calls=1))
    script = lambda body: call("reserve_stock", {"item": "figs", "amount": len(body["messages"])})  # noqa: E731
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()], preset=one_call) as served,
    ):
        eager = served.client.with_options(max_retries=3)
        with pytest.raises(openai.UnprocessableEntityError, match="1 tool calls"):
            await eager.chat.completions.create(model="gpt-test", messages=said("reserve stock"))
        assert len(upstream.bodies) == 2


# --- who may ask -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"content-type": "text/plain"},
    ],
)
async def test_without_keys_a_foreign_page_is_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    async with (
        ScriptedUpstream([say("x")]) as upstream,
        gateway(tmp_path, upstream.base_url) as served,
        aiohttp.ClientSession() as session,
    ):
        body = msgspec.json.encode({"model": "gpt-test", "messages": said("hi")})
        sent = {"content-type": "application/json", **headers}
        async with session.post(f"{served.base_url}/v1/chat/completions", data=body, headers=sent) as answer:
            assert answer.status == 403
            assert (await answer.json())["error"]["code"] == "forbidden"
        assert not upstream.requests


async def test_with_keys_every_request_needs_a_live_one_and_no_key_of_ours_goes_upstream(tmp_path: Path) -> None:
    async with ScriptedUpstream([say("x"), say("x")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        key, secret = await served.database.keys.add("laptop", Principal(id="laptop"))
        ask = {"model": "gpt-test", "messages": said("hi")}
        with pytest.raises(openai.AuthenticationError):
            await served.client.chat.completions.create(**ask)
        keyed = served.client.with_options(api_key=secret)
        await keyed.chat.completions.create(**ask)
        await keyed.chat.completions.create(**ask, tools=client_tools(300))
        for request in upstream.requests:
            assert request.headers["authorization"] == "Bearer test-key"
            assert secret.encode() not in request.raw
        await served.database.keys.revoke(key.id)


async def test_a_server_without_a_key_of_its_own_sends_the_clients_on(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([say("x"), say("x")]) as upstream,
        gateway(tmp_path, upstream.base_url, own_upstream_key=False) as served,
    ):
        own = served.client.with_options(api_key="test-key")
        await own.chat.completions.create(model="gpt-test", messages=said("hi"))
        await own.chat.completions.create(model="gpt-test", messages=said("hi"), tools=client_tools(300))
        assert [model.id async for model in own.models.list()] == ["gpt-test"]
        assert [request.headers["authorization"] for request in upstream.requests] == ["Bearer test-key"] * 3


async def test_the_trail_shows_selection_calls_and_results(tmp_path: Path) -> None:
    script = [call("count_stock", {"item": "pears"}), say("There are 5.")]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()]) as served,
    ):
        raw = await served.client.chat.completions.with_raw_response.create(
            model="gpt-test", messages=said("how many pears are in stock")
        )
        await served.database.events.flush()
        events = await served.database.events.events(raw.headers["x-toolcaddie-run"])
        kinds = [event.kind for event in events]
        for kind in (
            "run_started",
            "tools_selected",
            "tools_delivered",
            "call_decided",
            "call_finished",
            "run_finished",
        ):
            assert kind in kinds
        assert "meta_called" not in kinds


# --- what a hostile reader of the code found ---------------------------------------------------------------------------


def as_sent_back(message: Any, arguments: str | None = None) -> dict[str, Any]:
    """An answer as clients put it into their history; some write the arguments in their own way."""
    made = [
        {
            "id": one.id,
            "type": "function",
            "function": {"name": one.function.name, "arguments": arguments or one.function.arguments},
        }
        for one in message.tool_calls or ()
    ]
    return {"role": "assistant", "content": message.content, **({"tool_calls": made} if made else {})}


def answered(call_id: str, content: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


@pytest.mark.parametrize("call_id", ["call_0", "call_" + "0123456789abcdef" * 2])
async def test_a_hidden_part_stays_in_its_conversation_even_where_the_upstream_uses_ids_again(
    tmp_path: Path, call_id: str
) -> None:
    mine = client_tools(1)
    name = mine[0]["function"]["name"]
    script = [
        calls((name, {}), ("count_stock", {"item": "secret"}), ids=(call_id, "call_1")),
        call(name, {}, call_id=call_id if len(call_id) < 20 else "call_" + "f" * 32),
        say("ok"),
    ]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()]) as served,
    ):
        create = served.client.chat.completions.create
        await create(model="gpt-test", messages=said("conversation A"), tools=mine)
        other = await create(model="gpt-test", messages=said("conversation B"), tools=mine)
        shown = other.choices[0].message
        history = [*said("conversation B"), as_sent_back(shown), answered(shown.tool_calls[0].id)]
        await create(model="gpt-test", messages=history, tools=mine)
        assert "secret" not in msgspec.json.encode(upstream.bodies[2]["messages"]).decode()


@pytest.mark.parametrize("kept", ["rewritten", "first only", "split", "new system prompt"])
async def test_a_hidden_part_is_found_whatever_a_client_does_to_its_history(tmp_path: Path, kept: str) -> None:
    mine = client_tools(2)
    one, two = (definition["function"]["name"] for definition in mine)
    turn = calls((one, {"invoice_id": "1"}), ("count_stock", {"item": "figs"}), (two, {"invoice_id": "2"}))
    async with (
        ScriptedUpstream([turn, say("ok")]) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()]) as served,
    ):
        create = served.client.chat.completions.create
        system = [{"role": "system", "content": "It is noon."}]
        first = await create(model="gpt-test", messages=[*system, *said("both")], tools=mine)
        shown = first.choices[0].message
        ids = [each.id for each in shown.tool_calls]
        back = as_sent_back(shown, '{ "invoice_id" : "1" }' if kept == "rewritten" else None)
        results = [answered(call_id) for call_id in ids]
        if kept == "first only":
            back["tool_calls"] = back["tool_calls"][:1]
            history = [*system, *said("both"), back, results[0]]
        elif kept == "split":
            halves = [{**back, "tool_calls": [each]} for each in back["tool_calls"]]
            history = [*system, *said("both"), halves[0], results[0], halves[1], results[1]]
        elif kept == "new system prompt":
            history = [{"role": "system", "content": "It is evening."}, *said("both"), back, *results]
        else:
            history = [*system, *said("both"), back, *results]
        await create(model="gpt-test", messages=history, tools=mine)
        assert not upstream.refusals
        contents = [message.get("content") for message in upstream.bodies[1]["messages"]]
        assert "4 of figs" in contents


@pytest.mark.parametrize("stream", [False, True])
async def test_words_before_a_hidden_call_belong_to_the_answer_plain_and_streamed(tmp_path: Path, stream: bool) -> None:
    script = [call("count_stock", {"item": "figs"}, text="Let me look."), say("Four."), say("Still four.")]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()]) as served,
    ):
        create = served.client.chat.completions.create
        raw = await create(model="gpt-test", messages=said("figs?"), stream=stream)
        text = (await collected(raw))["text"] if stream else raw.choices[0].message.content
        assert text == "Let me look.\n\nFour."
        history = [*said("figs?"), {"role": "assistant", "content": text}, *said("sure?")]
        await create(model="gpt-test", messages=history)
        sent = [(message["role"], message.get("content")) for message in upstream.bodies[2]["messages"]]
        assert sent == [
            ("user", "figs?"),
            ("assistant", "Let me look."),
            ("tool", "4 of figs"),
            ("assistant", "Four."),
            ("user", "sure?"),
        ]


async def test_an_answer_that_was_cut_short_says_so(tmp_path: Path) -> None:
    reply = replace(call(client_tools(1)[0]["function"]["name"], '{"invoice_id": "1'), finish_reason="length")
    async with ScriptedUpstream([reply]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        answer = await served.client.chat.completions.create(
            model="gpt-test", messages=said("x"), tools=client_tools(1)
        )
        assert answer.choices[0].finish_reason == "length"


async def test_one_cache_key_for_a_whole_application_does_not_mix_its_conversations(tmp_path: Path) -> None:
    async with ScriptedUpstream(lambda body: say("ok")) as upstream, gateway(tmp_path, upstream.base_url) as served:
        for words in ("create an invoice at home", "print the flight in the office", "tag a recipe in the cloud"):
            await served.client.chat.completions.create(
                model="gpt-test", messages=said(words), tools=client_tools(300), prompt_cache_key="app"
            )
        assert len({len(body["tools"]) for body in upstream.bodies}) == 1


async def test_an_idempotency_key_goes_on_only_where_one_request_becomes_one(tmp_path: Path) -> None:
    script = [say("x"), call("count_stock", {"item": "figs"}), say("y")]
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop()]) as served,
    ):
        headers = {"idempotency-key": "K1"}
        create = served.client.chat.completions.create
        await create(model="gpt-test", messages=said("hi"), extra_headers={**headers, "x-toolcaddie-catalog": "none"})
        await create(model="gpt-test", messages=said("figs"), extra_headers=headers)
        assert ["idempotency-key" in request.headers for request in upstream.requests] == [True, False, False]


async def test_revoking_the_last_key_keeps_the_door_shut_and_no_key_of_ours_is_sent_on(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([say("x")], api_key=None) as upstream,
        gateway(tmp_path, upstream.base_url, own_upstream_key=False) as served,
    ):
        ask = {"model": "gpt-test", "messages": said("hi")}
        await served.client.with_options(api_key="tc_of_another_server").chat.completions.create(**ask)
        assert "tc_of" not in str(upstream.requests[0].headers)
        _, secret = await served.database.keys.add("laptop", Principal(id="laptop"))
        await served.database.keys.revoke("laptop")
        with pytest.raises(openai.AuthenticationError):
            await served.client.with_options(api_key=secret).chat.completions.create(**ask)
        assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [{"role": ["user"], "content": "x"}]},
        {"messages": [{"role": "assistant", "tool_calls": 5}]},
        {"messages": [{"role": "assistant", "tool_calls": [5]}]},
        {"messages": "hi"},
        {"tools": {"type": "function"}},
        {"model": 5},
    ],
)
async def test_whatever_a_body_holds_the_answer_is_a_400_in_openais_shape(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    async with ScriptedUpstream() as upstream, gateway(tmp_path, upstream.base_url) as served:
        async with aiohttp.ClientSession() as session:
            body = {"model": "gpt-test", "messages": said("hi"), "tools": client_tools(2), **change}
            url = f"{served.base_url}/v1/chat/completions"
            async with session.post(url, json=body) as answer:
                assert answer.status == 400
                assert (await answer.json())["error"]["type"] == "invalid_request_error"
            deep = b'{"model": "m", "tools": [' + b"[" * 100_000
            async with session.post(url, data=deep, headers={"content-type": "application/json"}) as answer:
                assert answer.status == 400
        assert not upstream.requests


async def test_kinds_of_tools_we_do_not_know_go_through_as_they_are(tmp_path: Path) -> None:
    kinds = [
        {"type": "mcp", "server_label": "a"},
        {"type": "mcp", "server_label": "b"},
        {"type": "function", "function": {"name": "ns.lookup", "parameters": {"type": "object"}}},
    ]

    async with ScriptedUpstream() as upstream, gateway(tmp_path, upstream.base_url) as served:
        with pytest.raises(openai.BadRequestError) as failure:  # the strict upstream judges them, not we
            await served.client.chat.completions.create(model="gpt-test", messages=said("x"), tools=kinds)
        assert failure.value.status_code == 400
        assert sorted(map(str, upstream.bodies[0]["tools"])) == sorted(map(str, kinds))


@pytest.mark.parametrize("host", ["[::1].evil.example", "evil@localhost", "localhost.evil.example", "127.0.0.1x"])
async def test_a_host_that_only_looks_like_this_machine_is_refused(tmp_path: Path, host: str) -> None:
    async with (
        ScriptedUpstream() as upstream,
        gateway(tmp_path, upstream.base_url) as served,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(f"{served.base_url}/v1/models", headers={"host": host}) as answer:
            assert answer.status == 403
        async with session.get(f"{served.base_url}/v1/models", headers={"origin": "http://["}) as answer:
            assert answer.status == 403
        async with session.post(f"{served.base_url}/v1/models", json={}) as answer:
            assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
            assert "POST is not allowed at /v1/models, only GET, HEAD" in (await answer.json())["error"]["message"]


async def test_an_upstream_that_fails_after_a_tool_ran_is_not_asked_again_by_the_client(tmp_path: Path) -> None:
    steps = [call("get_gym_info", {}), refuse(500, "gone")]
    async with (
        ScriptedUpstream(steps) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[gym.source()]) as served,
    ):
        with pytest.raises(openai.InternalServerError) as raised:
            await served.client.chat.completions.create(model="gpt-test", messages=said("tell me of the gym"))
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert len(upstream.bodies) == 2
