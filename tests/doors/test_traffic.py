"""Requests that wait for their turn, and those that get none: over real sockets, with a model that answers when the test says
so."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.doors.serving import Gateway, gateway
from toolcaddie.app.settings.load import load_settings
from toolcaddie.app.settings.traffic import TrafficSettings
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.testing import Reply, ScriptedUpstream, say

pytestmark = pytest.mark.anyio

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
COUNT, EMBEDDINGS = "/v1/messages/count_tokens", "/v1/embeddings"
TOOL = {"type": "function", "function": {"name": "wave", "parameters": {"type": "object", "properties": {}}}}


@dataclass(slots=True)
class Model:
    """A model that answers each request when it may. `asked` has the texts of the requests in the order of their arrival."""

    asked: list[str] = field(default_factory=list)
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    arrival: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def answer(self, body: Mapping[str, Any]) -> Reply:
        self.asked.append(body["messages"][-1]["content"])
        async with self.arrival:
            self.arrival.notify_all()
        await self.places.acquire()
        return say("done")

    def let(self, number: int) -> None:
        """Lets it answer so many requests."""
        for _ in range(number):
            self.places.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A gateway in front of that model, with a key for each tenant."""

    gateway: Gateway
    session: aiohttp.ClientSession
    model: Model
    secrets: Mapping[str, str]

    def ask(self, tenant: str, text: str, **more: Any) -> asyncio.Task[tuple[int, Mapping[str, str], Any]]:
        return asyncio.create_task(self.answer(tenant, text, **more))

    async def answer(self, tenant: str, text: str, path: str = CHAT, **more: Any) -> tuple[int, Mapping[str, str], Any]:
        body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
        headers = {"authorization": f"Bearer {self.secrets[tenant]}"}
        async with self.session.post(f"{self.gateway.base_url}{path}", json=body, headers=headers) as answer:
            return answer.status, answer.headers, await answer.json()

    async def figure(self, name: str) -> float:
        headers = {"authorization": f"Bearer {self.secrets['operator']}"}
        async with self.session.get(f"{self.gateway.base_url}/metrics", headers=headers) as answer:
            assert answer.status == 200
            lines = (await answer.text()).splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"toolcaddie_requests_{name}"))

    async def until(self, **figures: float) -> None:
        """Waits until the metrics are these: `waiting`, `at_work`."""
        async with asyncio.timeout(10):
            for name, value in figures.items():
                while await self.figure(name) != value:
                    pass

    async def until_asked(self, number: int) -> None:
        async with asyncio.timeout(10), self.model.arrival:
            await self.model.arrival.wait_for(lambda: len(self.model.asked) >= number)


@asynccontextmanager
async def busy(folder: Path, tenants: Sequence[str] = ("acme", "globex"), **traffic: Any) -> AsyncIterator[Busy]:
    model = Model()
    async with (
        ScriptedUpstream([model.answer] * 100) as upstream,
        gateway(folder, upstream.base_url, traffic=TrafficSettings(**traffic)) as served,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=20)
        ) as session,
    ):
        keys = served.database.keys
        secrets = {name: (await keys.add(name, Principal(id=name, tenant=name)))[1] for name in tenants}
        secrets["operator"] = (await keys.add("operator", Principal(id="operator", role="metrics")))[1]
        yield Busy(gateway=served, session=session, model=model, secrets=secrets)
        model.let(100)


@pytest.mark.parametrize("tools", [[], [TOOL]], ids=["passed on", "run"])
async def test_a_request_without_a_place_waits_and_beyond_that_is_refused(tools: list[Any], tmp_path: Path) -> None:
    more = {"tools": tools} if tools else {}
    async with busy(tmp_path, requests=1, waiting=1) as there:
        first = there.ask("acme", "first", **more)
        await there.until(at_work=1)
        second = there.ask("acme", "second", **more)
        await there.until(waiting=1)
        status, headers, body = await there.answer("acme", "third", **more)
        assert status == 429
        assert 1 <= int(headers["retry-after"]) <= 60
        assert body["error"]["code"] == "too_many_requests"
        assert "traffic.waiting" in body["error"]["message"]
        there.model.let(2)
        assert [(await each)[0] for each in (first, second)] == [200, 200]
        assert there.model.asked == ["first", "second"]
        assert await there.figure("at_work") == await there.figure("waiting") == 0


async def test_each_door_refuses_in_its_own_form_and_health_stays_reachable(tmp_path: Path) -> None:
    async with busy(tmp_path, requests=1, waiting=1) as there:
        running = [there.ask("acme", "first")]
        await there.until(at_work=1)
        running.append(there.ask("acme", "second"))
        await there.until(waiting=1)
        for path in (CHAT, RESPONSES, EMBEDDINGS):
            status, _, body = await there.answer("acme", "more", path)
            assert (status, body["error"]["type"]) == (429, "rate_limit_error")
        for path in (MESSAGES, COUNT):
            status, _, body = await there.answer("acme", "more", path)
            assert (status, body["type"], body["error"]["type"]) == (429, "error", "rate_limit_error")
        for path in ("/healthz", "/readyz"):
            async with there.session.get(f"{there.gateway.base_url}{path}") as answer:
                assert answer.status == 200
        there.model.let(2)
        await asyncio.gather(*running)


async def test_a_refusal_comes_before_the_body_is_sent(tmp_path: Path) -> None:
    async with busy(tmp_path, requests=1, waiting=1) as there:
        running = [there.ask("acme", "first")]
        await there.until(at_work=1)
        running.append(there.ask("acme", "second"))
        await there.until(waiting=1)
        where = urlsplit(there.gateway.base_url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        lines = (
            f"POST {CHAT} HTTP/1.1",
            "host: 127.0.0.1",
            f"authorization: Bearer {there.secrets['acme']}",
            "content-type: application/json",
            "content-length: 5000000",
        )
        writer.write("\r\n".join((*lines, "", "")).encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 429 ")
        writer.close()
        there.model.let(2)
        await asyncio.gather(*running)


async def test_the_waiting_requests_of_tenants_take_turns(tmp_path: Path) -> None:
    async with busy(tmp_path, requests=1, waiting=20) as there:
        running = [there.ask("acme", "acme")]
        await there.until(at_work=1)
        running += [there.ask("acme", "acme") for _ in range(8)]
        await there.until(waiting=8)
        running += [there.ask("globex", "globex") for _ in range(2)]
        await there.until(waiting=10)
        there.model.let(11)
        assert {(await each)[0] for each in running} == {200}
        assert there.model.asked[1:5] in (["acme", "globex"] * 2, ["globex", "acme"] * 2)


async def test_a_tenant_with_a_larger_weight_gets_more_turns(tmp_path: Path) -> None:
    async with busy(tmp_path, requests=1, waiting=20, weights={"globex": 3}) as there:
        running = [there.ask("acme", "first")]
        await there.until(at_work=1)
        running += [there.ask(tenant, tenant) for tenant in ("acme", "globex") for _ in range(6)]
        await there.until(waiting=12)
        there.model.let(13)
        await asyncio.gather(*running)
        assert Counter(there.model.asked[1:9]) == {"globex": 6, "acme": 2}


async def test_the_newest_request_of_the_longest_queue_gives_way(tmp_path: Path) -> None:
    async with busy(tmp_path, requests=1, waiting=3) as there:
        running = [there.ask("acme", "0")]
        for number in (1, 2, 3):
            await there.until(at_work=1, waiting=number - 1)
            running.append(there.ask("acme", str(number)))
        await there.until(waiting=3)
        other = there.ask("globex", "other")
        assert (await running[3])[0] == 429
        there.model.let(4)
        assert (await other)[0] == 200
        assert [(await each)[0] for each in running[:3]] == [200, 200, 200]


async def test_one_tenant_never_takes_all_places(tmp_path: Path) -> None:
    async with busy(tmp_path, requests=4, waiting=10, per_tenant=2) as there:
        there.model.let(1)
        assert (await there.answer("globex", "hello"))[0] == 200
        running = [there.ask("acme", "acme") for _ in range(5)]
        await there.until(at_work=2, waiting=3)
        other = there.ask("globex", "globex")
        await there.until_asked(4)
        assert there.model.asked == ["hello", "acme", "acme", "globex"]
        there.model.let(6)
        assert {(await each)[0] for each in (*running, other)} == {200}


async def test_a_request_that_has_waited_too_long_is_refused(tmp_path: Path) -> None:
    async with busy(tmp_path, requests=1, waiting=5, wait_seconds=0.05) as there:
        running = there.ask("acme", "first")
        await there.until(at_work=1)
        status, headers, body = await there.answer("globex", "second")
        assert (status, int(headers["retry-after"]) >= 1) == (429, True)
        assert "traffic.wait_seconds" in body["error"]["message"]
        there.model.let(1)
        assert (await running)[0] == 200
        assert await there.figure("refused_total") == 1


async def test_a_client_that_leaves_while_it_waits_takes_no_place(tmp_path: Path) -> None:
    async with busy(tmp_path, requests=1, waiting=5) as there:
        running = there.ask("acme", "first")
        await there.until(at_work=1)
        gone = there.ask("acme", "gone")
        await there.until(waiting=1)
        gone.cancel()
        there.model.let(3)
        assert (await running)[0] == 200
        assert (await there.answer("acme", "next"))[0] == 200
        await there.until(at_work=0, waiting=0)


async def test_requests_that_wait_for_a_model_do_not_hold_up_others(tmp_path: Path) -> None:
    async with busy(tmp_path) as there:
        running = [there.ask("acme", "hello", tools=[TOOL]) for _ in range(30)]
        await there.until_asked(30)
        there.model.let(30)
        assert {(await each)[0] for each in running} == {200}


async def test_places_that_leave_no_connection_for_health_checks_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "toolcaddie.toml"
    file.write_text("[bounds]\nconnections = 100\n[traffic]\nrequests = 90\nwaiting = 10\n")
    with pytest.raises(ConfigError, match=r"traffic\.requests \(90\).*bounds\.connections \(100\)"):
        load_settings(file, environ={})
