"""API keys at doors and upstreams whose APIs send them in different headers: over real sockets, with strict upstreams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict

from tests.doors.serving import Gateway, gateway
from toolcaddie.app.settings import GatewaySettings
from toolcaddie.core.control import Principal
from toolcaddie.core.vocabulary import KEY_HEADERS
from toolcaddie.doors.gateway.app import MODEL_DOORS
from toolcaddie.doors.gateway.onward import Onward
from toolcaddie.ports import Provider
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.providers.gemini import Gemini
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.sources.functions import tool
from toolcaddie.testing import AnthropicWire, GeminiWire, ScriptedProvider, ScriptedUpstream, call, refuse, say
from toolcaddie.wires import chat, messages

pytestmark = pytest.mark.anyio

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
ONE_DOOR = {"/v1/chat/completions": chat.WIRE}
DOORS = {**MODEL_DOORS, MESSAGES: messages.WIRE}
ASK: dict[str, Any] = {"model": "test", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS: Mapping[str, Any] = {
    CHAT: [{"type": "function", "function": {"name": "draw", "parameters": PARAMETERS}}],
    MESSAGES: [{"name": "draw", "input_schema": PARAMETERS}],
}


async def status_of(
    served: Gateway, headers: Mapping[str, str], *, door: str = MESSAGES, tools: bool = False
) -> tuple[int, str]:
    body = {**ASK, "tools": TOOLS[door]} if tools else ASK
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{served.base_url}{door}", json=body, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


def sent_keys(upstream: ScriptedUpstream) -> list[dict[str, str]]:
    names = ("authorization", "x-api-key", "x-goog-api-key")
    return [{name: request.headers[name] for name in names if name in request.headers} for request in upstream.requests]


async def test_a_client_of_messages_shows_its_key_in_the_header_of_its_api_or_as_a_bearer(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([say("x")] * 3) as upstream,
        gateway(tmp_path, upstream.base_url, doors=DOORS) as served,
    ):
        _, secret = await served.database.keys.add("laptop", Principal(id="laptop"))
        for headers in (
            {"x-api-key": secret},
            {"authorization": f"Bearer {secret}"},
            {"x-api-key": secret, "authorization": f"Bearer {secret}"},
        ):
            assert (await status_of(served, headers))[0] == 200
        assert sent_keys(upstream) == [{"authorization": "Bearer test-key"}] * 3
        assert not any(secret.encode() in request.raw for request in upstream.requests)


@pytest.mark.parametrize(
    ("headers", "status", "message"),
    [
        ({}, 401, "no API key was sent; send 'Authorization: Bearer tc_...' or 'x-api-key: tc_...'"),
        ({"x-api-key": ""}, 401, "no API key was sent"),
        ({"x-api-key": "tc_wrong"}, 401, "the API key is unknown or revoked"),
        ({"x-goog-api-key": "SECRET"}, 401, "no API key was sent"),
        ({"x-api-key": "SECRET", "authorization": "Bearer tc_other"}, 400, "have different keys; send one"),
    ],
    ids=["none", "empty", "unknown", "the header of another API", "two keys"],
)
async def test_a_key_that_does_not_open_the_door_is_refused_with_the_headers_that_may_hold_one(
    headers: dict[str, str], status: int, message: str, tmp_path: Path
) -> None:
    async with ScriptedUpstream([]) as upstream, gateway(tmp_path, upstream.base_url, doors=DOORS) as served:
        _, secret = await served.database.keys.add("laptop", Principal(id="laptop"))
        sent = {name: value.replace("SECRET", secret) for name, value in headers.items()}
        code, body = await status_of(served, sent)
        assert code == status
        assert message in body
        assert not upstream.requests


async def test_the_chat_door_takes_a_key_as_a_bearer_alone(tmp_path: Path) -> None:
    async with ScriptedUpstream([]) as upstream, gateway(tmp_path, upstream.base_url, doors=DOORS) as served:
        _, secret = await served.database.keys.add("laptop", Principal(id="laptop"))
        code, body = await status_of(served, {"x-api-key": secret}, door=CHAT)
        assert code == 401
        assert "'Authorization: Bearer tc_...'" in body
        assert "x-api-key" not in body


async def test_the_plain_pages_take_a_key_in_the_header_of_any_open_door(tmp_path: Path) -> None:
    async with ScriptedUpstream([]) as upstream:
        for doors, status in ((DOORS, 200), (ONE_DOOR, 401)):
            async with gateway(tmp_path, upstream.base_url, doors=doors) as served, aiohttp.ClientSession() as session:
                _, secret = await served.database.keys.add(f"laptop {status}", Principal(id="laptop"))
                async with session.get(f"{served.base_url}/v1/models", headers={"x-api-key": secret}) as answer:
                    assert answer.status == status


@pytest.mark.parametrize("tools", [False, True], ids=["plain", "with tools"])
@pytest.mark.parametrize(
    ("door", "headers", "forwarded"),
    [
        (MESSAGES, {"x-api-key": "theirs"}, {"x-api-key": "theirs"}),
        (MESSAGES, {"authorization": "Bearer a-token"}, {"authorization": "Bearer a-token"}),
        (CHAT, {"authorization": "Bearer theirs"}, {"x-api-key": "theirs"}),
    ],
    ids=["the same header", "a token", "a chat client"],
)
async def test_a_clients_own_key_reaches_a_messages_upstream_in_the_header_that_it_reads(
    door: str, headers: dict[str, str], forwarded: dict[str, str], tools: bool, tmp_path: Path
) -> None:
    async with ScriptedUpstream([say("x")], wire=AnthropicWire(), api_key=None) as upstream:
        provider = Anthropic(upstream.base_url, None)
        async with gateway(tmp_path, provider, doors=DOORS, own_upstream_key=False) as served:
            code, body = await status_of(served, headers, door=door, tools=tools)
            assert code == 200, body
            assert sent_keys(upstream) == [forwarded]


async def test_a_messages_clients_own_key_reaches_a_chat_upstream_as_a_bearer(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([say("x")]) as upstream,
        gateway(tmp_path, upstream.base_url, doors=DOORS, own_upstream_key=False) as served,
    ):
        assert (await status_of(served, {"x-api-key": "test-key"}, tools=True))[0] == 200
        assert sent_keys(upstream) == [{"authorization": "Bearer test-key"}]


async def test_a_chat_clients_own_key_reaches_gemini_in_its_header(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([say("x")], wire=GeminiWire()) as upstream,
        gateway(tmp_path, Gemini(upstream.base_url, None), own_upstream_key=False) as served,
    ):
        code, body = await status_of(served, {"authorization": "Bearer test-key"}, door=CHAT, tools=True)
        assert code == 200, body
        assert sent_keys(upstream) == [{"x-goog-api-key": "test-key"}]


@pytest.mark.parametrize("provider", [OpenAIChat, Anthropic])
@pytest.mark.parametrize("name", ["x-api-key", "authorization"])
async def test_a_key_of_a_gateway_is_never_sent_to_an_upstream_in_any_header(
    name: str, provider: Callable[[str, None], Provider], tmp_path: Path
) -> None:
    """Also where the gateway has no keys: it may be one of another gateway, or of this one before its database was moved."""
    value = "tc_of_another_server" if name == "x-api-key" else "Bearer tc_of_another_server"
    async with (
        ScriptedUpstream([refuse(401, "no key")] * 2, api_key=None) as upstream,
        gateway(tmp_path, provider(upstream.base_url, None), doors=DOORS, own_upstream_key=False) as served,
    ):
        for tools in (False, True):
            await status_of(served, {name: value}, tools=tools)
        assert sent_keys(upstream) == [{}, {}]
        assert not any(b"tc_of" in str(request.headers).encode() + request.raw for request in upstream.requests)


@pytest.mark.parametrize("name", ["x-api-key", "x-goog-api-key"])
async def test_a_header_with_a_key_may_come_once(name: str, tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([]) as upstream,
        gateway(tmp_path, upstream.base_url, doors=DOORS) as served,
        aiohttp.ClientSession() as session,
    ):
        headers = CIMultiDict([(name, "a"), (name, "b")])
        async with session.post(f"{served.base_url}{MESSAGES}", json=ASK, headers=headers) as answer:
            assert answer.status == 400
            assert "came more than once" in await answer.text()


async def test_one_idempotency_key_of_two_clients_with_their_own_keys_is_two_requests(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([say("one"), say("two")], api_key=None) as upstream,
        gateway(tmp_path, upstream.base_url, doors=DOORS, own_upstream_key=False) as served,
    ):
        for key, text in (("first", "one"), ("second", "two"), ("first", "one")):
            _, body = await status_of(served, {"x-api-key": key, "idempotency-key": "same"}, tools=True)
            assert text in body
        assert len(upstream.requests) == 2


def test_a_provider_of_another_package_is_asked_in_the_header_of_its_wire() -> None:
    class Theirs:
        name, wire = "theirs", "gemini"

    assert Onward.to(Theirs(), own_key=False).key_header == KEY_HEADERS["gemini"]  # type: ignore[arg-type]


async def test_only_keys_that_the_settings_name_read_the_metrics_which_name_tools(tmp_path: Path) -> None:
    @tool(roles=("admin",), read_only=True)
    def read_salaries() -> str:
        """Read the salaries."""
        return "all of them"

    provider = ScriptedProvider([call("read_salaries", {}), say("done")])
    watchers = GatewaySettings(metrics=("role:metrics", "grafana"))
    async with gateway(tmp_path, provider, sources=[read_salaries], settings=watchers) as served:
        people = {
            "root": Principal(id="root", role="admin"),
            "ann": Principal(id="ann", role="guest"),
            "prometheus": Principal(id="prometheus", role="metrics"),
            "grafana": Principal(id="grafana"),
            "role:metrics": Principal(id="role:metrics"),
        }
        keys = {name: (await served.database.keys.add(name, person))[1] for name, person in people.items()}
        asked = {"model": "m", "messages": [{"role": "user", "content": "read the salaries"}]}
        async with aiohttp.ClientSession() as http:
            headers = {"authorization": f"Bearer {keys['root']}"}
            async with http.post(f"{served.base_url}{CHAT}", json=asked, headers=headers) as answer:
                assert answer.status == 200
            read: dict[str, tuple[int, str]] = {}
            for name, key in keys.items():
                headers = {"authorization": f"Bearer {key}"}
                async with http.get(f"{served.base_url}/metrics", headers=headers) as answer:
                    read[name] = answer.status, await answer.text()

    assert {name: status for name, (status, _) in read.items()} == {
        "root": 403,
        "ann": 403,
        "prometheus": 200,
        "grafana": 200,
        "role:metrics": 403,
    }
    assert "toolcaddie_gateway_requests_total" in read["prometheus"][1]
    assert "read_salaries" not in read["ann"][1]
    assert "toolcaddie keys add NAME --role metrics" in read["ann"][1]


async def test_readiness_is_public_and_does_not_tell_how_many_tools_there_are(tmp_path: Path) -> None:
    async with gateway(tmp_path, ScriptedProvider([])) as served, aiohttp.ClientSession() as http:
        await served.database.keys.add("laptop", Principal(id="laptop"))
        async with http.get(f"{served.base_url}/readyz") as answer:
            assert (answer.status, await answer.json()) == (200, {"status": "ready", "provider": "scripted"})
