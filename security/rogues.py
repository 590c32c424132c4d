"""A server that answers as no server should, in a process of its own: python -m security.rogues

It prints its port. `GET /KIND` misbehaves in the way of that kind, and `POST /mcp` is an MCP server whose tool KIND does the same
with its result. It ends when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

_MEGABYTE = 1024 * 1024
_PIECE = b"x" * 16_384
_TEN_GIGABYTES = 10 * 1024 * _MEGABYTE
_SLOW = 0.1
"""Seconds between two bytes of a slow answer."""
_PACE = 0.01
"""Seconds between two pieces of an endless answer, so that the sender does not take the machine's time from everybody."""

Pieces = AsyncIterator[bytes]


def _head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *lines, "", "")).encode()


def _whole(body: bytes, kind: str, *more: str) -> bytes:
    return _head(f"content-type: {kind}", f"content-length: {len(body)}", "connection: close", *more) + body


@functools.cache
def bomb(window: int) -> bytes:
    """Returns 1 GB of zeros, compressed to 1 MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    block = bytes(_MEGABYTE)
    return b"".join([*(packer.compress(block) for _ in range(1_024)), packer.flush()])


# ---------------------------------------------------------------- answers over time


async def hang() -> Pieces:
    """Never answers."""
    await asyncio.sleep(600)
    yield b""


async def slow_head() -> Pieces:
    """Sends the headers byte by byte."""
    for byte in _head("content-type: text/plain", "x-long: " + "x" * 100_000):
        yield bytes([byte])
        await asyncio.sleep(_SLOW)


async def slow_body() -> Pieces:
    """Sends the body byte by byte."""
    yield _head("content-type: application/json", "transfer-encoding: chunked")
    while True:
        yield b"1\r\n \r\n"
        await asyncio.sleep(_SLOW)


async def endless() -> Pieces:
    """Sends a body without an end, whose length it does not tell."""
    yield _head("content-type: text/plain", "transfer-encoding: chunked")
    while True:
        yield b"%x\r\n%s\r\n" % (len(_PIECE), _PIECE)
        await asyncio.sleep(_PACE)


async def unsized() -> Pieces:
    """Sends a body without an end that only the end of the connection would end."""
    yield _head("content-type: text/html", "connection: close")
    while True:
        yield _PIECE
        await asyncio.sleep(_PACE)


async def ten_gigabytes() -> Pieces:
    """Sends a body of 10 GB, as it says before."""
    yield _head("content-type: application/json", f"content-length: {_TEN_GIGABYTES}")
    for _ in range(_TEN_GIGABYTES // len(_PIECE)):
        yield _PIECE
        await asyncio.sleep(_PACE)


async def endless_head() -> Pieces:
    """Sends headers without an end."""
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        yield b"x-more: y\r\n" * 100
        await asyncio.sleep(_PACE)


async def events() -> Pieces:
    """Sends server-sent events without an end and without an answer among them."""
    yield _head("content-type: text/event-stream", "transfer-encoding: chunked")
    event = b"event: message\ndata: {}\n\n"
    while True:
        yield b"%x\r\n%s\r\n" % (len(event), event)
        await asyncio.sleep(_PACE)


# ---------------------------------------------------------------- answers at once

_DEEP = b"[" * 200_000 + b"]" * 200_000

_AT_ONCE: Mapping[str, Callable[[], bytes]] = {
    "gzip_bomb": lambda: _whole(bomb(31), "text/plain", "content-encoding: gzip"),
    "deflate_bomb": lambda: _whole(bomb(15), "application/json", "content-encoding: deflate"),
    "deep_json": lambda: _whole(_DEEP, "application/json"),
    "wide_json": lambda: _whole(
        b"{" + b",".join(b'"k%d":0' % number for number in range(300_000)) + b"}", "application/json"
    ),
    "long_number": lambda: _whole(b"[" + b"9" * 5_000_000 + b"]", "application/json"),
    "deep_html": lambda: _whole(b"<div>" * 100_000 + b"text", "text/html"),
    "attributes": lambda: _whole(b"<p " + b"a=b " * 500_000 + b">text", "text/html"),
    "cut": lambda: _head("content-type: text/plain", "content-length: 1000") + b"only this",
    "garbage": lambda: b"\x00\xff\xfe not HTTP at all\r\n\r\n" * 100,
    "redirect": lambda: _head("location: /redirect", "content-length: 0", status="302 Found"),
}
_OVER_TIME: Mapping[str, Callable[[], Pieces]] = {
    each.__name__: each for each in (hang, slow_head, slow_body, endless, unsized, ten_gigabytes, endless_head, events)
}
KINDS = (*_OVER_TIME, *_AT_ONCE)


async def _answer(kind: str, writer: asyncio.StreamWriter) -> None:
    if kind in _AT_ONCE:
        writer.write(_AT_ONCE[kind]())
        await writer.drain()
    elif kind in _OVER_TIME:
        async for piece in _OVER_TIME[kind]():
            writer.write(piece)
            await writer.drain()
    else:
        writer.write(_head("content-length: 0", status="404 Not Found"))


# ---------------------------------------------------------------- MCP


def _tools() -> list[dict[str, Any]]:
    return [{"name": f"mcp_{kind}", "inputSchema": {"type": "object", "properties": {}}} for kind in KINDS]


async def _mcp(body: bytes, writer: asyncio.StreamWriter) -> None:
    """Answers a message of an MCP client; a call in the way of its tool's kind."""
    request = json.loads(body)
    if "id" not in request:
        writer.write(_head("content-length: 0", status="202 Accepted"))
        return
    match request["method"]:
        case "initialize":
            result: Any = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "rogues", "version": "1"},
            }
        case "tools/list":
            result = {"tools": _tools()}
        case "tools/call":
            await _answer(request["params"]["name"].removeprefix("mcp_"), writer)
            return
        case method:
            error = {"code": -32601, "message": f"there is no {method}"}
            writer.write(_reply({"jsonrpc": "2.0", "id": request["id"], "error": error}))
            return
    writer.write(_reply({"jsonrpc": "2.0", "id": request["id"], "result": result}))


def _reply(message: Mapping[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return _head("content-type: application/json", f"content-length: {len(body)}") + body


# ---------------------------------------------------------------- OpenAPI


def document(port: int) -> dict[str, Any]:
    """Returns an OpenAPI document with an operation for each kind."""
    operation = {"responses": {"200": {"description": "an answer"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "rogues", "version": "1"},
        "servers": [{"url": f"http://127.0.0.1:{port}"}],
        "paths": {f"/{kind}": {"get": {"operationId": f"api_{kind}", **operation}} for kind in KINDS},
    }


# ---------------------------------------------------------------- the server


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, path, _ = head.split(" ", 2)
            length = next(
                (int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0
            )
            body = await reader.readexactly(length)
            if path == "/mcp" and method == "POST":
                await _mcp(body, writer)
            else:
                await _answer(path.strip("/"), writer)
            await writer.drain()
            if path != "/mcp":
                break
    writer.close()


async def main() -> None:
    bomb(31), bomb(15)  # packed before anybody asks, because it takes seconds
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
