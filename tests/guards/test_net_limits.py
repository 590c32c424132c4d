"""The guarded client's written rules: where it goes, what it reads, how much, and for how long.

No test leaves this machine: sockets for public addresses are diverted to a loopback server.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import sys
import time
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

sys.path.insert(0, str(Path(__file__).parent))

from test_net import redirecting

from security.internet import PUBLIC, Handler, Names, Wire, served
from tests.durations import shortest
from toolcaddie.core.errors import ConfigError, OutboundError
from toolcaddie.guards.net import Reach, guarded_client, host_matches, turn
from toolcaddie.guards.net.rules import RULES

pytestmark = pytest.mark.anyio


def page(_: web.Request) -> web.Response:
    return web.Response(text="a page")


async def refusal_of(client: Any, url: str, **options: Any) -> tuple[str, str]:
    """The rule and the message with which a fetch is refused."""
    with pytest.raises(OutboundError) as refused:
        await client.fetch(url, **options)
    rule = refused.value.rule
    assert not rule or rule in RULES
    assert not rule or f"(rule {rule!r})" in str(refused.value)
    return rule, str(refused.value)


# ---------------------------------------------------------------- where it goes


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://example.com:8080/", "ports"),
        ("https://example.com:22/", "ports"),
        ("http://other.com/", "domains"),
        ("http://example.com.evil.com/", "domains"),
        ("http://evilexample.com/", "domains"),
        ("http://example.org/", "domains"),
        ("ftp://example.com/", "scheme"),
        ("http://127.0.0.1/", "address"),
        ("http://0x7f.1/", "url"),
        ("http://inside.example.com/", "address"),
    ],
)
async def test_a_refusal_names_its_rule(url: str, rule: str) -> None:
    reach = Reach(ports=(80, 443), domains=("example.com", "*.example.com", "*.example.org"))
    wire = Wire()
    names = Names({"inside.example.com": [["10.0.0.1"]]})
    async with guarded_client(resolver=names, open_socket=wire, reach=reach) as client:
        assert (await refusal_of(client, url))[0] == rule
    assert wire.addresses == []


@pytest.mark.parametrize(
    "url", ["http://example.com/", "http://EXAMPLE.com./", "http://a.b.example.com/", "http://m\u00fcnchen.de/"]
)
async def test_the_hosts_of_the_list_are_fetched(url: str) -> None:
    reach = Reach(ports=(80,), domains=("example.com", "*.Example.com", "M\u00dcNCHEN.de"))
    async with served(page) as port, guarded_client(resolver=Names(), open_socket=Wire(port), reach=reach) as client:
        assert (await client.fetch(url)).body == b"a page"


@pytest.mark.parametrize("location", ["http://other.com/", "http://example.com:8080/"])
async def test_a_redirect_cannot_leave_the_list(location: str) -> None:
    reach = Reach(ports=(80,), domains=("example.com",))
    async with served(redirecting(302, location)) as port:
        wire = Wire(port)
        async with guarded_client(resolver=Names(), open_socket=wire, reach=reach) as client:
            assert (await refusal_of(client, "http://example.com/start"))[0] in ("domains", "ports")
    assert wire.addresses == [PUBLIC]


def test_a_star_stands_for_names_below_and_not_for_the_name_itself() -> None:
    assert host_matches("a.example.com", ["*.example.com"])
    assert not host_matches("example.com", ["*.example.com"])
    assert not host_matches(".example.com", ["*.example.com"])
    assert not host_matches("", ["", "*."])


# ---------------------------------------------------------------- private hosts


@asynccontextmanager
async def private(answer: Handler = page, **options: Any) -> AsyncIterator[tuple[int, Any]]:
    """The port of a local server, and a client that may fetch from it."""
    async with (
        served(answer) as port,
        guarded_client(reach=Reach(ports=(80,), private_hosts=(f"localhost:{port}",)), **options) as client,
    ):
        yield port, client


async def test_a_private_host_that_is_named_is_fetched() -> None:
    async with private() as (port, client):
        assert (await client.fetch(f"http://localhost:{port}/")).body == b"a page"
        assert (await client.fetch(f"http://LOCALHOST:{port}/")).body == b"a page"


async def test_only_the_exact_host_and_port_is_fetched() -> None:
    async with served(page) as other, private() as (port, client):
        for url in (f"http://localhost:{other}/", f"http://127.0.0.1:{port}/", f"http://[::1]:{port}/"):
            assert (await refusal_of(client, url))[0] in ("address", "ports")
        assert (await refusal_of(client, "http://localhost/"))[0] == "address"


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]", "10.1.2.3"])
async def test_a_private_address_opens_sockets_to_itself_only(address: str) -> None:
    wire = Wire()
    async with guarded_client(open_socket=wire, reach=Reach(private_hosts=(f"{address}:8080",))) as client:
        assert (await refusal_of(client, f"http://{address}:8080/"))[0] == ""
        assert wire.addresses == [address.strip("[]")]
        assert (await refusal_of(client, f"http://{address}:8081/"))[0] == "address"
        assert (await refusal_of(client, "http://10.1.2.4:8080/"))[0] == "address"
    assert len(wire.addresses) == 1


async def test_a_page_elsewhere_cannot_redirect_to_a_private_host() -> None:
    async with served(page) as inside, served(redirecting(302, f"http://localhost:{inside}/")) as outside:
        wire = Wire(outside)
        reach = Reach(private_hosts=(f"localhost:{inside}",))
        async with guarded_client(resolver=Names(), open_socket=wire, reach=reach) as client:
            assert (await refusal_of(client, "http://example.com/start"))[0] == "redirects"
    assert wire.addresses == [PUBLIC]


async def test_a_private_host_may_redirect_to_another_one_that_is_named_and_to_no_other() -> None:
    async with served(page) as last, served(page) as unnamed:
        for target, is_named in ((last, True), (unnamed, False)):
            async with served(redirecting(307, f"http://localhost:{target}/")) as first:
                reach = Reach(private_hosts=(f"localhost:{first}", f"localhost:{last}"))
                async with guarded_client(reach=reach) as client:
                    if is_named:
                        assert (await client.fetch(f"http://localhost:{first}/start")).body == b"a page"
                    else:
                        assert (await refusal_of(client, f"http://localhost:{first}/start"))[0] == "address"


@pytest.mark.parametrize("name", ["localhost", "localhost:", ":80", "localhost:0", "localhost:99999", "localhost:x"])
def test_a_private_host_without_a_port_is_refused_at_once(name: str) -> None:
    with pytest.raises(ConfigError, match=r"write it like localhost:8080"):
        Reach(private_hosts=(name,))


# ---------------------------------------------------------------- what it reads


def of_type(header: str, body: bytes = b"body") -> Handler:
    return lambda _: web.Response(body=body, headers={"Content-Type": header})


@pytest.mark.parametrize(
    ("header", "is_read"),
    [
        ("text/html; charset=utf-8", True),
        ("TEXT/plain", True),
        ("application/ld+json", True),
        ("application/json", False),
        ("image/png", False),
        ("application/octet-stream", False),
        ("application/json+evil", False),
    ],
)
async def test_only_the_accepted_content_types_are_read(header: str, is_read: bool) -> None:
    async with served(of_type(header)) as port, guarded_client(resolver=Names(), open_socket=Wire(port)) as client:
        types = ("text/*", "application/*+json")
        if is_read:
            assert (await client.fetch("http://example.com/", types=types)).body == b"body"
        else:
            rule, message = await refusal_of(client, "http://example.com/", types=types)
            assert rule == "types"
            assert header.partition(";")[0] in message


def compressed(encoding: str, data: bytes) -> bytes:
    if encoding in ("gzip", "x-gzip"):
        return gzip.compress(data)
    if encoding == "deflate":
        return zlib.compress(data)
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "raw"])
@pytest.mark.parametrize("size", [0, 1, 300_000])
async def test_a_compressed_body_is_read_whole(encoding: str, size: int) -> None:
    data = bytes(range(256)) * (size // 256) or b"x" * size
    body = compressed(encoding, data)
    header = {"Content-Encoding": "deflate" if encoding == "raw" else encoding}
    async with (
        served(lambda _: web.Response(body=body, headers=header)) as port,
        guarded_client(resolver=Names(), open_socket=Wire(port)) as client,
    ):
        assert (await client.fetch("http://example.com/")).body == data


async def test_several_gzip_files_behind_each_other_are_one_body_and_what_follows_them_is_dropped() -> None:
    body = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0garbage"
    async with (
        served(lambda _: web.Response(body=body, headers={"Content-Encoding": "gzip"})) as port,
        guarded_client(resolver=Names(), open_socket=Wire(port)) as client,
    ):
        assert (await client.fetch("http://example.com/")).body == b"one two"


@pytest.mark.parametrize(
    ("encoding", "body", "rule"),
    [
        ("br", b"x", "encoding"),
        ("zstd", b"x", "encoding"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), "encoding"),
        ("gzip", b"not gzip", "encoding"),
        ("gzip", gzip.compress(b"x" * 1_000, mtime=0)[:15], ""),
        ("gzip", gzip.compress(b"", mtime=0) * 1_000, "encoding"),
        ("deflate", b"\xff\xff\xff", "encoding"),
        ("gzip", gzip.compress(bytes(50_000_000), mtime=0), "size"),
        ("deflate", zlib.compress(bytes(50_000_000)), "size"),
    ],
)
async def test_a_body_compressed_otherwise_damaged_or_too_large_is_refused(
    encoding: str, body: bytes, rule: str
) -> None:
    async with (
        served(lambda _: web.Response(body=body, headers={"Content-Encoding": encoding})) as port,
        guarded_client(resolver=Names(), open_socket=Wire(port), max_bytes=1_000_000) as client,
    ):
        assert (await refusal_of(client, "http://example.com/"))[0] == rule


# ---------------------------------------------------------------- how much, and for how long


Script = Callable[[asyncio.StreamWriter], Any]


@asynccontextmanager
async def raw(script: Script) -> AsyncIterator[int]:
    """The port of a server that reads a request and then does what the script says, until the client is gone."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await script(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def dripping(head: bytes, drop: bytes, pause: float) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(pause)

    return script


SLOW: Sequence[tuple[str, Script]] = [
    ("status", dripping(b"HTTP/1.1 200 ", b"O", 0.02)),
    ("headers", dripping(b"HTTP/1.1 200 OK\r\n", b"a", 0.02)),
    ("body", dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"a", 0.02)),
    ("chunks", dripping(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", 0.02)),
]


@pytest.mark.parametrize(("_name", "script"), SLOW, ids=[name for name, _ in SLOW])
async def test_an_answer_that_drips_is_given_up_in_time(_name: str, script: Script) -> None:
    async with raw(script) as port, guarded_client(resolver=Names(), open_socket=Wire(port), seconds=0.3) as client:

        async def duration() -> float:
            began = time.monotonic()
            rule, message = await refusal_of(client, "http://example.com/")
            assert rule == "time"
            assert re.search("did not (finish its )?answer in time|in time, within 0.3 s", message)
            return time.monotonic() - began

        assert 0.25 < await shortest(duration, under=0.8) < 0.8


async def test_the_time_holds_for_the_whole_chain_of_redirects() -> None:
    async def onwards(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.12)
        return web.Response(status=302, headers={"Location": f"{request.path}x"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", onwards)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    wire = Wire(runner.addresses[0][1])
    async with guarded_client(resolver=Names(), open_socket=wire, seconds=0.4, max_redirects=50) as client:

        async def duration() -> float:
            began = time.monotonic()
            assert (await refusal_of(client, "http://example.com/x"))[0] == "time"
            return time.monotonic() - began

        assert await shortest(duration, under=0.9) < 0.9
    await runner.cleanup()


async def test_an_endless_stream_is_left_at_the_limit() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    endless = dripping(head, b"10000\r\n" + bytes(65_536) + b"\r\n", 0)
    async with raw(endless) as port, guarded_client(resolver=Names(), open_socket=Wire(port)) as client:
        assert (await refusal_of(client, "http://example.com/", max_bytes=500_000))[0] == "size"


async def test_an_endless_stream_of_empty_compressed_pieces_is_left_at_the_limit() -> None:
    packer = zlib.compressobj()
    start = packer.compress(b"")
    flush = (packer.flush(zlib.Z_FULL_FLUSH)) * 500
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + start
    async with (
        raw(dripping(head, flush, 0)) as port,
        guarded_client(resolver=Names(), open_socket=Wire(port)) as client,
    ):
        assert (await refusal_of(client, "http://example.com/", max_bytes=100_000))[0] in ("size", "encoding")


async def test_large_bodies_are_read_one_piece_in_each_round_of_the_event_loop() -> None:
    """Counted with a clock of rounds, because a small request waits for as many pieces as are read in one round."""
    loop, rounds, pieces = asyncio.get_running_loop(), [0], []

    def tick() -> None:
        rounds[0] += 1
        loop.call_soon(tick)

    async def reader() -> None:
        for _ in range(20):
            await turn()
            pieces.append(rounds[0])

    tick()
    await asyncio.gather(*(reader() for _ in range(10)))
    assert len(pieces) == 200
    assert len(set(pieces)) == 200


async def test_a_body_that_is_announced_too_large_is_not_read_at_all() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n"
    async with (
        raw(dripping(head, bytes(65_536), 0)) as port,
        guarded_client(resolver=Names(), open_socket=Wire(port)) as client,
    ):
        assert (await refusal_of(client, "http://example.com/"))[0] == "size"


async def test_a_few_interim_answers_are_read_over_and_a_flood_of_them_is_an_error() -> None:
    for number in (3, 100_000):

        async def script(writer: asyncio.StreamWriter, number: int = number) -> None:
            writer.write(
                b"HTTP/1.1 100 Continue\r\n\r\n" * number + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"
            )
            await writer.drain()

        async with raw(script) as port, guarded_client(resolver=Names(), open_socket=Wire(port)) as client:
            if number < 10:
                for _ in range(2):
                    assert (await client.fetch("http://example.com/")).body == b"page"
            else:
                assert "interim answers" in (await refusal_of(client, "http://example.com/"))[1]


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"h%d: x\r\n" % number for number in range(100_000)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nlong: " + b"x" * 10_000_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 " + b"x" * 10_000_000,
        b"\0" * 1_000_000,
    ],
    ids=["many", "long", "status", "zeros"],
)
async def test_a_flood_of_headers_is_an_error(head: bytes) -> None:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()

    async with raw(script) as port, guarded_client(resolver=Names(), open_socket=Wire(port), seconds=5) as client:
        began = time.monotonic()
        await refusal_of(client, "http://example.com/")
        assert time.monotonic() - began < 2


def test_the_page_about_the_web_lists_every_rule_in_its_words() -> None:
    text = (Path(__file__).parents[2] / "docs" / "web.md").read_text()
    assert dict(re.findall(r"^\| `(\w+)` \| ([A-Z][^|]*\.) \|$", text, re.MULTILINE)) == RULES
