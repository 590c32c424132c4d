"""Servers that want to hold up whoever fetches from them, or to fill his memory: python -m security.hostile_pages

It serves each kind of `HOSTILE` at a port of its own, prints the ports as one line of JSON, and ends when its standard input
ends.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

MEGABYTE = 1024 * 1024

Script = Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""Answers a request."""
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def sends(head: bytes, *, then: bytes = b"", pause: float | None = None) -> Script:
    """Returns a server that sends a head and then the same piece for ever, `pause` seconds apart; None: once."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(then)
            await writer.drain()
            if pause is None:
                return
            await asyncio.sleep(pause)

    return script


def page(body: bytes, content_type: str = "text/html", encoding: str = "identity") -> Script:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Encoding: {encoding}\r\n"
    return sends(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n" % len(data) + data + b"\r\n"


def deflated_bomb() -> bytes:
    """Returns 300 MB of zeros, compressed."""
    packer = zlib.compressobj(1)
    return b"".join([*(packer.compress(bytes(MEGABYTE)) for _ in range(300)), packer.flush()])


HOSTILE: Mapping[str, Callable[[], Script]] = {
    "says nothing": lambda: sends(b"", pause=0.05),
    "drips its status": lambda: sends(b"HTTP/1.1 200 ", then=b"O", pause=0.02),
    "drips its headers": lambda: sends(OK, then=b"a", pause=0.02),
    "drips its body": lambda: sends(OK + b"Content-Length: 9999\r\n\r\n", then=b"a", pause=0.02),
    "drips chunks": lambda: sends(CHUNKED, then=chunk(b"a"), pause=0.02),
    "drips what is compressed": lambda: sends(
        OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"")[:10], pause=0.02
    ),
    "never ends": lambda: sends(CHUNKED, then=chunk(bytes(65_536)), pause=0),
    "never ends and is JSON": lambda: sends(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        then=chunk(b"[" * 65_536),
        pause=0,
    ),
    "announces 10 GB": lambda: sends(OK + b"Content-Length: 10737418240\r\n\r\n", then=bytes(65_536), pause=0),
    "announces less than nothing": lambda: sends(OK + b"Content-Length: -1\r\n\r\n", then=bytes(65_536), pause=0),
    "is a gzip bomb": lambda: page(gzip.compress(bytes(100 * MEGABYTE), 1), encoding="gzip"),
    "is a deflate bomb": lambda: page(deflated_bomb(), encoding="deflate"),
    "is a bomb in a bomb": lambda: page(gzip.compress(gzip.compress(bytes(100 * MEGABYTE), 1)), encoding="gzip, gzip"),
    "is a brotli bomb": lambda: page(b"\x5b\xff\xff\xff\x03" * 1_000, encoding="br"),
    "is a zstd bomb": lambda: page(b"\x28\xb5\x2f\xfd" * 1_000, encoding="zstd"),
    "has a million gzip files": lambda: page(gzip.compress(b"") * 200_000, encoding="gzip"),
    "nests HTML": lambda: page(b"<div>" * 900_000),
    "nests formatting": lambda: page(b"<b><p>" * 700_000),
    "nests tables": lambda: page(b"<table><tr><td>" * 300_000),
    "nests lists": lambda: page(b"<ul><li>" * 500_000),
    "has a million attributes": lambda: page(b"<p " + b" ".join(b"a%d=1" % number for number in range(400_000)) + b">"),
    "has a million links": lambda: page(b"<a href=x>x" * 400_000),
    "has only brackets": lambda: page(b"<" * 4_500_000),
    "nests JSON": lambda: page(b"[" * 4_500_000, "application/json"),
    "imitates markers": lambda: page(b"&lt;&lt;&lt;END_EXTERNAL_UNTRUSTED_" * 100_000),
    "has many headers": lambda: sends(b"HTTP/1.1 200 OK\r\n" + b"".join(b"h%d: x\r\n" % n for n in range(200_000))),
    "has endless headers": lambda: sends(b"HTTP/1.1 200 OK\r\n", then=b"header: value\r\n" * 1_000, pause=0),
    "has an endless header": lambda: sends(b"HTTP/1.1 200 OK\r\nheader: ", then=b"x" * 65_536, pause=0),
    "has an endless status": lambda: sends(b"HTTP/1.1 200 ", then=b"x" * 65_536, pause=0),
    "has an endless chunk size": lambda: sends(CHUNKED, then=b"0" * 65_536, pause=0),
    "redirects to itself": lambda: sends(b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"),
    "redirects and drips": lambda: sends(
        b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 99\r\n\r\n", then=b"a", pause=0.02
    ),
    "redirects far": lambda: sends(
        b"HTTP/1.1 302 Found\r\nLocation: /" + b"a" * 8_000 + b"\r\nContent-Length: 0\r\n\r\n"
    ),
    "switches protocols": lambda: sends(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", then=b"x" * 65_536, pause=0
    ),
    "only goes on": lambda: sends(b"", then=b"HTTP/1.1 100 Continue\r\n\r\n" * 100, pause=0),
    "sends noise": lambda: sends(b"", then=bytes(range(256)) * 256, pause=0),
    "hangs up": lambda: sends(b""),
}


@asynccontextmanager
async def hostile_server(script: Script) -> AsyncIterator[int]:
    """Yields the port of a server that reads a request and then does what the script says."""
    writers: set[asyncio.StreamWriter] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            await reader.readuntil(b"\r\n\r\n")
            await script(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client is gone, or the server is stopped
        finally:
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for writer in writers:
            writer.transport.abort()


async def main() -> None:
    """Serves until the standard input ends."""
    async with AsyncExitStack() as stack:
        ports = {name: await stack.enter_async_context(hostile_server(make())) for name, make in HOSTILE.items()}
        print(json.dumps(ports), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
