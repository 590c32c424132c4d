"""Whatever goes wrong in the guarded client, its caller has one exception to catch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

import contextlib

from test_net import CORPORA, needs_corpora

from security.internet import Names, Wire, served
from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.net import checked_url, guarded_client, why_not_public


@pytest.mark.anyio
@pytest.mark.parametrize(
    "location",
    [
        "http://[::ffff:0x7f.0.0.1]/",
        "http://[::ffff:127.0.0.1%25lo]:80:80/",
        "//[::1",
        "http://[v1.x]/",
        "http://a:b:c/",
        "http://:99999999/",
        "https://xn--/",
        f"http://{'a' * 70}.test/",
    ],
)
async def test_a_redirect_to_something_that_is_no_url_is_an_outbound_error(location: str) -> None:
    await never_another_error([(302, location)])


@pytest.mark.anyio
async def test_a_name_server_without_any_answer_is_an_outbound_error() -> None:
    class Empty(Names):
        async def resolve(self, *_: Any, **__: Any) -> list[Any]:
            return []

    async with guarded_client(resolver=Empty(), open_socket=Wire()) as client:
        with pytest.raises(OutboundError, match=r"http://example\.com/ cannot be fetched"):
            await client.fetch("http://example.com/")


LITERALS = st.sampled_from(
    [
        "127.0.0.1",
        "[::1]",
        "[::ffff:0x7f.0.0.1]",
        "0x7f.1",
        "2130706433",
        "[",
        "]",
        "[]",
        "%",
        "%00",
        "xn--",
        "a..b",
        "\u2488",
    ]
)
HOSTS = st.one_of(LITERALS, st.text(max_size=30), st.from_regex(r"\[[0-9a-fx:.%]{0,20}\]?", fullmatch=True))
URLS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["http://", "https://", "//", "", "http:", "HTTP:///", "gopher://", "http://user:pw@"]),
        HOSTS,
        st.sampled_from(["", ":", ":0", ":80", ":99999", ":-1", ":a", ":80:80"]),
        st.text(max_size=10).map(lambda text: f"/{text}"),
    ),
)


@given(URLS)
def test_any_text_is_a_url_we_would_go_to_or_an_outbound_error(text: str) -> None:
    with contextlib.suppress(OutboundError):
        checked_url(text)


@pytest.mark.anyio
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(location=URLS)
async def test_a_redirect_to_any_text_is_followed_outside_or_an_outbound_error(
    anyio_backend: str, location: str
) -> None:
    await never_another_error([(302, location)])


@pytest.mark.anyio
@needs_corpora
async def test_no_redirect_of_the_corpus_ends_in_another_error() -> None:
    for line in (CORPORA / "ssrf_redirects.jsonl").read_text().splitlines():
        case = json.loads(line)
        await never_another_error([(hop["status"], hop.get("location", "")) for hop in case["hops"]])


@pytest.mark.anyio
@needs_corpora
async def test_no_url_of_the_corpus_as_a_redirect_ends_in_another_error() -> None:
    for line in (CORPORA / "ssrf_urls.txt").read_text().splitlines()[::4]:
        await never_another_error([(307, json.loads(line[5:]) if line.startswith("json:") else line)])


async def never_another_error(hops: list[tuple[int, str]]) -> None:
    """Fetches through the hops; a header that no server can send is left to the ones before it."""
    left = iter(hops)

    def answer(_: web.Request) -> web.Response:
        status, location = next(left, (200, ""))
        sendable = "".join(sign for sign in location if sign.isprintable() and sign.isascii())
        return web.Response(status=status, headers={"Location": sendable} if sendable else {})

    async with served(answer) as port:
        wire = Wire(port)
        async with guarded_client(resolver=Names(), open_socket=wire, seconds=5) as client:
            with contextlib.suppress(OutboundError):
                await client.fetch("http://example.com/start")
    assert not [address for address in wire.addresses if why_not_public(address)]
