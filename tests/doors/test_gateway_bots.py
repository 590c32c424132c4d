"""Bots as models of the gateway, over real sockets: `model: "bot:NAME"` on every wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.doors.serving import Gateway, gateway
from tests.doors.test_gateway_matrix import CELLS, PROVIDERS, STREAMS
from toolcaddie import Bot, tool
from toolcaddie.app.settings import GatewaySettings
from toolcaddie.core.capabilities import CAPABILITIES, capabilities_from
from toolcaddie.core.control import Principal
from toolcaddie.core.key_limits import BILLION, Amounts, KeyLimits
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
BOTS = {
    "support": Bot(model="small-model", description="Answers questions about orders.", disabled_tools=("refund",)),
    "boss": Bot(),
}


@tool(description="Find an order.", read_only=True)
def find_order(number: int) -> str:
    return f"order {number} is on its way"


@tool(description="Pay an order back.", read_only=True)
def refund(number: int) -> str:
    return "paid back"


def body(door: str, model: str = "bot:support", **more: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": "where is order 7?"}]
    own: Mapping[str, Mapping[str, Any]] = {
        "chat": {"messages": said},
        "responses": {"input": "where is order 7?"},
        "messages": {"messages": said, "max_tokens": 100},
    }
    return {"model": model, **own[door], **more}


async def post(door: Gateway, path: str, sent: Any, **headers: str) -> tuple[int, str, Mapping[str, str]]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{door.base_url}{path}", json=sent, headers=headers) as answer,
    ):
        return answer.status, await answer.text(), answer.headers


async def get(door: Gateway, path: str, **headers: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{door.base_url}{path}", headers=headers) as answer:
        return answer.status, await answer.json()


def models_in(text: str, *, stream: bool) -> set[str]:
    """Names of models in an answer, wherever its wire has them."""
    lines = [line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:")]
    values = [json.loads(line) for line in lines if line.startswith("{")] if stream else [json.loads(text)]
    inner = [value.get(key) or {} for value in values for key in ("message", "response") if key in value]
    return {value["model"] for value in (*values, *inner) if isinstance(value, dict) and "model" in value}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("door", "provider"), CELLS)
async def test_a_bot_answers_on_every_wire_with_its_own_model_and_tools(
    tmp_path: Path, door: str, provider: str, stream: bool
) -> None:
    make_wire, make_provider = PROVIDERS[provider]
    wire = make_wire()
    options = {} if wire is None else {"wire": wire}
    script = [call("find_order", {"number": 7}), say("It is on its way.")]
    async with (
        ScriptedUpstream(script, **options) as upstream,
        gateway(tmp_path, make_provider(upstream.base_url), sources=[find_order, refund], bots=BOTS) as served,
    ):
        status, text, _ = await post(served, PATHS[door], body(door, stream=stream))
    assert status == 200, text
    assert "way." in text
    assert models_in(text, stream=stream) == {"bot:support"}
    assert "small-model" not in text
    assert not upstream.refusals
    assert len(upstream.requests) == 2
    for request in upstream.requests:
        assert "small-model" in (request.path if provider == "gemini" else request.body["model"])
        assert "find_order" in json.dumps(request.body)
        assert "refund" not in json.dumps(request.body)
        assert "bot:support" not in json.dumps(request.body)


@pytest.mark.parametrize("door", PATHS)
async def test_a_request_to_a_bot_is_a_run_even_without_any_tool(tmp_path: Path, door: str) -> None:
    make_wire, make_provider = PROVIDERS[door]
    wire = make_wire()
    options = {} if wire is None else {"wire": wire}
    async with (
        ScriptedUpstream([say("hello")], **options) as upstream,
        gateway(tmp_path, make_provider(upstream.base_url), bots=BOTS) as served,
    ):
        status, text, headers = await post(
            served, PATHS[door], body(door, unknown_field="x" if door == "chat" else None)
        )
        assert status == 200, text
        events = await served.database.events.events(headers["x-toolcaddie-run"])
    assert events[0].data["principal"]["bot"] == "support"
    assert events[0].data["model"] == "small-model"
    assert upstream.bodies[0]["model"] == "small-model"


@pytest.mark.parametrize("door", PATHS)
async def test_an_unknown_bot_is_refused_by_name_as_an_unknown_model_of_the_wire(tmp_path: Path, door: str) -> None:
    async with gateway(tmp_path, ScriptedProvider([]), bots=BOTS) as served:
        for name in ("bot:suport", "\\u0062ot:suport"):
            sent = json.dumps(body(door, "MODEL")).replace("MODEL", name)
            async with (
                aiohttp.ClientSession() as session,
                session.post(
                    f"{served.base_url}{PATHS[door]}", data=sent, headers={"content-type": "application/json"}
                ) as answer,
            ):
                status, told = answer.status, await answer.json()
            assert status == 404
            assert "there is no bot 'suport'; did you mean 'support'?" in told["error"]["message"]
            if door == "messages":
                assert (told["type"], told["error"]["type"]) == ("error", "not_found_error")
            else:
                assert (told["error"]["code"], told["error"]["param"]) == ("model_not_found", "model")


async def test_a_server_without_bots_says_so(tmp_path: Path) -> None:
    async with ScriptedUpstream([]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        status, text, _ = await post(served, PATHS["chat"], body("chat"))
    assert status == 404
    assert "there is no bot 'support'" in text
    assert not upstream.requests


async def test_a_key_of_another_bot_is_refused_and_sees_only_its_own(tmp_path: Path) -> None:
    async with gateway(tmp_path, ScriptedProvider([say("hi"), say("hi")]), bots=BOTS) as served:
        keys = served.database.keys
        secrets = [(await keys.add(n, Principal(id=n, bot=b)))[1] for n, b in (("own", "boss"), ("any", None))]
        own, free = ({"authorization": f"Bearer {secret}"} for secret in secrets)
        for name in ("bot:support", "bot:nobody"):
            status, text, _ = await post(served, PATHS["chat"], body("chat", name), **own)
            assert status == 403
            assert f"this key belongs to the bot 'boss', so it may not ask the bot '{name[4:]}'" in text
            assert (await get(served, f"/v1/models/{name}", **own))[0] == 403
        assert (await post(served, PATHS["chat"], body("chat", model="bot:support"), **free))[0] == 200
        assert "no model" in (await post(served, PATHS["chat"], body("chat", "bot:boss"), **own))[1]
        _, listed = await get(served, "/v1/models", **own)
        assert [each["id"] for each in listed["data"] if each["id"].startswith("bot:")] == ["bot:boss"]
        _, listed = await get(served, "/v1/models", **free)
    bots = [each for each in listed["data"] if each["id"].startswith("bot:")]
    assert [each["id"] for each in bots] == ["bot:support", "bot:boss"]
    assert bots[0]["description"] == "Answers questions about orders."
    assert "description" not in bots[1]


@pytest.mark.parametrize("own_key", [True, False])
async def test_bots_stand_in_front_of_the_upstreams_models(tmp_path: Path, own_key: bool) -> None:
    async with (
        ScriptedUpstream([]) as upstream,
        gateway(tmp_path, upstream.base_url, bots=BOTS, own_upstream_key=own_key) as served,
    ):
        headers = {} if own_key else {"authorization": "Bearer test-key"}
        status, listed = await get(served, "/v1/models", **headers)
        assert status == 200
        names = [each["id"] for each in listed["data"]]
        assert names[:2] == ["bot:support", "bot:boss"]
        assert len(names) > 2
        assert (await get(served, "/v1/models/bot:support", **headers))[1]["id"] == "bot:support"
        status, told = await get(served, "/v1/models/bot:suport", **headers)
    assert (status, told["error"]["code"]) == (404, "model_not_found")


async def test_an_alias_and_the_default_model_may_be_a_bot(tmp_path: Path) -> None:
    settings = GatewaySettings(aliases={"help": "bot:support"}, default_model="bot:boss")
    async with gateway(
        tmp_path, ScriptedProvider([say("hi"), say("hi")]), bots=BOTS, settings=settings, model="large-model"
    ) as served:
        for sent in (body("chat", "help"), {"messages": body("chat")["messages"]}):
            assert (await post(served, PATHS["chat"], sent))[0] == 200
        events = [await served.database.events.events(run.run_id) for run in await served.database.events.runs()]
    assert {rows[0].data["model"] for rows in events} == {"small-model", "large-model"}


async def test_tokens_of_a_bots_request_are_counted_with_its_model_and_tools(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([]) as upstream,
        gateway(tmp_path, ScriptedProvider([]), sources=[find_order, refund], bots=BOTS) as served,
    ):
        counts = [
            json.loads((await post(served, path, body(door, f"bot:{name}")))[1])["input_tokens"]
            for door, path in (("messages", "/v1/messages/count_tokens"), ("responses", "/v1/responses/input_tokens"))
            for name in ("support",)
        ]
    assert all(count > 20 for count in counts)
    assert not upstream.requests


async def test_idempotency_and_limits_hold_for_bots(tmp_path: Path) -> None:
    """A repeated request gets the stored answer; the money of a bot's request is that of its own model."""
    priced = [capabilities_from({"pattern": "small-model", "prices": {"input": 1_000, "output": 2_000}}), *CAPABILITIES]
    limits = KeyLimits(requests_per_day=3, dollars_per_day=100)
    async with (
        ScriptedUpstream([say("once"), say("twice")]) as upstream,
        gateway(tmp_path, upstream.base_url, bots=BOTS, capabilities=priced, key_limits=limits) as served,
    ):
        _, secret = await served.database.keys.add("ann", Principal(id="ann"))
        headers = {"authorization": f"Bearer {secret}", "idempotency-key": "one"}
        first = await post(served, PATHS["chat"], body("chat"), **headers)
        again = await post(served, PATHS["chat"], body("chat"), **headers)
        assert first[1] == again[1]
        assert "once" in first[1]
        del headers["idempotency-key"]
        assert "twice" in (await post(served, PATHS["chat"], body("chat"), **headers))[1]
        assert (await post(served, PATHS["chat"], body("chat"), **headers))[0] == 429
        await served.database.meter.close()
        await served.database.meter.reserve("other", Amounts(), KeyLimits(requests_per_day=1))  # writes are in order
        usage = await served.database.meter.usage(first="2000-01-01", last="2999-01-01")
    assert sum(each.money for each in usage) > BILLION / 100
    assert "bot:support" not in {each.model for each in usage}


async def test_a_request_without_a_model_is_sent_to_the_bots_own_and_a_named_one_stays(tmp_path: Path) -> None:
    provider = ScriptedProvider([say("a"), say("b"), say("c")])
    async with gateway(tmp_path, provider, bots=BOTS, model="large-model") as served:
        await served.runtime.run("hi", principal=Principal(bot="support"))
        await served.runtime.run("hi", principal=Principal(bot="boss"))
        await served.runtime.run("hi", principal=Principal(bot="support"), model="named-model")
    assert [request.model for request in provider.requests] == ["small-model", "large-model", "named-model"]
