"""`web_fetch` against servers that want to hold it up or fill its memory: each call ends in time, and memory grows little."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from security.internet import Names, Wire
from toolcaddie import PracticeModel, Runtime
from toolcaddie.core.tool import ToolResult
from toolcaddie.guards.net import guarded_client
from toolcaddie.parts import Parts
from toolcaddie.tools.web.settings import FetchSettings
from toolcaddie.tools.web.source import WebSource

pytestmark = pytest.mark.anyio

TIMEOUT = 1.0
GRACE = 0.5
MEGABYTE = 1024 * 1024
MOST_MEMORY = 64 * MEGABYTE

Script = Callable[[asyncio.StreamWriter], Any]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def sends(head: bytes, *, then: bytes = b"", pause: float | None = None) -> Script:
    """A server that sends a head and then the same piece for ever, `pause` seconds apart; None: it sends it once and closes."""

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
    """A gigabyte of zeros, twice compressed to some kilobytes."""
    packer = zlib.compressobj(9)
    return b"".join([*(packer.compress(bytes(MEGABYTE)) for _ in range(1_024)), packer.flush()])


HOSTILE: dict[str, Callable[[], Script]] = {
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
    "is a gzip bomb": lambda: page(gzip.compress(bytes(200 * MEGABYTE)), encoding="gzip"),
    "is a deflate bomb": lambda: page(deflated_bomb(), encoding="deflate"),
    "is a bomb in a bomb": lambda: page(gzip.compress(gzip.compress(bytes(100 * MEGABYTE))), encoding="gzip, gzip"),
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
async def server(script: Script) -> AsyncIterator[int]:
    writers: set[asyncio.StreamWriter] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            await reader.readuntil(b"\r\n\r\n")
            await script(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for writer in writers:
            writer.transport.abort()


async def fetched(port: int, **fetch: Any) -> ToolResult:
    parts = Parts(guarded_client=lambda **options: guarded_client(resolver=Names(), open_socket=Wire(port), **options))
    source = WebSource(None, fetch=FetchSettings(timeout=TIMEOUT, **fetch), parts=parts)
    async with Runtime(provider=PracticeModel(), sources=[source]) as runtime:
        return await runtime.call("web_fetch", {"url": "http://example.com/"})


@contextmanager
def little_memory() -> Iterator[None]:
    """Fails if the process grows in the block by more than it may."""
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    yield
    assert memory("VmHWM") - before < MOST_MEMORY


def memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="this system does not tell its peak memory"
)


@needs_proc
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_server_is_left_in_time_and_with_little_memory(name: str) -> None:
    async with server(HOSTILE[name]()) as port:
        with little_memory():
            began = time.monotonic()
            result = await fetched(port)
            seconds = time.monotonic() - began
    assert seconds < TIMEOUT + GRACE
    assert len(result.text) < 60_000
    assert result.is_error or name in (
        "nests JSON",
        "has only brackets",
        "has a million links",
        "imitates markers",
        "nests formatting",
    )


@needs_proc
async def test_forty_hostile_servers_at_once_do_not_hold_up_a_good_one() -> None:
    names = list(HOSTILE) * 2
    async with server(page(b"<p>fine</p>")) as good:
        with little_memory():
            hostile = [asyncio.create_task(one(HOSTILE[name]())) for name in names[:40]]
            waits = []
            while not all(task.done() for task in hostile):
                began = time.monotonic()
                async with asyncio.timeout(TIMEOUT + GRACE):
                    reader, writer = await asyncio.open_connection("127.0.0.1", good)
                    writer.write(b"GET / HTTP/1.1\r\n\r\n")
                    await reader.read()
                    writer.close()
                waits.append(time.monotonic() - began)
                await asyncio.sleep(0.01)
    assert all(task.result() < TIMEOUT + GRACE + 1 for task in hostile)
    assert sorted(waits)[int(len(waits) * 0.95)] < 0.5


async def one(script: Script) -> float:
    """Fetches from a hostile server; the seconds that it took."""
    async with server(script) as port:
        began = time.monotonic()
        await fetched(port)
        return time.monotonic() - began
