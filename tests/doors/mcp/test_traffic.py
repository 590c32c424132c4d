"""Requests at the MCP door that get no place, over a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.doors.mcp.doors import mcp_door
from toolcaddie import tool
from toolcaddie.app.settings.traffic import TrafficSettings

pytestmark = pytest.mark.anyio

PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HEADERS = {"accept": "application/json, text/event-stream"}


async def test_a_request_without_a_place_gets_an_error_of_json_rpc(tmp_path: Path) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def brew() -> str:
        """Brews tea."""
        begun.set()
        await gate.wait()
        return "tea"

    traffic = TrafficSettings(requests=1, waiting=1, wait_seconds=0.05)
    async with (
        mcp_door(tmp_path, [brew], traffic=traffic) as door,
        aiohttp.ClientSession(headers=HEADERS) as session,
        door.client("2026-07-28") as client,
    ):
        running = asyncio.create_task(client.call_tool("brew", {}))
        await begun.wait()
        async with session.post(door.url, json=PING) as answer:
            body = await answer.json()
        assert answer.status == 429
        assert body["error"]["code"] == 429
        assert body["error"]["data"]["retryAfter"] == int(answer.headers["retry-after"]) >= 1
        assert body["id"] is None
        gate.set()
        assert (await running).content[0].text == "tea"
