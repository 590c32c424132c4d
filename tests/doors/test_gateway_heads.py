"""Heads of requests that two readers would read differently, and those of pages of other sites."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from serving import gateway

from toolcaddie.testing import ScriptedUpstream, say

pytestmark = pytest.mark.anyio

BODY = b'{"model": "gpt-test", "messages": [{"role": "user", "content": "hi"}]}'
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\n"
MODELS = b"GET /v1/models HTTP/1.1\r\n"


async def answered(base_url: str, head: bytes, body: bytes = b"") -> bytes:
    """The whole answer to these bytes."""
    there = urlsplit(base_url)
    reader, writer = await asyncio.open_connection(there.hostname, there.port)
    writer.write(head + b"connection: close\r\n\r\n" + body)
    answer = await reader.read()
    writer.close()
    return answer


def head(*more: bytes) -> bytes:
    lines = (b"host: 127.0.0.1", b"content-type: application/json", b"content-length: %d" % len(BODY), *more)
    return CHAT + b"".join(line + b"\r\n" for line in lines)


@pytest.mark.parametrize(
    "twice",
    [
        (b"Host: 127.0.0.1",),
        (b"origin: http://evil.example", b"Origin: http://127.0.0.1"),
        (b"authorization: Bearer a", b"authorization: Bearer b"),
        (b"content-type: application/json",),
        (b"content-length: %d" % len(BODY),),
        (b"idempotency-key: a", b"idempotency-key: b"),
    ],
    ids=["host", "origin", "authorization", "content-type", "content-length", "idempotency-key"],
)
async def test_a_header_that_decides_something_may_not_come_twice(twice: tuple[bytes, ...], tmp_path: Path) -> None:
    async with ScriptedUpstream([say("hello")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        assert (await answered(served.base_url, head(*twice), BODY)).startswith(b"HTTP/1.1 400 ")
        assert not upstream.requests
        assert (await answered(served.base_url, head(b"accept: a", b"accept: b"), BODY)).startswith(b"HTTP/1.1 200 ")


async def test_a_doubled_host_is_refused_on_other_paths_too(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream, gateway(tmp_path, upstream.base_url) as served:
        told = await answered(served.base_url, MODELS + b"host: evil.example\r\nhost: 127.0.0.1\r\n")
        assert told.startswith(b"HTTP/1.1 400 ")
        assert b"'host'" in told


@pytest.mark.parametrize(
    ("site", "status"),
    [(b"cross-site", 403), (b"same-site", 403), (b"future", 403), (b"none", 200), (b"same-origin", 200)],
)
async def test_without_keys_a_page_of_another_site_is_refused_also_where_it_sends_no_origin(
    site: bytes, status: int, tmp_path: Path
) -> None:
    async with ScriptedUpstream([say("hello")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        told = await answered(served.base_url, MODELS + b"host: 127.0.0.1\r\nsec-fetch-site: %b\r\n" % site)
        assert told.startswith(b"HTTP/1.1 %d " % status)
        told = await answered(served.base_url, head(b"Sec-Fetch-Site: " + site), BODY)
        assert told.startswith(b"HTTP/1.1 %d " % status)
