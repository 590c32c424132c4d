"""A run in progress and the day budget of its bot: where it is stopped, what counts, and what is asked of the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from security.team_host import hosting
from tests.databases import database_url
from tests.doors.serving import gateway
from tests.storage.conftest import Clock
from toolcaddie import Bot, Runtime, tool
from toolcaddie.control.bots import DayBudget
from toolcaddie.core.capabilities import CAPABILITIES, capabilities_from
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import BudgetSpentError, has_acted
from toolcaddie.core.events import LimitReached, RunEvent, RunFailed
from toolcaddie.core.key_limits import Admission, Amounts, KeyLimits, Reservation
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.personas import Author, PersonaKey
from toolcaddie.core.usage import Usage
from toolcaddie.storage.database import Database
from toolcaddie.storage.meter import Meter
from toolcaddie.testing import ScriptedProvider, ScriptedUpstream, call, say
from toolcaddie.tools.improve import improve
from toolcaddie.util.replacing import replace

pytestmark = pytest.mark.anyio

DESK, COACH = Principal(id="ann", bot="desk"), Principal(id="ann", bot="coach")
DAY = 86_400.0
SCRIPTED = 110
"""Tokens of a model call of a script that names none."""
USED = Usage(input_tokens=400, output_tokens=100)
LOOK, DONE = replace(call("look"), usage=USED), replace(say("done"), usage=USED)
PRICED = [capabilities_from({"pattern": "small", "prices": {"input": 1_000, "output": 2_000}}), *CAPABILITIES]


@tool(read_only=True)
def look() -> str:
    """Look at the board."""
    return "an empty board"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def database(tmp_path: Path, clock: Clock) -> AsyncIterator[Database]:
    async with Database(database_url(tmp_path / "budgets.sqlite"), clock=clock) as opened:
        yield opened


class Asked:
    """A meter that remembers what was asked of it."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.reserved: list[Amounts] = []

    async def reserve(self, key_id: str, amounts: Amounts, limits: KeyLimits) -> Admission:
        self.reserved.append(amounts)
        return await self._meter.reserve(key_id, amounts, limits)

    def settle(self, reservation: Reservation, used: Amounts) -> None:
        self._meter.settle(reservation, used)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._meter, name)


def runtime(
    database: Database, clock: Clock, replies: Any, *, sources: Sequence[Any] = (look,), **budget: Any
) -> Runtime:
    bots = {"desk": Bot(budget=DayBudget(**budget), model="small"), "coach": Bot()}
    return Runtime(
        provider=ScriptedProvider(replies),
        sources=sources,
        bots=bots,
        meter=database.meter,
        documents=database.store,
        capabilities=PRICED,
        clock=clock,
    )


async def used(made: Runtime, bot: Principal = DESK) -> dict[str, float]:
    return {each.counted: each.used for each in await made.used_today(bot)}


@pytest.mark.parametrize(
    ("budget", "amount"),
    [({"tokens": 2_000}, "2,000 tokens, of which 2,000 are"), ({"dollars": 2.6}, "2.6 dollars, of which 2.4 are")],
)
async def test_a_run_is_stopped_before_the_model_call_for_which_the_budget_has_no_room(
    database: Database, clock: Clock, budget: dict[str, Any], amount: str
) -> None:
    """Each call uses 500 tokens, or 0.6 dollars, and what the fifth one sends does not fit. What was done is in the error."""
    made = runtime(database, clock, [LOOK] * 10, **budget)
    events: list[RunEvent] = []

    async def listen(event: RunEvent) -> None:
        events.append(event)

    with made.subscribe(listen), pytest.raises(BudgetSpentError) as stopped:
        await made.run("look around", principal=DESK)
    (setting,) = budget
    assert f"The run was stopped. The bot 'desk' has used its budget for today: {amount} used" in str(stopped.value)
    assert f"It is renewed at 1970-01-13 00:00 UTC; the setting is bots.desk.budget.{setting}" in str(stopped.value)
    assert stopped.value.retry_after == 12 * DAY - clock.now
    assert stopped.value.state.called == ("look",) * 4
    assert has_acted(stopped.value)
    assert [event.limit for event in events if isinstance(event, LimitReached)] == ["budget"]
    (failed,) = [event for event in events if isinstance(event, RunFailed)]
    assert failed.kind == "BudgetSpentError"
    assert failed.state is not None
    assert failed.state.usage.input_tokens == 1_600
    assert await used(made) == pytest.approx({name: 2_000 if name == "tokens" else 2.4 for name in budget})
    with pytest.raises(BudgetSpentError) as refused:
        await made.run("look around", principal=DESK)
    assert refused.value.state is None
    assert (await runtime(database, clock, [LOOK] * 3 + [DONE], **budget).run("hi", principal=COACH)).text == "done"


async def test_a_budget_that_others_use_up_stops_the_run_too(database: Database, clock: Clock) -> None:
    """While the run is in its tool, another process serves the same bot."""

    @tool(read_only=True)
    async def wait() -> str:
        await other.run("hi", principal=DESK)
        return "waited"

    big = replace(say("much"), usage=Usage(input_tokens=3_000, output_tokens=500))
    other = runtime(database, clock, [big], tokens=5_000)
    waits = replace(call("wait"), usage=Usage(input_tokens=800, output_tokens=800))
    made = runtime(database, clock, [waits, DONE], sources=[wait], tokens=5_000)
    with pytest.raises(BudgetSpentError, match=r"The run was stopped\..* of which 5,100 are used"):
        await made.run("wait", principal=DESK)


async def test_the_meter_is_asked_once_per_model_call_at_most_and_never_without_a_budget_that_grows(
    database: Database, clock: Clock
) -> None:
    asked = Asked(database.meter)
    bots = {
        "desk": Bot(budget=DayBudget(tokens=100_000)),
        "coach": Bot(),
        "clerk": Bot(budget=DayBudget(requests=9)),
    }
    script = [LOOK, LOOK, LOOK, DONE]
    counts = {}
    for bot in bots:
        made = Runtime(provider=ScriptedProvider(script), sources=[look], bots=bots, meter=asked, clock=clock)
        before = len(asked.reserved)
        await made.run("look around", principal=Principal(bot=bot))
        counts[bot] = len(asked.reserved) - before
    assert counts == {"desk": 3, "coach": 0, "clerk": 1}
    assert (await made.used_today(DESK))[0].used == 2_000


async def test_what_is_used_after_midnight_counts_in_the_new_day(database: Database, clock: Clock) -> None:
    @tool(read_only=True)
    def sleep() -> str:
        clock.now += DAY
        return "slept"

    big = replace(call("sleep"), usage=Usage(input_tokens=1_000, output_tokens=700))
    made = runtime(database, clock, [big, DONE], sources=[sleep], tokens=2_000)
    assert (await made.run("sleep", principal=DESK)).text == "done"
    assert await used(made) == {"tokens": 500}
    clock.now -= DAY
    assert await used(made) == {"tokens": 1_700}


async def test_a_durable_run_goes_on_after_its_last_step_when_the_budget_is_renewed(
    database: Database, clock: Clock
) -> None:
    made = runtime(database, clock, [LOOK] * 4 + [DONE], tokens=2_000)
    with pytest.raises(BudgetSpentError):
        await made.run("look around", principal=DESK, durable=True, run_id="run_1")
    with pytest.raises(BudgetSpentError):
        await made.resume("run_1")
    clock.now += DAY
    result = await made.resume("run_1")
    assert (result.text, result.tool_calls) == ("done", ("look",) * 4)
    assert await used(made) == {"tokens": 500}


async def test_a_question_of_another_bot_counts_in_the_budget_of_the_bot_that_answers_it(
    database: Database, clock: Clock
) -> None:
    """The desk is stopped in the middle of its answer; the coach reads why, and goes on."""

    def model(bot: str, request: ModelRequest) -> Any:
        if bot == "desk":
            return LOOK
        sends = call("collaborate", {"action": "send", "targetBotId": "desk", "message": "hi"})
        return sends if request.messages[-1].role == "user" else say("I see.")

    bots = {"coach": Bot(budget=DayBudget(tokens=50_000)), "desk": Bot(budget=DayBudget(tokens=2_000))}
    async with hosting(bots, model, [look], meter=database.meter, clock=clock) as host:
        result = await host.ask("coach", "ask the desk")
        assert result.text == "I see."
        assert await used(host.runtime, COACH) == {"tokens": 2 * SCRIPTED}
        assert await used(host.runtime) == {"tokens": 2_000}
    answer = host.requests[-1][1].messages[-1].text
    assert "The run was stopped. The bot 'desk' has used its budget for today" in answer


async def test_a_review_counts_in_the_budget_of_the_reviewed_bot(database: Database, clock: Clock) -> None:
    def model(bot: str, request: ModelRequest) -> Any:
        if not bot:
            return replace(say("fine"), usage=USED)
        return call("improve", {"focus": "soul"}) if request.messages[-1].role == "user" else say("done")

    bots = {"coach": Bot(budget=DayBudget(requests=5, tokens=50_000))}
    async with hosting(
        bots, model, meter=database.meter, clock=clock, more=lambda parts: [improve(parts=parts)]
    ) as host:
        key = PersonaKey(tenant="default", bot="coach")
        await host.personas.write(key, "SOUL.md", "I am strict.\n", author=Author(who="default/ann"), expected=0)
        result = await host.ask("coach", "improve yourself")
        assert (result.status, result.tool_calls) == ("completed", ("improve",))
        assert await used(host.runtime, COACH) == {"requests": 2, "tokens": 500 + 2 * SCRIPTED}


async def test_at_the_gateway_a_stopped_run_is_429_that_says_when_the_budget_is_renewed(
    tmp_path: Path, clock: Clock
) -> None:
    """Its tools have run, so no client may repeat it by itself: there is no `retry-after`."""
    bots = {"desk": Bot(budget=DayBudget(tokens=2_000), model="small")}
    async with (
        Database(database_url(tmp_path / "meter.sqlite"), clock=clock) as metered,
        ScriptedUpstream([LOOK] * 9) as upstream,
        gateway(tmp_path, upstream.base_url, sources=[look], bots=bots, meter=metered.meter, clock=clock) as served,
        aiohttp.ClientSession(served.base_url) as session,
    ):
        body = {"model": "bot:desk", "messages": [{"role": "user", "content": "look around"}]}
        async with session.post("/v1/chat/completions", json=body) as answer:
            assert answer.status == 429
            assert "retry-after" not in answer.headers
            assert answer.headers["x-should-retry"] == "false"
            message = (await answer.json())["error"]["message"]
            assert message.startswith("The run was stopped. The bot 'desk' has used its budget for today")
            assert "It is renewed at 1970-01-13 00:00 UTC" in message
        (run,) = await served.database.events.runs()
        records = await served.database.events.events(run.run_id)
    assert len(upstream.requests) == 4
    assert [record.data["limit"] for record in records if record.kind == "limit_reached"] == ["budget"]
