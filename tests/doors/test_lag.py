"""Nobody waits for somebody else's large request: a stop watch in a process of its own beside a real server.

The goal is 200 ms, and `python -m security hostile` holds it. Here, where other tests run at the same time, it is a second:
before large inputs were counted, and read beside the event loop, these took from two to fifty-four.
"""

from __future__ import annotations

import asyncio

import pytest

from security import attacks, hostile

pytestmark = pytest.mark.anyio

HEAVY = (
    "H4 one header of 100 MiB",
    "H8 20 unfinished bodies of 16 MiB",
    "H9 200,000 messages",
    "H9 a million fields",
    "H9 a tool whose name has 10 million characters",
    "H9 100,000 tools",
    "allowed: 10,000 tools nobody has seen before",
    "allowed: a message of 14 MiB",
)
FROM_OUTSIDE = (
    "H9 an answer of 100,000 calls",
    "H9 a call whose name has 10 million characters",
    "H5 a password of 200,000 characters",
    "H5 (?=a)(a+)+$ over 200,000 characters",
    "H5 900 names that make a pattern go back",
)


@pytest.mark.parametrize(
    ("group", "names"),
    [(attacks.of_requests, HEAVY), (attacks.of_upstreams, FROM_OUTSIDE)],
    ids=["requests", "upstreams"],
)
async def test_nobody_waits_a_second_for_the_hostile_input_of_another(group: object, names: tuple[str, ...]) -> None:
    async with group(quick=True) as (server, known), asyncio.timeout(240):  # type: ignore[operator]
        played = [attack for attack in known if attack.name in names]
        assert len(played) == len(names)
        outcomes = [await hostile.measured(server, attack, most_wait=hostile.MOST_WAIT_QUICK) for attack in played]
    assert not [f"{outcome.name}: {outcome.wrong}" for outcome in outcomes if outcome.wrong]
