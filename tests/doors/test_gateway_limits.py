"""Limits of API keys, over real sockets: at the gateway's doors, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.doors.serving import Gateway, gateway
from tests.doors.test_gateway_passing import upstream as upstream_of_everything
from tests.storage.conftest import Clock
from toolcaddie import tool
from toolcaddie.core.capabilities import CAPABILITIES, capabilities_from
from toolcaddie.core.control import Principal
from toolcaddie.core.key_limits import BILLION, Amounts, KeyLimits, KeyUsage
from toolcaddie.testing import ScriptedUpstream, call, refuse, say

pytestmark = pytest.mark.anyio

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
ASK = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
BODIES: Mapping[str, Mapping[str, Any]] = {
    CHAT: ASK,
    RESPONSES: {"model": "m", "input": "hello"},
    MESSAGES: {**ASK, "max_tokens": 50},
}
TOOL = {"type": "function", "function": {"name": "wave", "parameters": {"type": "object", "properties": {}}}}
PRICED = [capabilities_from({"pattern": "m", "prices": {"input": 1_000, "output": 2_000}}), *CAPABILITIES]
DAY = "1970-01-12"
"""The day of `Clock`: 40 seconds into a minute, 10:13:20 before midnight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def limits(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items() if "ratelimit" in name.lower()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client with a key."""

    gateway: Gateway
    session: aiohttp.ClientSession
    secret: str

    async def ask(self, path: str = CHAT, **more: Any) -> Answer:
        headers = {"authorization": f"Bearer {self.secret}"}
        body = {**BODIES[path], **more}
        async with self.session.post(f"{self.gateway.base_url}{path}", json=body, headers=headers) as answer:
            whole = answer.content_type == "application/json"
            content = await answer.json() if whole else await answer.text()
            return Answer(status=answer.status, headers=answer.headers, body=content)

    async def usage(self) -> list[KeyUsage]:
        meter = self.gateway.database.meter
        await meter.close()
        await meter.reserve("other", Amounts(), KeyLimits(requests_per_day=1))  # writes are in order
        return list(await meter.usage(first=DAY, last=DAY))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def limited(
    folder: Path, upstream: Any, clock: Clock, own: Mapping[str, float | None] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """A gateway and a client whose key has these limits."""
    address = upstream if isinstance(upstream, str) else upstream.base_url
    async with gateway(folder, address, clock=clock, **options) as served, aiohttp.ClientSession() as session:
        _, secret = await served.database.keys.add("laptop", Principal(id="ann"), limits=own or {})
        yield Client(gateway=served, session=session, secret=secret)


@pytest.mark.parametrize("tools", [[], [TOOL]], ids=["passed on", "run"])
async def test_a_key_is_refused_beyond_its_limit_and_each_answer_reports_it(
    tools: list[Any], tmp_path: Path, clock: Clock
) -> None:
    own = {"requests_per_minute": 2, "requests_per_day": 100, "tokens_per_day": 10_000}
    more = {"tools": tools} if tools else {}
    async with (
        ScriptedUpstream([say("one"), say("two"), say("three")]) as upstream,
        limited(tmp_path, upstream, clock, own) as client,
    ):
        first, second, third = [await client.ask(**more) for _ in range(3)]
        assert (first.status, second.status, third.status) == (200, 200, 429)
        assert first.limits["x-ratelimit-limit-requests"] == "2"
        assert first.limits["x-ratelimit-remaining-requests"] == "1"
        assert first.limits["x-ratelimit-reset-requests"] == "20s"
        assert first.limits["x-ratelimit-limit-tokens"] == "10000"
        assert first.limits["x-ratelimit-reset-tokens"] == "10h13m20s"
        assert 8_000 < int(first.limits["x-ratelimit-remaining-tokens"]) < 9_000  # an answer of 1,000 is reserved
        assert int(second.limits["x-ratelimit-remaining-tokens"]) > 8_000  # the first one is settled
        assert third.headers["retry-after"] == "20"
        assert third.limits["x-ratelimit-remaining-requests"] == "0"
        assert third.body["error"]["code"] == "rate_limit_exceeded"
        assert third.body["error"]["type"] == "requests"
        assert "'laptop' on requests per minute: limit 2" in third.body["error"]["message"]
        assert len(upstream.requests) == 2
        clock.now += 20
        assert (await client.ask(**more)).status == 200


async def test_of_many_requests_at_once_exactly_the_limit_is_answered(tmp_path: Path, clock: Clock) -> None:
    async with (
        ScriptedUpstream([say("yes")] * 40) as upstream,
        limited(tmp_path, upstream, clock, {"requests_per_minute": 7}) as client,
    ):
        answers = await asyncio.gather(*(client.ask() for _ in range(40)))
        assert sorted(answer.status for answer in answers) == [200] * 7 + [429] * 33
        assert len(upstream.requests) == 7


async def test_each_door_refuses_in_its_own_form(tmp_path: Path, clock: Clock) -> None:
    async with (
        ScriptedUpstream([]) as upstream,
        limited(tmp_path, upstream, clock, {"requests_per_day": 1}) as client,
    ):
        (key,) = await client.gateway.database.keys.list()
        await client.gateway.database.meter.reserve(key.id, Amounts(requests=1), KeyLimits(requests_per_day=1))
        chat, responses, messages = [await client.ask(path) for path in BODIES]
        assert {chat.status, responses.status, messages.status} == {429}
        assert chat.body["error"].keys() == responses.body["error"].keys() == {"message", "type", "param", "code"}
        assert messages.body["type"] == "error"
        assert messages.body["error"]["type"] == "rate_limit_error"
        assert messages.limits["anthropic-ratelimit-requests-limit"] == "1"
        assert messages.limits["anthropic-ratelimit-requests-remaining"] == "0"
        assert messages.limits["anthropic-ratelimit-requests-reset"] == "1970-01-13T00:00:00Z"
        assert "anthropic-ratelimit-requests-limit" not in chat.limits
        assert {answer.headers["retry-after"] for answer in (chat, responses, messages)} == {"36800"}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", list(BODIES))
@pytest.mark.parametrize("tools", [False, True], ids=["plain", "tools"])
async def test_tokens_and_money_are_counted_by_day_and_model(
    path: str, tools: bool, stream: bool, tmp_path: Path, clock: Clock
) -> None:
    forms = {
        CHAT: TOOL,
        RESPONSES: {"type": "function", **TOOL["function"]},  # type: ignore[dict-item]
        MESSAGES: {"name": "wave", "input_schema": {"type": "object", "properties": {}}},
    }
    more: dict[str, Any] = {"tools": [forms[path]]} if tools else {}
    if stream:
        more["stream"] = True
        if path == CHAT:
            more["stream_options"] = {"include_usage": True}
    async with (
        ScriptedUpstream([say("one two three")]) as upstream,
        limited(tmp_path, upstream, clock, {"dollars_per_day": 100}, capabilities=PRICED) as client,
    ):
        assert (await client.ask(path, **more)).status == 200
        (used,) = await client.usage()
        assert (used.day, used.model, used.requests, used.estimated, used.unpriced) == (DAY, "m", 1, 0, 0)
        assert used.input_tokens > 0
        assert used.output_tokens > 0
        assert used.money == (used.input_tokens + 2 * used.output_tokens) * BILLION // 1_000


async def test_a_money_limit_refuses_when_it_is_spent(tmp_path: Path, clock: Clock) -> None:
    async with (
        ScriptedUpstream([say("one"), say("two")]) as upstream,
        limited(tmp_path, upstream, clock, {"dollars_per_day": 0.001}, capabilities=PRICED) as client,
    ):
        assert (await client.ask()).status == 200  # estimated above the limit, and the window is empty
        refused = await client.ask()
        assert refused.status == 429
        assert refused.body["error"]["type"] == "dollars"
        assert len(upstream.requests) == 1


async def test_a_model_without_a_price_counts_tokens_only(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        ScriptedUpstream([say("one"), say("two")]) as upstream,
        limited(tmp_path, upstream, clock, {"dollars_per_day": 0.000_001}) as client,
    ):
        assert [(await client.ask()).status for _ in range(2)] == [200, 200]
        (used,) = await client.usage()
        assert (used.requests, used.unpriced, used.money) == (2, 2, 0)
        assert used.input_tokens > 0


async def test_what_a_client_left_in_the_middle_is_counted(tmp_path: Path, clock: Clock) -> None:
    for tools in ([], [TOOL]):
        folder = tmp_path / str(len(tools))
        folder.mkdir()
        held = asyncio.Event()
        async with (
            HoldingUpstream(held) as address,
            limited(folder, address, clock, {"tokens_per_day": 100_000}) as client,
        ):
            body = {**ASK, "stream": True, **({"tools": tools} if tools else {})}
            headers = {"authorization": f"Bearer {client.secret}"}
            async with client.session.post(f"{client.gateway.base_url}{CHAT}", json=body, headers=headers) as answer:
                await answer.content.readany()
            async with asyncio.timeout(5):
                while not (rows := await client.usage()):  # noqa: ASYNC110  the database has no event for it
                    await asyncio.sleep(0.01)
            held.set()
        (used,) = rows
        assert (used.requests, used.estimated) == (1, 1)
        assert used.input_tokens > 0
        assert used.output_tokens > 0


@pytest.mark.parametrize("tools", [[], [TOOL]], ids=["passed on", "run"])
async def test_what_an_upstream_sent_before_it_broke_off_is_counted(
    tools: list[Any], tmp_path: Path, clock: Clock
) -> None:
    broken = asyncio.Event()
    broken.set()
    async with (
        HoldingUpstream(broken) as address,
        limited(tmp_path, address, clock, {"tokens_per_day": 100_000}) as client,
    ):
        assert "some words" in (await client.ask(stream=True, **({"tools": tools} if tools else {}))).body
        (used,) = await client.usage()
    assert (used.requests, used.estimated) == (1, 1)
    assert used.input_tokens > 0
    assert used.output_tokens > 0


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/responses/input_tokens"])
async def test_a_count_of_tokens_is_no_request(path: str, tmp_path: Path, clock: Clock) -> None:
    async with (
        ScriptedUpstream([say("yes")]) as upstream,
        limited(tmp_path, upstream, clock, {"requests_per_minute": 1}) as client,
    ):
        body = BODIES[path.rpartition("/")[0]]
        headers = {"authorization": f"Bearer {client.secret}"}
        for _ in range(3):
            async with client.session.post(f"{client.gateway.base_url}{path}", json=body, headers=headers) as answer:
                assert answer.status == 200
        assert [(await client.ask()).status for _ in range(2)] == [200, 429]


async def test_a_refused_request_of_the_upstream_costs_a_request_and_no_tokens(tmp_path: Path, clock: Clock) -> None:
    own = {"requests_per_minute": 5, "tokens_per_minute": 1_500}
    async with (
        ScriptedUpstream([refuse(400), refuse(400), say("yes")]) as upstream,
        limited(tmp_path, upstream, clock, own) as client,
    ):
        assert [(await client.ask(**more)).status for more in ({}, {"tools": [TOOL]})] == [400, 400]
        answer = await client.ask()
        assert answer.status == 200
        assert answer.limits["x-ratelimit-remaining-requests"] == "2"
        used = {each.model: each for each in await client.usage()}
        assert (used[""].requests, used[""].input_tokens) == (2, 0)


async def test_defaults_hold_for_keys_without_limits_of_their_own_and_a_change_works_at_once(
    tmp_path: Path, clock: Clock
) -> None:
    async with (
        ScriptedUpstream([say("yes")] * 4) as upstream,
        limited(tmp_path, upstream, clock, key_limits=KeyLimits(requests_per_minute=1)) as client,
    ):
        assert [(await client.ask()).status for _ in range(2)] == [200, 429]
        await client.gateway.database.keys.limit("laptop", {"requests_per_minute": 2})
        assert [(await client.ask()).status for _ in range(2)] == [200, 429]
        await client.gateway.database.keys.limit("laptop", {"requests_per_minute": None})
        answer = await client.ask()
        assert (answer.status, answer.limits) == (200, {})


async def test_a_key_without_limits_is_counted_too(tmp_path: Path, clock: Clock) -> None:
    async with ScriptedUpstream([say("yes")]) as upstream, limited(tmp_path, upstream, clock) as client:
        answer = await client.ask()
        assert (answer.status, answer.limits) == (200, {})
        assert [(each.model, each.requests) for each in await client.usage()] == [("m", 1)]


class HoldingUpstream:
    """A server that sends the beginning of a stream, and holds back the rest."""

    def __init__(self, held: asyncio.Event) -> None:
        self._held = held

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}/v1"

    async def __aexit__(self, *_: object) -> None:
        self._held.set()
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        piece = (
            b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
            b'"delta":{"role":"assistant","content":"some words of an answer"},"finish_reason":null}]}\n\n'
        )
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + piece)
        await writer.drain()
        await self._held.wait()
        writer.close()


async def test_requests_that_are_passed_on_count_too(tmp_path: Path, clock: Clock) -> None:
    async with (
        upstream_of_everything() as (address, requests),
        limited(tmp_path, address, clock, {"requests_per_minute": 2}) as client,
    ):
        embed = {"model": "m", "input": "hello"}
        statuses = []
        for path in ("/v1/embeddings", "/v1/moderations", "/v1/embeddings"):
            headers = {"authorization": f"Bearer {client.secret}"}
            async with client.session.post(f"{client.gateway.base_url}{path}", json=embed, headers=headers) as answer:
                statuses.append(answer.status)
        assert statuses == [200, 200, 429]
        assert len(requests) == 2


async def test_a_message_that_continues_a_run_which_waited_is_a_request_like_any_other(
    tmp_path: Path, clock: Clock
) -> None:
    deleted: list[str] = []

    @tool(destructive=True)
    def delete_client(name: str) -> str:
        """Delete a client."""
        deleted.append(name)
        return "gone"

    async with (
        ScriptedUpstream([call("delete_client", {"name": "John"}), say("Done.")]) as upstream,
        limited(tmp_path, upstream, clock, {"requests_per_minute": 1}, sources=[delete_client]) as client,
    ):
        paused = await client.ask()
        approvals = client.gateway.runtime.approvals
        (asked,) = await approvals.list("default", status="open")
        await approvals.answer("default", asked.id, approved=True, by=Principal(id="boss"))
        messages = [*ASK["messages"], paused.body["choices"][0]["message"], {"role": "user", "content": "go on"}]
        assert (await client.ask(messages=messages)).status == 429
        assert deleted == []
        clock.now += 20
        assert (await client.ask(messages=messages)).status == 200
        assert deleted == ["John"]
        (used,) = await client.usage()
        assert used.requests == 2
        assert used.input_tokens > 0
