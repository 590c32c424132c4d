"""Answers of an MCP server that would fill memory or stop the process while they are read."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from security.rogues import bomb, serve
from toolcaddie.core.tool import ToolResult
from toolcaddie.parts import Parts
from toolcaddie.sources.mcp import mcp
from toolcaddie.testing.part_contracts.subject import context

pytestmark = pytest.mark.anyio

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def called(port: int, name: str) -> ToolResult:
    """Returns the result of a tool of the server at this port."""
    source = mcp(name="rogues", url=f"http://127.0.0.1:{port}/mcp", prefix="", parts=Parts())
    await source.open()
    try:
        [tool] = [tool for tool in source.tools() if tool.name == name]
        return await source.call_tool(tool, {}, context())
    finally:
        await source.close()


@asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[int]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.mark.parametrize("kind", ["deflate_bomb", "wide_json", "deep_json", "long_number"])
async def test_a_hostile_answer_fails_the_call_at_once(kind: str) -> None:
    if kind == "deflate_bomb":
        bomb(15)  # packed before the time counts
    async with listening(serve) as port:
        started = time.perf_counter()
        result = await called(port, f"mcp_{kind}")
    assert result.is_error
    assert (
        time.perf_counter() - started < 10
    )  # 20 s and gigabytes if it is decompressed whole, 3 s if it is compared whole


async def test_a_compressed_answer_is_understood() -> None:
    async def compressing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one tool, with all answers compressed."""
        while head := await _head(reader):
            length = next(int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:"))
            request = json.loads(await reader.readexactly(length))
            body = gzip.compress(json.dumps(_answer(request)).encode()) if "id" in request else b""
            status = "200 OK" if body else "202 Accepted"
            lines = f"content-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(f"HTTP/1.1 {status}\r\n{lines}".encode() + body)
            await writer.drain()

    async with listening(compressing) as port:
        assert (await called(port, "greet")).text == "hello"


async def _head(reader: asyncio.StreamReader) -> str:
    """Returns the headers of the next request in lower case; empty: there is none."""
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    except asyncio.IncompleteReadError:
        return ""


def _answer(request: Any) -> Any:
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "rogues", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "hello"}]},
    }
    if request["method"] in results:
        return {"jsonrpc": "2.0", "id": request["id"], "result": results[request["method"]]}
    return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "unknown"}}
