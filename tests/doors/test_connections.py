"""What clients send beside their requests on one connection, over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from serving import gateway

from toolcaddie.core.bounds import Bounds
from toolcaddie.doors.gateway.protocol import bounded_protocol
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedUpstream, call, say

pytestmark = pytest.mark.anyio

BODY = b'{"model": "gpt-test", "messages": [{"role": "user", "content": "pay 7"}]}'
UPGRADE = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEA\r\n"


def head(more: bytes = b"", *, length: int = len(BODY)) -> bytes:
    lines = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return lines + b"content-length: %d\r\n" % length + more + b"\r\n"


CLOSING = head(b"connection: close\r\n") + BODY


class Till:
    """A tool whose calls wait until `open`."""

    def __init__(self) -> None:
        self.begun, self.open = asyncio.Event(), asyncio.Event()

    @property
    def source(self) -> FunctionSource:
        @tool
        async def pay(amount: int) -> str:
            """Pay an amount."""
            self.begun.set()
            await self.open.wait()
            return f"paid {amount}"

        return FunctionSource("till", [pay])


@contextlib.asynccontextmanager
async def connected(
    folder: Path, till: Till, bounds: Bounds, runs: int = 1
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with (
        ScriptedUpstream([call("pay", {"amount": 7}), say("It is paid.")] * runs) as upstream,
        gateway(folder, upstream.base_url, sources=[till.source], http=bounded_protocol(bounds)) as served,
    ):
        there = urlsplit(served.base_url)
        reader, writer = await asyncio.open_connection(there.hostname, there.port)
        try:
            yield reader, writer
        finally:
            writer.close()


def statuses(answers: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1.1 (\d+)", answers)]


@pytest.mark.parametrize(
    "behind", [b"\x00\x01", b"GET /hea", b"GET / HTTP/1.1\r\nx: " + b"a" * 20_000], ids=["noise", "half", "long"]
)
async def test_what_is_wrong_behind_a_request_does_not_take_its_answer(behind: bytes, tmp_path: Path) -> None:
    till = Till()
    async with connected(tmp_path, till, Bounds(head_seconds=0.1)) as (reader, writer):
        writer.write(head() + BODY)
        await till.begun.wait()
        writer.write(behind)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.3)
        till.open.set()
        answers = await reader.read()
    assert statuses(answers) == [200]
    assert b"It is paid." in answers


async def test_an_empty_line_behind_a_body_means_nothing(tmp_path: Path) -> None:
    till = Till()
    async with connected(tmp_path, till, Bounds(head_seconds=0.1), runs=2) as (reader, writer):
        writer.write(head() + BODY)
        await till.begun.wait()
        writer.write(b"\r\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.3)
        till.open.set()
        first = await reader.readuntil(b"\r\n\r\n")
        writer.write(CLOSING)
        answers = first + await reader.read()
    assert statuses(answers) == [200, 200]


async def test_a_body_that_does_not_come_is_not_answered_in_the_place_of_the_request_before(tmp_path: Path) -> None:
    till = Till()
    async with connected(tmp_path, till, Bounds(body_seconds=0.1)) as (reader, writer):
        writer.write(head() + BODY + head(length=500_000) + b"{")
        await till.begun.wait()
        assert await reader.read() == b""


@pytest.mark.parametrize("pieces", [1, 2], ids=["at once", "body later"])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_a_client_that_offers_http_2_is_answered_as_if_it_did_not(
    chunked: bool, pieces: int, tmp_path: Path
) -> None:
    till = Till()
    till.open.set()
    begin, body = head(UPGRADE), BODY
    if chunked:
        begin = begin.replace(b"content-length: %d" % len(BODY), b"transfer-encoding: chunked")
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    async with connected(tmp_path, till, Bounds(), runs=2) as (reader, writer):
        writer.write(begin if pieces == 2 else begin + body)
        if pieces == 2:
            await asyncio.sleep(0.05)  # for a segment of its own
            writer.write(body)
        first = await reader.readuntil(b"\r\n\r\n")
        writer.write(CLOSING)
        answers = first + await reader.read()
    assert statuses(answers) == [200, 200]
    assert answers.count(b"It is paid.") == 2


async def test_the_body_of_a_client_that_offers_http_2_is_no_request_of_its_own(tmp_path: Path) -> None:
    till, hidden = Till(), b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    async with connected(tmp_path, till, Bounds()) as (reader, writer):
        writer.write(head(UPGRADE.replace(b"connection: ", b"connection: close, "), length=len(hidden)) + hidden)
        assert statuses(await reader.read()) == [400]


class Impatient(bounded_protocol(Bounds())):  # type: ignore[misc]
    """Waits a moment for the next request of a connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.timeout_keep_alive = 0.2


async def test_a_connection_whose_request_was_answered_before_its_body_came_is_not_kept_for_ever(
    tmp_path: Path,
) -> None:
    async with ScriptedUpstream() as upstream, gateway(tmp_path, upstream.base_url, http=Impatient) as served:
        there = urlsplit(served.base_url)
        reader, writer = await asyncio.open_connection(there.hostname, there.port)
        for _ in range(2):
            writer.write(head().replace(b"POST", b"PUT"))
            answer = await reader.readuntil(b"\r\n\r\n")
            writer.write(BODY)
            await reader.readexactly(int(re.findall(rb"content-length: (\d+)", answer)[0]))
            assert statuses(answer) == [405]
        assert await asyncio.wait_for(reader.read(), 3) == b""
        writer.close()
