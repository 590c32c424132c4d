"""Limits of API keys at the MCP door: each call of a tool is a request of its key."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from tests.databases import home_environment
from tests.doors.mcp.doors import Door, mcp_door, says
from tests.doors.processes import serving
from tests.storage.conftest import Clock
from toolcaddie import tool
from toolcaddie.app.settings import MCPSettings
from toolcaddie.core.key_limits import Amounts, KeyLimits, KeyUsage

pytestmark = pytest.mark.anyio

GENERATIONS = [pytest.param("legacy", id="2025"), pytest.param("2026-07-28", id="2026")]
DAY = "1970-01-12"
"""The day of `Clock`: 40 seconds into a minute."""


@tool(read_only=True)
def greet(name: str) -> str:
    """Greet a person."""
    return f"hello {name}"


async def _usage(door: Door) -> list[KeyUsage]:
    meter = door.database.meter
    await meter.close()
    await meter.reserve("other", Amounts(), KeyLimits(requests_per_day=1))  # writes are in order
    return list(await meter.usage(first=DAY, last=DAY))


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_calls_beyond_the_limit_of_a_key_are_refused_with_the_time_to_wait(tmp_path: Path, mode: str) -> None:
    clock = Clock()
    async with mcp_door(tmp_path, [greet], clock=clock) as door:
        secret = await door.key("laptop", limits={"requests_per_minute": 2})
        async with door.client(mode, secret=secret) as client:
            for _ in range(4):
                await client.list_tools()
            assert [await says(client, "greet", name=name) for name in "ab"] == ["hello a", "hello b"]
            with pytest.raises(MCPError, match=r"'laptop' on requests per minute: limit 2.*try again in 20s") as raised:
                await says(client, "greet", name="c")
            assert raised.value.code == 429
            assert raised.value.data == {"code": "rate_limit_exceeded", "limited": "requests", "retryAfter": 20}
            clock.now += 20
            assert await says(client, "greet", name="c") == "hello c"
        (used,) = await _usage(door)
        assert (used.requests, used.model, used.input_tokens) == (3, "", 0)


async def test_in_compact_mode_lists_searches_and_schemas_are_free(tmp_path: Path) -> None:
    limits = KeyLimits(requests_per_day=1)
    async with mcp_door(tmp_path, [greet], settings=MCPSettings(), key_limits=limits) as door:
        secret = await door.key("laptop")
        async with door.client("2026-07-28", secret=secret) as client:
            for name, arguments in (
                ("list_tools", {}),
                ("search_tools", {"query": "greet"}),
                ("get_tool_schema", {"tool_name": "greet"}),
            ):
                assert not (await client.call_tool(name, arguments)).is_error
            call = {"tool_name": "greet", "arguments": {"name": "a"}}
            assert await says(client, "execute_read", **call) == "hello a"
            with pytest.raises(MCPError, match="requests per day"):
                await says(client, "execute_read", **call)


async def test_of_many_calls_at_once_over_two_replicas_exactly_the_limit_runs(tmp_path: Path) -> None:
    limits = {"requests_per_day": 5}
    async with mcp_door(tmp_path, [greet]) as one, mcp_door(tmp_path, [greet]) as two:
        secret = await one.key("laptop", limits=limits)
        async with one.client("2026-07-28", secret=secret) as first, two.client("2026-07-28", secret=secret) as second:
            calls = [says(client, "greet", name=str(n)) for n in range(6) for client in (first, second)]
            done = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(type(each).__name__ for each in done) == ["MCPError"] * 7 + ["str"] * 5


async def test_another_key_is_not_affected_and_keys_without_limits_are_counted(tmp_path: Path) -> None:
    async with mcp_door(tmp_path, [greet], clock=Clock()) as door:
        small = await door.key("small", limits={"requests_per_day": 1})
        free = await door.key("free")
        async with door.client("legacy", secret=small) as one, door.client("legacy", secret=free) as two:
            await says(one, "greet", name="a")
            with pytest.raises(MCPError, match="Rate limit"):
                await says(one, "greet", name="a")
            for _ in range(3):
                assert await says(two, "greet", name="b") == "hello b"
        assert sorted(used.requests for used in await _usage(door)) == [1, 3]


async def test_the_server_counts_the_calls_of_a_key_and_shows_them(tmp_path: Path) -> None:
    async def command(*words: str) -> Any:
        line = [sys.executable, "-m", "toolcaddie", *words, "--json"]
        environ = {**os.environ, **home_environment(tmp_path)}
        return json.loads((await anyio.run_process(line, cwd=tmp_path, env=environ)).stdout)

    secret = (await command("keys", "add", "laptop", "--requests-per-day", "1"))["secret"]
    with serving(tmp_path, "--catalog", "gym") as server:
        url = server.base_url.removesuffix("/v1") + "/mcp"
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {secret}"}, timeout=20) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            call = {"tool_name": "get_clients_list", "arguments": {"search": "John"}}
            assert "John" in await says(client, "execute_read", **call)
            with pytest.raises(MCPError, match="limit 1"):
                await says(client, "execute_read", **call)
        server.process.terminate()
        server.process.wait(20)
    (used,) = (await command("usage", "keys"))["usage"]
    assert (used["requests"], used["model"]) == (1, "")
