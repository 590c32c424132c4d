"""Day budgets of bots, over real databases: what is refused, when it is renewed, and what runs have used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.databases import database_url
from tests.doors.serving import gateway
from tests.storage.conftest import Clock
from toolcaddie import Bot, Runtime, tool
from toolcaddie.control.bots import DayBudget
from toolcaddie.core.capabilities import CAPABILITIES, capabilities_from
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import BudgetSpentError, ConfigError
from toolcaddie.core.message import Message
from toolcaddie.core.usage import Usage
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, call, paced, say
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio

DESK, BOSS = Principal(bot="desk"), Principal(bot="boss")
REPLY = replace(say("hello"), usage=Usage(input_tokens=120, output_tokens=30))
PRICED = [capabilities_from({"pattern": "small", "prices": {"input": 1_000, "output": 2_000}}), *CAPABILITIES]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def database(tmp_path: Path, clock: Clock) -> AsyncIterator[Database]:
    async with Database(database_url(tmp_path / "budgets.sqlite"), clock=clock) as opened:
        yield opened


def runtime(database: Database, clock: Clock, replies: list[Any], **budget: Any) -> Runtime:
    bots = {"desk": Bot(budget=DayBudget(**budget), model="small"), "boss": Bot()}
    return Runtime(
        provider=ScriptedProvider(replies),
        sources=[wipe],
        bots=bots,
        meter=database.meter,
        documents=database.store,
        capabilities=PRICED,
        clock=clock,
    )


@tool(description="Wipe the board.", destructive=True)
def wipe() -> str:
    return "wiped"


async def test_the_run_above_the_budget_is_refused_until_the_next_day(database: Database, clock: Clock) -> None:
    made = runtime(database, clock, [REPLY] * 5, requests=2)
    for _ in range(2):
        await made.run("hi", principal=DESK)
    with pytest.raises(BudgetSpentError) as refused:
        await made.run("hi", principal=DESK)
    assert "The bot 'desk' has used its budget for today: 2 requests, of which 2 are used" in str(refused.value)
    assert "It is renewed at 1970-01-13 00:00 UTC; the setting is bots.desk.budget.requests" in str(refused.value)
    assert refused.value.retry_after == 86_400 * 12 - clock.now
    await made.run("hi", principal=BOSS)
    await made.run("hi", principal=replace(DESK, tenant="other"))
    clock.now += refused.value.retry_after
    assert (await made.run("hi", principal=DESK)).text == "hello"


async def test_real_tokens_take_the_place_of_the_estimate(database: Database, clock: Clock) -> None:
    made = runtime(database, clock, [REPLY] * 5, tokens=1_300)
    for _ in range(2):  # each reserves over 1,000 tokens, and uses 150
        await made.run("hi", principal=DESK)
    (tokens,) = await made.used_today(DESK)
    assert (tokens.counted, tokens.used, tokens.limit) == ("tokens", 300, 1_300)
    with pytest.raises(BudgetSpentError, match=r"bots\.desk\.budget\.tokens"):
        await made.run("hi", principal=DESK)
    assert await made.used_today(BOSS) == ()


async def test_money_is_that_of_the_bots_own_model(database: Database, clock: Clock) -> None:
    made = runtime(database, clock, [REPLY] * 2, dollars=3.0)
    await made.run("hi", principal=DESK)
    (money,) = await made.used_today(DESK)
    assert money.used == pytest.approx(120 * 0.001 + 30 * 0.002)


async def test_a_failed_run_gives_back_what_it_has_not_used(database: Database, clock: Clock) -> None:
    made = runtime(database, clock, [RuntimeError("the wire broke"), REPLY], tokens=1_300)
    with pytest.raises(Exception, match="the wire broke"):
        await made.run("hi", principal=DESK)
    await made.run("hi", principal=DESK)
    (tokens,) = await made.used_today(DESK)
    assert tokens.used == 150


async def test_a_resumed_run_spends_and_is_no_second_request(database: Database, clock: Clock) -> None:
    asked = replace(call("wipe"), usage=Usage(input_tokens=10, output_tokens=5))
    long = replace(REPLY, usage=Usage(input_tokens=500, output_tokens=500))
    made = runtime(database, clock, [asked, long, REPLY], requests=2, tokens=1_500)
    paused = await made.run("wipe it", principal=DESK)
    assert paused.status == "pending"
    (pending,) = [item.call.id for item in paused.state.pending]
    await made.run("hi", principal=DESK)
    with pytest.raises(BudgetSpentError):
        await made.resume(paused.run_id, approvals={pending: True}, principal=DESK)
    clock.now += 86_400
    result = await made.resume(paused.run_id, approvals={pending: True}, principal=DESK)
    assert result.tool_calls == ("wipe",)
    used = {each.counted: each.used for each in await made.used_today(DESK)}
    assert used == {"requests": 0, "tokens": 150}


async def test_a_tool_called_without_a_model_uses_nothing(database: Database, clock: Clock) -> None:
    made = runtime(database, clock, [], requests=1)
    for _ in range(2):
        await made.call("wipe", {}, principal=DESK)
    assert [each.used for each in await made.used_today(DESK)] == [0]


async def test_several_processes_admit_together_what_the_budget_allows(tmp_path: Path, clock: Clock) -> None:
    address = database_url(tmp_path / "shared.sqlite")
    async with Database(address, clock=clock) as one, Database(address, clock=clock) as two:
        made = [runtime(database, clock, [REPLY] * 10, requests=5) for database in (one, two)]
        runs = [each.run("hi", principal=DESK) for each in made for _ in range(8)]
        ends = await asyncio.gather(*runs, return_exceptions=True)
    assert sum(not isinstance(end, BaseException) for end in ends) == 5
    assert all(isinstance(end, BudgetSpentError) for end in ends if isinstance(end, BaseException))


def test_a_budget_without_a_meter_is_refused_at_start() -> None:
    with pytest.raises(ConfigError, match=r"bots.desk.budget needs a meter.*pass meter=database.meter"):
        Runtime(provider=ScriptedProvider([]), bots={"desk": Bot(budget=DayBudget(requests=1))})
    with pytest.raises(ConfigError, match="meter cannot be 7"):
        Runtime(provider=ScriptedProvider([]), meter=7)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/responses", {"input": "hi"}),
        ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}),
    ],
)
async def test_the_gateway_answers_429_and_passes_nothing_of_the_bot_on(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    """Also a request without tools to a named model, which would be passed on as it is, is a run of the bot and counts."""
    bots = {"desk": Bot(budget=DayBudget(requests=2), model="small")}
    async with (
        Database(database_url(tmp_path / "meter.sqlite")) as metered,
        ScriptedUpstream([REPLY] * 3) as upstream,
        gateway(tmp_path, upstream.base_url, bots=bots, meter=metered.meter) as served,
    ):
        _, secret = await served.database.keys.add("desk", Principal(id="desk", bot="desk"))
        headers = {"authorization": f"Bearer {secret}"}
        async with aiohttp.ClientSession(served.base_url, headers=headers) as session:
            for model in ("named-model", "bot:desk"):
                async with session.post(path, json={"model": model, **body}) as answer:
                    assert answer.status == 200
                    assert "x-toolcaddie-run" in answer.headers
            async with session.post(path, json={"model": "bot:desk", **body}) as answer:
                assert answer.status == 429
                assert int(answer.headers["retry-after"]) > 0
                assert answer.headers["x-should-retry"] == "false"
                assert "has used its budget for today: 2 requests" in (await answer.json())["error"]["message"]
            async with session.post("/v1/embeddings", json={"model": "m", "input": "hi"}) as answer:
                assert answer.status == 403
    assert [sent["model"] for sent in upstream.bodies] == ["named-model", "small"]


async def test_the_gateway_passes_nothing_of_the_default_bot_on_either(tmp_path: Path) -> None:
    bots = {"desk": Bot(budget=DayBudget(requests=2), model="small")}
    async with (
        Database(database_url(tmp_path / "meter.sqlite")) as metered,
        ScriptedUpstream([]) as upstream,
        gateway(tmp_path, upstream.base_url, bots=bots, default_bot="desk", meter=metered.meter) as served,
        aiohttp.ClientSession(served.base_url) as session,
        session.post("/v1/embeddings", json={"model": "m", "input": "hi"}) as answer,
    ):
        assert answer.status == 403
        assert "has a budget" in await answer.text()
    assert not upstream.bodies


async def test_a_cancelled_run_has_spent_what_it_asked_for(database: Database, clock: Clock) -> None:
    async with ScriptedUpstream([paced(REPLY, asyncio.Semaphore(0))]) as upstream:
        bots = {"desk": Bot(budget=DayBudget(tokens=5_000), model="small")}
        async with Runtime(
            provider=OpenAIChat(upstream.base_url, "test-key"), bots=bots, meter=database.meter, clock=clock
        ) as made:
            run = asyncio.create_task(made.run([Message(role="user", content="word " * 400)], principal=DESK))
            while not upstream.requests:  # noqa: ASYNC110  the upstream sets no event
                await asyncio.sleep(0)
            run.cancel()
            await asyncio.wait({run})
            (tokens,) = await made.used_today(DESK)
    assert 300 < tokens.used < 1_000
