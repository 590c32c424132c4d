"""A request with an `idempotency-key` runs once, whoever sends it again, and its sender gets the answer of that run."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import openai
import pytest

from tests.databases import change, content, database_url, locked

sys.path.insert(0, str(Path(__file__).parent))

from serving import Gateway, gateway

from toolcaddie.app.settings import Idempotency
from toolcaddie.core.control import Principal
from toolcaddie.core.presets import PRESETS
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.testing import ScriptedUpstream, call, refuse, say

pytestmark = pytest.mark.anyio

ASK: Any = {"model": "gpt-test", "messages": [{"role": "user", "content": "pay 7"}]}
DRAW = {"type": "function", "function": {"name": "draw", "parameters": {"type": "object", "properties": {}}}}


class Shop:
    """One tool with an effect that can be counted. `open` lets its calls end."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    @property
    def source(self) -> FunctionSource:
        @tool
        async def pay(amount: int) -> str:
            """Pay an amount."""
            self.paid.append(amount)
            self.begun.set()
            await self.open.wait()
            return f"paid {amount}"

        return FunctionSource("shop", [pay])


def paying(times: int = 1) -> list[Any]:
    return [call("pay", {"amount": 7}), say("It is paid.")] * times


@contextlib.asynccontextmanager
async def shop_of(folder: Path, script: Sequence[Any], shop: Shop, **options: Any) -> AsyncIterator[Gateway]:
    async with (
        ScriptedUpstream(script) as upstream,
        gateway(folder, upstream.base_url, sources=[shop.source], **options) as served,
    ):
        yield served


class Answer:
    def __init__(self, response: aiohttp.ClientResponse, body: bytes) -> None:
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def error(self) -> Any:
        return msgspec.json.decode(self.body)["error"]


async def sent(
    served: Gateway, key: str | None = "key-1", ask: Any = ASK, path: str = "chat/completions", **headers: str
) -> Answer:
    if key is not None:
        headers["idempotency-key"] = key
    url = f"{served.base_url}/v1/{path}"
    async with aiohttp.ClientSession() as session, session.post(url, json=ask, headers=headers) as response:
        return Answer(response, await response.read())


def database_of(folder: Path) -> bytes:
    return content(database_url(folder / "gateway.sqlite"))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_request_sent_again_with_its_key_gets_the_same_bytes_and_runs_nothing(
    stream: bool, tmp_path: Path
) -> None:
    shop, ask = Shop(), {**ASK, "stream": stream}
    async with shop_of(tmp_path, paying(), shop) as served:
        first, second = await sent(served, ask=ask), await sent(served, ask=ask)
    assert first.status == second.status == 200
    assert b"It is paid." in first.body or stream
    assert first.body == second.body
    assert first.headers["content-type"] == second.headers["content-type"]
    assert first.headers["x-toolcaddie-run"] == second.headers["x-toolcaddie-run"]
    assert ("x-toolcaddie-replayed" in first.headers, "x-toolcaddie-replayed" in second.headers) == (False, True)
    assert shop.paid == [7]


async def test_the_openai_package_sends_a_key_with_extra_headers(tmp_path: Path) -> None:
    shop, key = Shop(), {"Idempotency-Key": "order-7"}
    async with shop_of(tmp_path, paying(), shop) as served:
        one = await served.client.chat.completions.create(**ASK, extra_headers=key)
        other = await served.client.chat.completions.create(**ASK, extra_headers=key)
    assert one.choices[0].message.content == other.choices[0].message.content == "It is paid."
    assert one.id == other.id
    assert shop.paid == [7]


async def test_without_a_key_or_with_another_one_a_request_runs_again(tmp_path: Path) -> None:
    shop = Shop()
    async with shop_of(tmp_path, paying(4), shop) as served:
        for key in (None, None, "a", "b"):
            assert (await sent(served, key)).status == 200
    assert len(shop.paid) == 4


async def test_a_key_that_was_used_with_another_body_is_refused(tmp_path: Path) -> None:
    shop = Shop()
    async with shop_of(tmp_path, paying(), shop) as served:
        await sent(served)
        told = await sent(served, ask={**ASK, "temperature": 1})
    assert (told.status, told.error["code"]) == (422, "idempotency_key_reused")
    assert told.headers["x-should-retry"] == "false"
    assert shop.paid == [7]


async def test_a_key_that_was_used_at_another_door_is_refused_because_answers_differ_in_shape(tmp_path: Path) -> None:
    shop, ask = Shop(), {**ASK, "max_tokens": 100}
    async with shop_of(tmp_path, paying(), shop) as served:
        first = await sent(served, ask=ask)
        told = await sent(served, ask=ask, path="messages")
    assert (first.status, told.status) == (200, 422)
    assert "was used with another request" in told.error["message"]
    assert shop.paid == [7]


async def test_while_the_first_is_under_way_the_second_is_told_to_wait_and_then_gets_its_answer(
    tmp_path: Path,
) -> None:
    shop = Shop()
    shop.open.clear()
    async with shop_of(tmp_path, paying(), shop) as served:
        first = asyncio.create_task(sent(served))
        await shop.begun.wait()
        told = await sent(served)
        shop.open.set()
        assert (told.status, told.error["code"]) == (409, "request_under_way")
        assert float(told.headers["retry-after"]) > 0
        answer = await first
        assert (await sent(served)).body == answer.body
    assert shop.paid == [7]


async def test_the_openai_package_waits_for_a_request_under_way_by_itself(tmp_path: Path) -> None:
    """It sends again what was answered with 409, after the time it is told."""
    shop, key = Shop(), {"Idempotency-Key": "order-7"}
    shop.open.clear()
    async with shop_of(tmp_path, paying(), shop) as served:
        first = asyncio.create_task(served.client.chat.completions.create(**ASK, extra_headers=key))
        await shop.begun.wait()
        with pytest.raises(openai.ConflictError):
            await served.client.chat.completions.create(**ASK, extra_headers=key)
        patient = served.client.with_options(max_retries=9)
        second = asyncio.create_task(patient.chat.completions.create(**ASK, extra_headers=key))
        shop.open.set()
        assert (await first).id == (await second).id
    assert shop.paid == [7]


async def test_of_two_servers_of_one_database_one_runs_the_request(tmp_path: Path) -> None:
    shop = Shop()
    shop.open.clear()
    async with (
        ScriptedUpstream(paying()) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop.source]) as one,
        gateway(tmp_path, upstream.base_url, sources=[shop.source]) as other,
    ):
        asked = [asyncio.create_task(sent(served)) for served in (one, other, one, other)]
        await shop.begun.wait()
        _, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        while len(waiting) > 1:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        shop.open.set()
        answers = [await task for task in asked]
        late = await sent(other)
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409]
    assert late.status == 200
    assert shop.paid == [7]


async def test_a_failure_before_anything_ran_gives_the_key_back(tmp_path: Path) -> None:
    shop = Shop()
    async with shop_of(tmp_path, [refuse(500), *paying()], shop) as served:
        assert (await sent(served)).status == 500
        assert (await sent(served)).status == 200
    assert shop.paid == [7]


async def test_a_failure_behind_an_effect_is_kept_and_said_again(tmp_path: Path) -> None:
    shop = Shop()
    async with shop_of(tmp_path, [call("pay", {"amount": 7}), refuse(503), *paying()], shop) as served:
        first, second = await sent(served), await sent(served)
    assert first.status == second.status == 503
    assert first.body == second.body
    assert first.headers["x-should-retry"] == second.headers["x-should-retry"] == "false"
    assert shop.paid == [7]


async def test_a_run_that_another_server_settled_begins_no_further_call_and_goes_on_with_the_next_request(
    tmp_path: Path,
) -> None:
    url, paid, results = database_url(tmp_path / "gateway.sqlite"), list[int](), list[str]()

    @tool
    def pay(amount: int) -> str:
        """Pay an amount."""
        if not paid:
            change(url, "DELETE FROM owners")  # as another server does after this one has stood still for too long
        paid.append(amount)
        return f"paid {amount}"

    def model(body: Any) -> Any:
        results[:] = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        return call("pay", {"amount": 7 + len(results)}) if len(results) < 2 else say("Both are paid.")

    async with (
        ScriptedUpstream(model) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[FunctionSource("shop", [pay])]) as served,
    ):
        first, *later = [await sent(served) for _ in range(3)]
    assert (first.status, first.error["code"], first.headers["retry-after"]) == (503, "run_taken", "1")
    assert "x-should-retry" not in first.headers  # clients and load balancers may ask another server
    assert [answer.status for answer in later] == [200, 200]
    assert later[0].body == later[1].body
    assert paid == [7, 8]
    assert "whether it took effect is not known" in results[0]
    assert results[1] == "paid 8"


async def test_a_run_that_has_acted_and_then_waits_for_a_person_goes_on_after_its_answer(tmp_path: Path) -> None:
    shop, script = Shop(), [call("pay", {"amount": 7}), call("refund", {"amount": 7}), say("It is back.")]

    @tool(destructive=True)
    def refund(amount: int) -> str:
        """Refund an amount."""
        return f"refunded {amount}"

    async with ScriptedUpstream(script) as upstream:
        async with gateway(tmp_path, upstream.base_url, sources=[shop.source, refund]) as served:
            run_id = (await sent(served)).headers["x-toolcaddie-run"]
            (question,) = await served.runtime.approvals.list("default", status="open")
            await served.runtime.approvals.answer("default", question.id, approved=True, by=Principal(id="boss"))
        async with gateway(tmp_path, upstream.base_url, sources=[shop.source, refund]) as served:
            assert (await served.runtime.resume(run_id)).text == "It is back."
    assert shop.paid == [7]


async def test_a_stream_that_broke_behind_an_effect_is_streamed_again_with_its_error(tmp_path: Path) -> None:
    shop, ask = Shop(), {**ASK, "stream": True}
    script = [call("pay", {"amount": 7}, text="Wait."), refuse(503), *paying()]
    async with shop_of(tmp_path, script, shop) as served:
        first, second = await sent(served, ask=ask), await sent(served, ask=ask)
    assert first.status == second.status == 200
    assert b'"error"' in first.body
    assert first.body == second.body
    assert shop.paid == [7]


async def test_an_answer_too_large_to_keep_is_not_made_a_second_time(tmp_path: Path) -> None:
    shop, small = Shop(), Idempotency(answer_bytes=10)
    async with shop_of(tmp_path, paying(), shop, idempotency=small) as served:
        first, second = await sent(served), await sent(served)
    assert first.status == 200
    assert (second.status, second.error["code"]) == (422, "answer_too_large")
    assert first.headers["x-toolcaddie-run"] in second.error["message"]
    assert second.headers["x-should-retry"] == "false"
    assert shop.paid == [7]


async def test_nothing_of_an_answer_is_sent_before_it_is_stored(tmp_path: Path) -> None:
    """Whoever has received the first byte of an answer would not be sent to another server if this one died now."""
    asked, answered, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

    def model(_: Any) -> Any:
        loop.call_soon_threadsafe(asked.set)
        answered.wait(60)
        return say("Done.")

    with ScriptedUpstream(model) as upstream:
        async with gateway(tmp_path, upstream.base_url) as served:
            reader, writer = await asked_by_hand(served, {**ASK, "tools": [DRAW]})
            await asked.wait()
            with locked(database_url(tmp_path / "gateway.sqlite")) as unlock:
                answered.set()
                first = asyncio.create_task(reader.read(1 << 16))
                await asyncio.wait({first}, timeout=0.3)
                assert not first.done()
                unlock()
                assert (await first).endswith(b"}")
            writer.close()


async def asked_by_hand(served: Gateway, ask: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request with a key was sent; the bytes of its answer can be read as they arrive."""
    body, address = msgspec.json.encode(ask), served.base_url.removeprefix("http://")
    fields = {"host": address, "idempotency-key": "key-1", "content-type": "application/json"}
    head = "".join(f"{name}: {value}\r\n" for name, value in {**fields, "content-length": len(body)}.items())
    reader, writer = await asyncio.open_connection(*address.split(":"))
    writer.write(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode() + body)
    return reader, writer


async def test_an_answer_is_kept_no_longer_than_the_setting_says(tmp_path: Path) -> None:
    shop, short = Shop(), Idempotency(keep_hours=1e-9)
    async with shop_of(tmp_path, paying(2), shop, idempotency=short) as served:
        await sent(served)
        assert "x-toolcaddie-replayed" not in (await sent(served)).headers
    assert shop.paid == [7, 7]


async def test_the_run_of_a_key_goes_on_when_its_client_leaves(tmp_path: Path) -> None:
    shop = Shop()
    shop.open.clear()
    async with shop_of(tmp_path, paying(), shop) as served:
        leaving = asyncio.create_task(sent(served))
        await shop.begun.wait()
        leaving.cancel()
        await asyncio.wait({leaving})
        shop.open.set()
        while (answer := await sent(served)).status == 409:
            pass
    assert answer.status == 200
    assert "x-toolcaddie-replayed" in answer.headers
    assert shop.paid == [7]


async def test_a_key_belongs_to_who_sent_it(tmp_path: Path) -> None:
    shop = Shop()
    async with shop_of(tmp_path, paying(2), shop) as served:
        secrets = [(await served.database.keys.add(name, Principal(id=name)))[1] for name in ("ann", "bob")]
        answers = [await sent(served, authorization=f"Bearer {secret}") for secret in secrets * 2]
    assert [answer.status for answer in answers] == [200] * 4
    assert ["x-toolcaddie-replayed" in answer.headers for answer in answers] == [False, False, True, True]
    assert len(shop.paid) == 2


async def test_clients_without_a_key_of_ours_are_told_apart_by_what_they_send_the_upstream_and_none_of_it_is_stored(
    tmp_path: Path,
) -> None:
    shop = Shop()
    async with (
        ScriptedUpstream(paying(2), api_key=None) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[shop.source], own_upstream_key=False) as served,
    ):
        for who in ("sk-first-client", "sk-second-client", "sk-first-client"):
            assert (await sent(served, "the-key-itself", authorization=f"Bearer {who}")).status == 200
    stored = database_of(tmp_path)
    assert not [secret for secret in (b"sk-first-client", b"sk-second-client", b"the-key-itself") if secret in stored]
    assert len(shop.paid) == 2


@pytest.mark.parametrize("key", ["", " ", "k" * 256, "k\x80"], ids=["empty", "blank", "long", "not ASCII"])
async def test_a_key_that_cannot_be_one_is_refused_by_name(key: str, tmp_path: Path) -> None:
    shop = Shop()
    async with shop_of(tmp_path, paying(), shop) as served:
        answer = await sent(served, key)
    assert (answer.status, answer.error["param"]) == (400, "idempotency-key")
    assert not shop.paid


async def test_a_forwarded_request_takes_its_key_to_the_upstream_and_leaves_nothing_here(tmp_path: Path) -> None:
    async with ScriptedUpstream([say("one"), say("two")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        bodies = [(await sent(served)).body for _ in range(2)]
        kinds = await served.database.store.get_many("idempotency", [])
    assert [request.headers["idempotency-key"] for request in upstream.requests] == ["key-1", "key-1"]
    assert bodies[0] != bodies[1]
    assert not kinds


async def test_an_answer_with_calls_for_the_client_is_given_again_as_well(tmp_path: Path) -> None:
    ask = {**ASK, "tools": [DRAW]}
    async with ScriptedUpstream([call("draw")]) as upstream, gateway(tmp_path, upstream.base_url) as served:
        first, second = await sent(served, ask=ask), await sent(served, ask=ask)
    assert first.body == second.body
    assert len(upstream.requests) == 1


async def test_a_run_stopped_by_a_limit_behind_an_effect_is_kept(tmp_path: Path) -> None:
    shop = Shop()
    one_call = replace(PRESETS["default"], limits=replace(PRESETS["default"].limits, calls=1))
    script = [call("pay", {"amount": 7}), call("pay", {"amount": 8}), *paying()]
    async with shop_of(tmp_path, script, shop, preset=one_call) as served:
        first, second = await sent(served), await sent(served)
    assert first.status == second.status == 422
    assert first.body == second.body
    assert shop.paid == [7]


@pytest.mark.parametrize("header", ["x-toolcaddie-catalog", "x-toolcaddie-pin", "x-toolcaddie-conversation"])
async def test_a_key_that_was_used_with_a_header_that_changes_the_request_is_refused_without_it(
    header: str, tmp_path: Path
) -> None:
    shop, ask = Shop(), {**ASK, "tools": [DRAW]}
    async with shop_of(tmp_path, [say("without"), *paying()], shop) as served:
        first = await sent(served, ask=ask, **{header: "none"})
        other = await sent(served, ask=ask)
        again = await sent(served, ask=ask, **{header: "none"})
    assert (first.status, other.status, again.status) == (200, 422, 200)
    assert other.error["code"] == "idempotency_key_reused"
    assert first.body == again.body
    assert not shop.paid
