"""What an upstream may write into the head of its answer, and what of it a client sees. A raw socket plays the upstream."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from serving import gateway

from toolcaddie.core.bounds import Bounds

pytestmark = pytest.mark.anyio

TALK = {"model": "gpt-test", "messages": [{"role": "user", "content": "hi"}]}
TOOLS = [{"type": "function", "function": {"name": "draw", "parameters": {"type": "object", "properties": {}}}}]


@contextlib.asynccontextmanager
async def answering(head: bytes, body: bytes = b'{"choices": []}') -> AsyncIterator[str]:
    """An upstream that answers each request with these bytes: a status line with headers, and a body."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def asked(folder: Path, head: bytes, ask: dict[str, Any]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    async with (
        answering(head) as upstream,
        gateway(folder, upstream) as served,
        aiohttp.ClientSession() as session,
        session.post(f"{served.base_url}/v1/chat/completions", json=ask) as answer,
    ):
        return answer.status, [(name.lower(), value) for name, value in answer.raw_headers], await answer.read()


@pytest.mark.parametrize("status", [199, 600, 999])
@pytest.mark.parametrize("ask", [TALK, {**TALK, "tools": TOOLS}], ids=["forwarded", "run"])
async def test_a_status_that_http_does_not_have_is_a_bad_gateway(
    status: int, ask: dict[str, Any], tmp_path: Path
) -> None:
    head = b"HTTP/1.1 %d Odd\r\ncontent-type: application/json\r\n" % status
    if status < 200:  # such a status is read as a notice before an answer that never comes
        head = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n"
    told, headers, body = await asked(tmp_path, head, ask)
    assert told == 502
    assert dict(headers)[b"content-type"] == b"application/json"
    assert b"upstream" in body


async def test_a_header_in_bytes_of_no_character_set_goes_through_as_it_is(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-note: \xff\xfe \xe2\x82\xac\r\n"
    status, headers, _ = await asked(tmp_path, head, TALK)
    assert status == 200
    assert (b"x-note", b"\xff\xfe \xe2\x82\xac") in headers


KEPT_BACK = [
    *(b"set-cookie", b"access-control-allow-origin", b"x-toolcaddie-run", b"strict-transport-security", b"alt-svc"),
    *(b"clear-site-data", b"server", b"refresh", b"link", b"location", b"x-accel-redirect", b"x-sendfile"),
    *(b"content-security-policy", b"www-authenticate", b"keep-alive", b"proxy-authenticate", b"upgrade"),
]
GO_BACK = [b"x-request-id", b"openai-processing-ms", b"x-ratelimit-remaining-tokens", b"retry-after", b"x-should-retry"]


async def test_only_headers_meant_for_the_client_come_back_from_the_upstream(tmp_path: Path) -> None:
    told = b"".join(b"%b: 1\r\n" % name for name in (*KEPT_BACK, *GO_BACK))
    status, headers, _ = await asked(tmp_path, b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + told, TALK)
    names = {name for name, _ in headers}
    assert status == 200
    assert not names & set(KEPT_BACK)
    assert names >= set(GO_BACK)


async def test_a_control_character_in_a_header_is_no_header_of_ours(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-note: a\x01b\r\n"
    status, headers, _ = await asked(tmp_path, head, TALK)
    assert status in (200, 502)
    assert b"x-note" not in dict(headers)


async def test_models_of_an_upstream_with_an_odd_head_are_no_500(tmp_path: Path) -> None:
    for head in (b"HTTP/1.1 999 Odd\r\n", b"HTTP/1.1 200 OK\r\ncontent-type: \xff\xfe\r\n"):
        async with (
            answering(head) as upstream,
            gateway(tmp_path, upstream, own_upstream_key=False) as served,
            aiohttp.ClientSession() as session,
            session.get(f"{served.base_url}/v1/models", headers={"authorization": "Bearer theirs"}) as answer,
        ):
            assert answer.status in (200, 502)


async def test_a_list_of_models_beyond_the_bound_of_an_answer_is_a_bad_gateway(tmp_path: Path) -> None:
    body = b'{"data": [' + b" " * 2_000_000 + b"]}"
    async with (
        answering(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n", body) as upstream,
        gateway(tmp_path, upstream, own_upstream_key=False, bounds=Bounds(answer=1_000_000)) as served,
        aiohttp.ClientSession() as session,
        session.get(f"{served.base_url}/v1/models", headers={"authorization": "Bearer theirs"}) as answer,
    ):
        assert answer.status == 502
        assert "1,000,000 bytes" in (await answer.json())["error"]["message"]
