"""Tool servers that fail again and again, and reads that are sent twice: real HTTP and MCP servers, and a clock that the test
moves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from tests.sources.mcp.upstream import make_server, serving
from tests.sources.mcp.using import called, context
from tests.storage.conftest import Clock
from toolcaddie.core.breakers import BreakerSettings
from toolcaddie.guards.breakers import Breakers
from toolcaddie.parts import Parts
from toolcaddie.sources.mcp import McpServer, McpSource
from toolcaddie.sources.openapi import OpenApi, OpenApiSource

pytestmark = pytest.mark.anyio

SETTINGS = BreakerSettings(requests=4, pause=5)
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Orders", "version": "1"},
    "paths": {
        "/orders": {
            "get": {"operationId": "list_orders", "responses": {"200": {"description": "OK"}}},
            "post": {"operationId": "add_order", "responses": {"200": {"description": "OK"}}},
        }
    },
}

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def orders(
    folder: Path, answer: Answer, parts: Parts | None = None, **settings: Any
) -> AsyncIterator[OpenApiSource]:
    """An API of orders, as an open source."""
    app = web.Application()
    app.router.add_route("*", "/orders", answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    document = folder / "api.json"
    document.write_text(json.dumps(DOCUMENT))
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    api = OpenApi(name="shop", document=str(document), servers=(address,), **settings)
    source = OpenApiSource(api, parts or Parts())
    await source.open()
    try:
        yield source
    finally:
        await source.close()
        await runner.cleanup()


async def use(source: OpenApiSource, name: str) -> Any:
    tool = next(tool for tool in source.tools() if tool.name == name)
    return await source.call_tool(tool, {}, context())


async def test_an_api_that_fails_again_and_again_is_left_alone_until_a_trial_succeeds(tmp_path: Path) -> None:
    clock, statuses, number = Clock(), [500] * 4 + [200] * 2, 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal number
        number += 1
        return web.json_response({"number": number}, status=statuses[number - 1])

    async with orders(tmp_path, answer, Parts(breakers=Breakers(SETTINGS, clock=clock))) as source:
        for _ in range(4):
            assert (await use(source, "list_orders")).is_error
        refused = await use(source, "add_order")
        assert "'shop' has failed too often, so nothing is sent to it for another 5 s" in refused.text
        assert "may have taken effect" not in refused.text
        assert number == 4
        clock.now += 5
        assert not (await use(source, "list_orders")).is_error
        assert not (await use(source, "add_order")).is_error


async def test_a_read_that_takes_long_is_sent_twice_and_the_first_answer_counts(tmp_path: Path) -> None:
    number, cancelled = 0, asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal number
        number += 1
        if number == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
        return web.json_response({"number": number})

    async with orders(tmp_path, answer, hedge_after=0.02) as source:
        result = await use(source, "list_orders")
        assert not result.is_error
        assert '"number"' in result.text
        await asyncio.wait_for(cancelled.wait(), 5)
        assert number == 2


async def test_a_request_that_may_have_effects_is_never_sent_twice(tmp_path: Path) -> None:
    number, gate = 0, asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal number
        number += 1
        asyncio.get_running_loop().call_later(0.1, gate.set)
        await gate.wait()
        return web.json_response({})

    async with orders(tmp_path, answer, hedge_after=0.01) as source:
        assert not (await use(source, "add_order")).is_error
        assert number == 1


async def test_an_mcp_server_that_does_not_answer_in_time_is_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    parts = Parts(breakers=Breakers(SETTINGS, clock=clock))
    async with serving(make_server()) as url:
        source = McpSource(McpServer(name="up", url=url, timeout=0.05), parts)
        await source.open()
        try:
            for _ in range(4):
                assert (await called(source, "wait", seconds=30)).error == "timeout"
            refused = await called(source, "add", a=1, b=2)
            assert "has failed too often" in refused.text
            clock.now += 5
            source_again = await called(source, "wait", seconds=0)
            assert source_again.text == "waited"
            assert (await called(source, "add", a=1, b=2)).text == "3"
        finally:
            await source.close()


@pytest.mark.parametrize(("reads", "calls"), [(True, 2), (False, 1)])
async def test_only_calls_of_tools_that_read_are_sent_twice_to_an_mcp_server(reads: bool, calls: int) -> None:
    number, gate = 0, asyncio.Event()
    server = MCPServer("slow")

    @server.tool(annotations=ToolAnnotations(read_only_hint=reads))
    async def look() -> str:
        """Look."""
        nonlocal number
        number += 1
        if number == 1:
            asyncio.get_running_loop().call_later(5 if reads else 0.2, gate.set)
            await gate.wait()
        return f"look {number}"

    async with serving(server) as url:
        source = McpSource(McpServer(name="up", url=url, hedge_after=0.05, trusted=True), Parts())
        await source.open()
        try:
            assert (await called(source, "look")).text == f"look {calls}"
            assert number == calls
        finally:
            gate.set()
            await source.close()
