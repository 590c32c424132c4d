"""A tenant that has had much more than another one of late gives way to it."""

from __future__ import annotations

import asyncio

import pytest

from toolcaddie.doors.gateway.turns import Turn, Turns

pytestmark = pytest.mark.anyio


def turns_for(**weights: int) -> Turns:
    return Turns(requests=100, waiting=100, per_tenant=100, wait_seconds=30.0, weights=weights)


async def placed(turns: Turns, tenant: str) -> Turn:
    turn = turns.begin(tenant) or await turns.wait(tenant, 0)
    assert isinstance(turn, Turn)
    return turn


async def after(turns: Turns, quiet: int, flood: int) -> Turn:
    """A request of `quiet` that waits for its model, after so many requests of two tenants."""
    (await placed(turns, "flood")).end()  # from now on there are two tenants
    for tenant, number in (("quiet", quiet), ("flood", flood)):
        for _ in range(number):
            (await placed(turns, tenant)).end()
    turn = await placed(turns, "quiet")
    turn.away()
    await asyncio.sleep(0)
    return turn


async def begins_at_once(turns: Turns, tenant: str) -> bool:
    """Whether a request of a tenant begins within a few passes of the event loop, before it is seen to be idle."""
    asked = asyncio.create_task(placed(turns, tenant))
    for _ in range(3):
        await asyncio.sleep(0)
    if not asked.done():
        asked.cancel()
        await asyncio.wait({asked})
        return False
    asked.result().end()
    await asyncio.sleep(0)
    return True


async def test_a_tenant_that_has_had_much_more_begins_nothing_while_another_one_computes() -> None:
    turns = turns_for()
    quiet = await after(turns, quiet=1, flood=30)
    assert await begins_at_once(turns, "flood")
    quiet.back()
    assert not await begins_at_once(turns, "flood")
    assert await begins_at_once(turns, "quiet")
    quiet.end()
    assert await begins_at_once(turns, "flood")


async def test_tenants_that_have_had_about_as_much_do_not_give_way() -> None:
    turns = turns_for()
    (await after(turns, quiet=20, flood=30)).back()
    assert await begins_at_once(turns, "flood")


async def test_a_tenant_with_a_larger_weight_may_have_had_more() -> None:
    turns = turns_for(flood=10)
    (await after(turns, quiet=1, flood=30)).back()
    assert await begins_at_once(turns, "flood")


async def test_a_request_that_only_waits_for_something_holds_up_nobody_for_long() -> None:
    turns = turns_for()
    (await after(turns, quiet=1, flood=30)).back()
    async with asyncio.timeout(10):
        (await placed(turns, "flood")).end()
