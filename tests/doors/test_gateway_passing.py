"""Requests that the gateway passes on without a run: the paths that are always open, those of the settings, and a client's."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from tests.doors.serving import gateway
from toolcaddie import PracticeModel
from toolcaddie.app.settings import GatewaySettings
from toolcaddie.core.errors import ConfigError
from toolcaddie.providers.anthropic import Anthropic
from toolcaddie.testing import AnthropicWire, ScriptedUpstream, say

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def upstream() -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers every path with the request it got; gives its address and the requests."""
    requests: list[dict[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        entry = {
            "method": request.method,
            "path": request.path_qs,
            "key": request.headers.get("authorization", ""),
            "type": request.content_type,
            "body": (await request.read()).decode(),
        }
        requests.append(entry)
        return web.json_response(entry, headers={"x-request-id": "req_1"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1", requests
    finally:
        await runner.cleanup()


async def test_embeddings_moderations_and_old_completions_reach_the_upstream(tmp_path: Path) -> None:
    async with (
        upstream() as (address, requests),
        gateway(tmp_path, address, settings=GatewaySettings(aliases={"fast": "gpt-test"})) as served,
        aiohttp.ClientSession() as http,
    ):
        for path in ("embeddings", "completions", "moderations"):
            async with http.post(f"{served.base_url}/v1/{path}?a=b", json={"model": "fast", "input": "hi"}) as answer:
                assert (answer.status, answer.headers["x-request-id"]) == (200, "req_1")
        async with http.get(f"{served.base_url}/v1/models/org/fast") as answer:
            assert answer.status == 200
    assert [request["path"] for request in requests] == [
        "/v1/embeddings?a=b",
        "/v1/completions?a=b",
        "/v1/moderations?a=b",
        "/v1/models/org/fast",
    ]
    assert requests[0]["body"] == '{"model":"gpt-test","input":"hi"}'
    assert {request["key"] for request in requests} == {"Bearer test-key"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/files"),
        ("GET", "/v1/files/file_1/content"),
        ("DELETE", "/v1/files/file_1"),
        ("POST", "/v1/batches"),
        ("DELETE", "/v1/models/gpt-test"),
        ("GET", "/v1/embeddings/../files"),
        ("GET", "/v1/audio/%2e%2e/files"),
        ("GET", "/v1/audio/..%2ffiles"),
        ("GET", "/v1/audio/x%3f"),
    ],
)
async def test_the_servers_key_opens_nothing_that_is_not_listed(tmp_path: Path, method: str, path: str) -> None:
    settings = GatewaySettings(passed=("/v1/audio/*",))
    async with (
        upstream() as (address, requests),
        gateway(tmp_path, address, settings=settings) as served,
        aiohttp.ClientSession(requote_redirect_url=False) as http,
    ):
        url = URL(f"{served.base_url}{path}", encoded=True)
        async with http.request(method, url, json={} if method == "POST" else None) as answer:
            assert answer.status in (404, 405)
    assert requests == []


async def test_a_listed_path_passes_and_so_does_any_path_with_the_clients_own_key(tmp_path: Path) -> None:
    async with upstream() as (address, requests), aiohttp.ClientSession() as http:
        async with gateway(tmp_path, address, settings=GatewaySettings(passed=("POST /v1/audio/*",))) as served:
            async with http.post(f"{served.base_url}/v1/audio/speech", json={"input": "hi"}) as answer:
                assert answer.status == 200
            async with http.get(f"{served.base_url}/v1/audio/speech") as answer:
                assert answer.status == 404
        async with gateway(tmp_path, address, own_upstream_key=False) as served:
            mine = {"authorization": "Bearer sk-mine"}
            async with http.delete(f"{served.base_url}/v1/files/file_1", headers=mine) as answer:
                assert answer.status == 200
            async with http.delete(f"{served.base_url}/v1/files/file_1") as answer:
                assert answer.status == 404
    assert [(each["method"], each["path"], each["key"]) for each in requests] == [
        ("POST", "/v1/audio/speech", "Bearer test-key"),
        ("DELETE", "/v1/files/file_1", "Bearer sk-mine"),
    ]


async def test_an_upstream_without_embeddings_is_named(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream([], wire=AnthropicWire()) as scripted,
        gateway(tmp_path, Anthropic(scripted.base_url, "test-key")) as served,
        aiohttp.ClientSession() as http,
        http.post(f"{served.base_url}/v1/embeddings", json={"model": "m", "input": "hi"}) as answer,
    ):
        assert answer.status == 400
        assert "anthropic" in (await answer.json())["error"]["message"]


async def test_the_practice_model_has_no_embeddings(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path, PracticeModel()) as served,
        aiohttp.ClientSession() as http,
        http.post(f"{served.base_url}/v1/embeddings", json={"model": "m", "input": "hi"}) as answer,
    ):
        assert answer.status == 400
        assert "practice" in (await answer.json())["error"]["message"]


async def test_a_wrong_entry_of_the_list_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gateway.passed: 'FETCH files'"):
        async with gateway(tmp_path, "http://127.0.0.1:1", settings=GatewaySettings(passed=("FETCH files",))):
            pass


async def test_a_client_may_use_another_name_of_a_model_at_every_door(tmp_path: Path) -> None:
    settings = GatewaySettings(aliases={"fast": "gpt-test"})
    async with (
        ScriptedUpstream([say("one"), say("two")]) as scripted,
        gateway(tmp_path, scripted.base_url, settings=settings) as served,
    ):
        first = await served.client.chat.completions.create(model="fast", messages=[{"role": "user", "content": "hi"}])
        second = await served.client.responses.create(model="fast", input="hi")
    assert (first.choices[0].message.content, second.output_text) == ("one", "two")
    assert [body["model"] for body in scripted.bodies] == ["gpt-test", "gpt-test"]
