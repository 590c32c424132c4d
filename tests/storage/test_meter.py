"""Limits of API keys are counted once for all processes, on every kind of database."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from tests.databases import KINDS
from tests.storage.conftest import Clock
from toolcaddie.core.control import Principal
from toolcaddie.core.key_limits import Amounts, KeyLimits, KeyUsage
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio

ONE = Amounts(requests=1)
DAY = 86_400


def remaining(admission: object) -> dict[str, float]:
    return {f"{each.counted} {each.span}": each.remaining for each in admission.allowances}  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def at_noon(clock: Clock) -> None:
    clock.now = 20_000.0 * DAY + DAY / 2


async def test_a_window_admits_its_limit_and_opens_again_with_the_next_one(database: Database, clock: Clock) -> None:
    limits = KeyLimits(requests_per_minute=2, requests_per_day=3)
    first, second = [await database.meter.reserve("k", ONE, limits) for _ in range(2)]
    assert remaining(first) == {"requests minute": 1, "requests day": 2}
    assert remaining(second) == {"requests minute": 0, "requests day": 1}
    refused = await database.meter.reserve("k", ONE, limits)
    assert refused.reservation is None
    assert [(each.counted, each.span) for each in refused.exceeded] == [("requests", "minute")]
    clock.now += 60
    assert remaining(await database.meter.reserve("k", ONE, limits)) == {"requests minute": 1, "requests day": 0}
    refused = await database.meter.reserve("k", ONE, limits)
    assert [(each.span, each.resets - clock.now) for each in refused.exceeded] == [("day", DAY / 2 - 60)]
    clock.now += DAY / 2
    assert (await database.meter.reserve("k", ONE, limits)).reservation is not None


async def test_a_refused_request_uses_nothing(database: Database) -> None:
    limits = KeyLimits(requests_per_minute=5, tokens_per_day=100)
    await database.meter.reserve("k", Amounts(requests=1, tokens=90), limits)
    refused = await database.meter.reserve("k", Amounts(requests=1, tokens=20), limits)
    assert [(each.counted, each.span) for each in refused.exceeded] == [("tokens", "day")]
    assert remaining(refused) == {"requests minute": 4, "tokens day": 10}
    after = await database.meter.reserve("k", Amounts(requests=1, tokens=10), limits)
    assert remaining(after) == {"requests minute": 3, "tokens day": 0}


async def test_reserved_tokens_and_money_are_replaced_by_what_was_used(database: Database) -> None:
    limits = KeyLimits(tokens_per_minute=1_000, dollars_per_day=1.0)
    admission = await database.meter.reserve("k", Amounts(requests=1, tokens=800, money=900_000_000), limits)
    assert (await database.meter.reserve("k", Amounts(tokens=300), limits)).reservation is None
    assert admission.reservation is not None
    database.meter.settle(admission.reservation, Amounts(requests=1, tokens=120, money=100_000_000))
    after = await database.meter.reserve("k", Amounts(tokens=300), limits)
    assert remaining(after) == {"tokens minute": 580, "dollars day": 0.9}


async def test_what_was_used_beyond_the_estimate_counts_too(database: Database) -> None:
    limits = KeyLimits(tokens_per_minute=1_000)
    admission = await database.meter.reserve("k", Amounts(tokens=10), limits)
    assert admission.reservation is not None
    database.meter.settle(admission.reservation, Amounts(tokens=5_000))
    refused = await database.meter.reserve("k", Amounts(tokens=1), limits)
    assert refused.reservation is None
    assert remaining(refused) == {"tokens minute": 0}


async def test_an_estimate_above_the_whole_limit_is_admitted_into_an_empty_window(database: Database) -> None:
    """An estimate may be wrong, and a request that is refused in every window could never be sent."""
    limits = KeyLimits(tokens_per_minute=1_000)
    assert (await database.meter.reserve("k", Amounts(tokens=1_000_000), limits)).reservation is not None
    assert (await database.meter.reserve("k", Amounts(tokens=1), limits)).reservation is None


async def test_keys_do_not_share_their_limits(database: Database) -> None:
    limits = KeyLimits(requests_per_minute=1)
    assert (await database.meter.reserve("a", ONE, limits)).reservation is not None
    assert (await database.meter.reserve("b", ONE, limits)).reservation is not None
    assert (await database.meter.reserve("a", ONE, limits)).reservation is None


@pytest.mark.parametrize("kind", KINDS)
async def test_four_processes_together_admit_exactly_the_limit(
    kind: str, file_url: str, clock: Clock, request: pytest.FixtureRequest
) -> None:
    """Four databases, each with its own connections and threads, as four processes have them."""
    url = file_url if kind == "file" else request.getfixturevalue("postgresql_url")
    limits = KeyLimits(requests_per_minute=30, requests_per_day=40)
    async with AsyncExitStack() as stack:
        databases = [await stack.enter_async_context(Database(url, clock=clock)) for _ in range(4)]

        async def burst() -> int:
            admissions = await asyncio.gather(
                *(database.meter.reserve(key, ONE, limits) for database in databases for key in ("a", "b") * 20)
            )
            return Counter(each.reservation.key_id for each in admissions if each.reservation)  # type: ignore[return-value]

        assert await burst() == {"a": 30, "b": 30}
        clock.now += 60
        assert await burst() == {"a": 10, "b": 10}


async def test_the_use_of_a_key_is_added_up_by_day_and_model(database: Database) -> None:
    used = KeyUsage(key_id="k", day="2026-11-24", model="m", requests=1, input_tokens=10, output_tokens=2, money=7)
    database.meter.record(used)
    await database.meter.close()
    database.meter.record(used)
    database.meter.record(KeyUsage(key_id="k", day="2026-11-25", model="m", requests=1, unpriced=1))
    database.meter.record(KeyUsage(key_id="other", day="2026-11-24", model="m", requests=1))
    await database.meter.close()
    await database.meter.reserve("k", ONE, KeyLimits(requests_per_day=1))  # writes are in order: all is written now
    rows = await database.meter.usage(first="2026-11-24", last="2026-11-24", key_id="k")
    assert rows == [
        KeyUsage(key_id="k", day="2026-11-24", model="m", requests=2, input_tokens=20, output_tokens=4, money=14)
    ]
    assert len(await database.meter.usage(first="2026-11-01", last="2026-11-30")) == 3


async def test_a_key_keeps_limits_of_its_own(database: Database) -> None:
    own = {"requests_per_minute": 60, "dollars_per_day": 2.5, "tokens_per_day": None}
    key, secret = await database.keys.add("laptop", Principal(id="ann"), limits=own)
    assert (await database.keys.list())[0].limits == own
    await database.keys.limit("laptop", {"requests_per_day": 5})
    checked = await database.keys.check(secret)
    assert checked is not None
    assert (checked.id, checked.limits) == (key.id, {"requests_per_day": 5})
    await database.keys.limit(key.id, {})
    assert (await database.keys.list())[0].limits == {}
