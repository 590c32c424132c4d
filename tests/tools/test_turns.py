"""Turns: how commands that wait are served."""

from __future__ import annotations

import asyncio

import pytest

from toolcaddie.tools.commands.turns import Turns

pytestmark = pytest.mark.anyio


async def test_one_owner_leaves_a_quarter_of_the_turns_to_others() -> None:
    turns = Turns(8)
    assert [await turns.take("eve", 0) for _ in range(8)] == [True] * 6 + [False] * 2
    assert [await turns.take("bob", 0) for _ in range(3)] == [True, True, False]


async def test_those_who_wait_are_served_one_after_the_other() -> None:
    turns = Turns(1)
    order: list[str] = []

    async def wait(owner: str) -> None:
        assert await turns.take(owner, 10)
        order.append(owner)
        turns.give_back(owner)

    assert await turns.take("eve", 0)
    waiting = [asyncio.create_task(wait(owner)) for owner in ("eve", "eve", "eve", "bob", "bob", "ann")]
    await asyncio.sleep(0)
    turns.give_back("eve")
    await asyncio.gather(*waiting)
    assert order == ["eve", "bob", "ann", "eve", "bob", "eve"]


async def test_a_wait_that_is_over_or_cancelled_takes_no_turn() -> None:
    turns = Turns(1)
    assert await turns.take("eve", 0)
    assert not await turns.take("bob", 0.01)
    cancelled = asyncio.create_task(turns.take("ann", 10))
    await asyncio.sleep(0)
    turns.give_back("eve")  # the turn is ann's now
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert await turns.take("bob", 0)
