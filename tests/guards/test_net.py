"""Outgoing requests: the operator's stay on their host, everybody else's stay on the public Internet.

No test leaves this machine: sockets for public addresses are diverted to a loopback server or refused when they are opened.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
from collections.abc import Iterable
from pathlib import Path

import pytest
from aiohttp import web

from security.internet import PUBLIC, Handler, Names, Wire, served
from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.net import (
    checked_url,
    guarded_client,
    operator_client,
    read_capped,
    why_not_public,
)

CORPORA = Path(os.environ.get("TOOLCADDIE_SHARED", Path(__file__).parents[3] / "shared")) / "corpora"
needs_corpora = pytest.mark.skipif(not CORPORA.is_dir(), reason="the shared corpora are not beside the project")


def line_values(name: str) -> Iterable[str]:
    for line in (CORPORA / name).read_text().splitlines():
        yield json.loads(line.removeprefix("json:")) if line.startswith("json:") else line


# ---------------------------------------------------------------- which addresses are public


@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.255", "168.63.129.16"),
        *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1"),
        *("198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1"),
        *("64:ff9b:1::a9fe:a9fe", "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1"),
        *("2002:7f00:1::", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1"),
        *("100:0:0:1::1", "5f00::", "3fff:fff::1", "2001:1ff::1", "255.255.255.254", "0.255.255.255", "192.0.0.8"),
        *("2a00:1450::5efe:127.0.0.1", "2a00:1450::200:5efe:10.0.0.1", "5f00::1", "nonsense", ""),
    ],
)
def test_an_address_that_is_not_of_the_public_internet_is_refused_with_its_use(address: str) -> None:
    assert why_not_public(address)


@pytest.mark.parametrize(
    "address",
    [
        *("8.8.8.8", PUBLIC, "100.128.0.1", "100.63.255.255", "172.15.0.1", "172.32.0.1", "192.169.0.1", "169.253.0.1"),
        *("198.17.0.1", "198.20.0.1", "223.255.255.255", "168.63.129.17", "2001:4860:4860::8888", "2606:4700::1111"),
    ],
)
def test_a_public_address_beside_a_closed_range_is_allowed(address: str) -> None:
    assert why_not_public(address) is None


# ---------------------------------------------------------------- which URLs are gone to


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.com/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("gopher://127.0.0.1:25/_x", "only http and https"),
        ("example.com/path", "only http and https"),
        ("http:///path", "not a URL|names no host"),
        ("http://exa mple.com/", "not a URL"),
        ("http://example.com\\@127.0.0.1/", "not a URL"),
        ("http://169.254.169.254\t/", "not a URL"),
        ("http://127.0.0.1:99999/", "not a URL"),
        ("http://[::1/", "not a URL"),
        ("http://2130706433/", "spelling"),
        ("http://0x7f.1/", "spelling"),
        ("http://0177.0.0.1/", "spelling"),
        ("http://127.1/", "spelling"),
        ("http://425.510.425.510/", "spelling"),
        ("http://127.0.0.1./", "loopback"),
        ("http://①②⑦.⓪.⓪.①/", "loopback"),
        ("http://user@127.0.0.1/", "loopback"),
        ("https://[::ffff:169.254.169.254]/", "IPv4 address in IPv6"),
        ("http://[fe80::1%25eth0]/", "link-local"),
    ],
)
def test_a_url_that_cannot_be_meant_well_is_refused_before_anything_is_looked_up(url: str, words: str) -> None:
    with pytest.raises(OutboundError, match=words):
        checked_url(url)


def test_a_refusal_does_not_repeat_the_credentials_in_a_url() -> None:
    with pytest.raises(OutboundError) as refused:
        checked_url("http://user:hunter2@127.0.0.1/?token=hunter3")
    assert "hunter" not in str(refused.value)


# ---------------------------------------------------------------- the guarded client


@pytest.mark.anyio
async def test_a_public_page_is_fetched() -> None:
    async with served(lambda request: web.Response(text=f"hello {request.host}")) as port:
        wire = Wire(port)
        async with guarded_client(resolver=Names(), open_socket=wire) as client:
            page = await client.fetch("http://example.com/a?b=c")
    assert (page.status, page.body, page.url) == (200, b"hello example.com", "http://example.com/a?b=c")
    assert wire.addresses == [PUBLIC]


@pytest.mark.anyio
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.1", "::ffff:10.0.0.1", "169.254.169.254"])
async def test_a_name_that_leads_inside_opens_no_socket(address: str) -> None:
    wire = Wire()
    async with guarded_client(resolver=Names({"inside.test": [[address]]}), open_socket=wire) as client:
        with pytest.raises(OutboundError, match="is not public"):
            await client.fetch("http://inside.test/")
    assert wire.addresses == []


@pytest.mark.anyio
async def test_a_name_that_changes_its_answer_between_two_looks_is_judged_at_each_connection() -> None:
    async with served(lambda _: web.Response(text="fine", headers={"Connection": "close"})) as port:
        wire = Wire(port)
        names = Names({"rebind.test": [[PUBLIC], ["127.0.0.1"]]})
        async with guarded_client(resolver=names, open_socket=wire) as client:
            assert (await client.fetch("http://rebind.test/")).body == b"fine"
            client._public.connector.clear_dns_cache()
            with pytest.raises(OutboundError, match="loopback"):
                await client.fetch("http://rebind.test/")
    assert wire.addresses == [PUBLIC]


def redirecting(status: int, location: str) -> Handler:
    return lambda request: web.Response(
        status=status if request.path == "/start" else 200,
        headers={"Location": location} if request.path == "/start" else {},
        text=f"{request.method} {sorted(name.lower() for name in request.headers)}",
    )


@pytest.mark.anyio
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/",
        "//169.254.169.254/",
        "http://inside.test/",
        "http://0x7f.1/",
        "file:///etc/passwd",
        "/\\[::1]/",
    ],
)
async def test_a_redirect_inside_is_not_followed(status: int, location: str) -> None:
    async with served(redirecting(status, location)) as port:
        wire = Wire(port)
        names = Names({"inside.test": [["127.0.0.1"]]})
        async with guarded_client(resolver=names, open_socket=wire) as client:
            with pytest.raises(OutboundError):
                await client.fetch("http://example.com/start")
    assert wire.addresses == [PUBLIC]


@pytest.mark.anyio
async def test_a_redirect_to_another_host_carries_no_credential_and_no_body() -> None:
    headers = {"Authorization": "Bearer x", "X-Api-Key": "x", "Cookie": "a=b", "Accept": "text/plain"}
    async with (
        served(redirecting(303, "http://other.test/end")) as port,
        guarded_client(resolver=Names(), open_socket=Wire(port)) as client,
    ):
        page = await client.fetch("http://example.com/start", method="POST", headers=headers, body=b"secret")
    assert page.url == "http://other.test/end"
    assert page.body == b"GET ['accept', 'accept-encoding', 'host', 'user-agent']"


@pytest.mark.anyio
async def test_redirects_without_end_are_left_after_the_limit() -> None:
    paths = []

    def onwards(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(status=302, headers={"Location": f"{request.path}x"})

    async with (
        served(onwards) as port,
        guarded_client(resolver=Names(), open_socket=Wire(port), max_redirects=3) as client,
    ):
        with pytest.raises(OutboundError, match="more than 3 redirects"):
            await client.fetch("http://example.com/x")
    assert paths == ["/x", "/xx", "/xxx", "/xxxx"]


@pytest.mark.anyio
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("compressed", [True, False])
async def test_an_answer_over_the_size_limit_is_dropped_also_when_it_was_small_on_the_wire(
    chunked: bool, compressed: bool
) -> None:
    def big(_: web.Request) -> web.Response:
        body = bytes(100_000)
        response = web.Response(body=gzip.compress(body) if compressed else body)
        if compressed:
            response.headers["Content-Encoding"] = "gzip"
        if chunked:
            response.enable_chunked_encoding()
        return response

    async with (
        served(big) as port,
        guarded_client(resolver=Names(), open_socket=Wire(port), max_bytes=99_999) as client,
    ):
        with pytest.raises(OutboundError, match="larger than the 99,999 bytes"):
            await client.fetch("http://example.com/")
        assert len((await client.fetch("http://example.com/", max_bytes=100_000)).body) == 100_000


@pytest.mark.anyio
async def test_a_server_that_says_nothing_is_an_error_and_not_a_wait() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        wire = Wire(silent.getsockname()[1])
        async with guarded_client(resolver=Names(), open_socket=wire, seconds=0.05) as client:
            with pytest.raises(OutboundError, match="did not answer in time"):
                await client.fetch("http://example.com/")


@pytest.mark.anyio
async def test_a_proxy_in_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with served(lambda _: web.Response(text="direct")) as port:
        async with guarded_client(resolver=Names(), open_socket=Wire(port)) as client:
            assert (await client.fetch("http://example.com/")).body == b"direct"
        async with operator_client() as session, session.get(f"http://127.0.0.1:{port}/") as response:
            assert await response.text() == "direct"


@needs_corpora
@pytest.mark.anyio
async def test_no_hostile_url_reaches_an_address_inside() -> None:
    names = json.loads((CORPORA / "ssrf_dns.json").read_text())
    hops = {}
    for line in (CORPORA / "ssrf_redirects.jsonl").read_text().splitlines():
        entry = json.loads(line)
        start = entry["url"].removeprefix("http://").split("/")[0]
        hops[start] = entry["hops"]

    def answer(request: web.Request) -> web.Response:
        chain = hops.get(request.host)
        if chain is None:
            return web.Response(text="a page")
        hop = chain[int(request.path.strip("/") or 0)]
        location = {"Location": hop["location"]} if "location" in hop else {}
        return web.Response(status=hop["status"], headers={**location, **hop.get("headers", {})}, text=hop.get("body"))

    urls = list(line_values("ssrf_urls.txt"))
    async with served(answer) as port:
        for url in urls:
            wire = Wire(port)
            async with guarded_client(resolver=Names(names), open_socket=wire) as client:
                for _ in range(3):  # a name may answer otherwise the next time
                    client._public.connector.clear_dns_cache()
                    try:
                        await client.fetch(url)
                    except OutboundError:
                        continue
            inside = [address for address in wire.addresses if why_not_public(address)]
            assert not inside, f"{url!r} reached {inside}"
    assert len(urls) > 900


@needs_corpora
@pytest.mark.anyio
async def test_every_harmless_url_goes_out_to_its_own_address() -> None:
    names = json.loads((CORPORA / "ssrf_dns.json").read_text())
    for url in line_values("ssrf_allow.txt"):
        wire = Wire()
        async with guarded_client(resolver=Names(names), open_socket=wire) as client:
            with pytest.raises(OutboundError, match="no network in tests"):
                await client.fetch(url)
        assert wire.addresses, url


# ---------------------------------------------------------------- the operator's client


@pytest.mark.anyio
async def test_the_operators_client_reaches_this_machine_and_follows_a_redirect_on_its_host() -> None:
    async with (
        served(redirecting(307, "/end")) as port,
        operator_client(headers={"X-Key": "k"}) as session,
        session.post(f"http://127.0.0.1:{port}/start", data=b"x") as response,
    ):
        assert response.url.path == "/end"
        assert "'x-key'" in await response.text()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "location", ["http://other.test/", "//other.test/end", "http://127.0.0.1:1/", "http://localhost/"]
)
async def test_the_operators_client_follows_no_redirect_to_another_host_and_names_both(location: str) -> None:
    async with served(redirecting(302, location)) as port, operator_client() as session:
        with pytest.raises(OutboundError, match=r"127\.0\.0\.1.* redirects to another host, http://"):
            await session.get(f"http://127.0.0.1:{port}/start")


@pytest.mark.anyio
async def test_the_operators_client_keeps_no_cookies() -> None:
    def answer(request: web.Request) -> web.Response:
        return web.Response(text=request.headers.get("Cookie", "none"), headers={"Set-Cookie": "a=b"})

    async with served(answer) as port, operator_client() as session:
        for _ in range(2):
            async with session.get(f"http://127.0.0.1:{port}/") as response:
                assert await response.text() == "none"


@pytest.mark.anyio
async def test_a_capped_read_gives_the_whole_body_or_an_error() -> None:
    async with served(lambda _: web.Response(body=b"12345")) as port, operator_client() as session:
        async with session.get(f"http://127.0.0.1:{port}/") as response:
            assert await read_capped(response, 5) == b"12345"
        async with session.get(f"http://127.0.0.1:{port}/") as response:
            with pytest.raises(OutboundError, match="4 bytes"):
                await read_capped(response, 4)


@pytest.mark.anyio
async def test_many_exchanges_run_at_once() -> None:
    arrived = asyncio.Semaphore(0)
    release = asyncio.Event()

    async def hold(_: web.Request) -> web.Response:
        arrived.release()
        await release.wait()
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/", hold)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with operator_client() as session:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        waiting = [asyncio.ensure_future(session.get(url)) for _ in range(110)]
        for _ in waiting:
            await arrived.acquire()
        release.set()
        assert {(await each).status for each in waiting} == {200}
        for each in waiting:
            each.result().close()
    await runner.cleanup()
