"""The tools of a host through the gateway: many requests at once, the limit of calls, memory. `make hosts` does more of it."""

from __future__ import annotations

import pytest

from benchmarks import hosts_limits, hosts_load, hosts_memory

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("back_end", hosts_load.BACK_ENDS.values(), ids=hosts_load.BACK_ENDS)
def test_requests_at_once_share_a_connection_get_their_own_answers_and_leave_nothing_open(back_end: object) -> None:
    load = hosts_load.measured(back_end, requests=12, rounds=2)
    assert load.requests == 24
    assert load.missed == []
    assert load.idle.connections == load.begun.connections + 1


@pytest.mark.proves("R004-3", "R004-6")
async def test_the_76th_call_fails_with_its_request_and_the_next_request_starts_anew() -> None:
    limits = await hosts_limits.measured([(76, 38), (75, 75)])
    assert [(request.status, request.made) for request in limits.requests] == [(422, 75), (200, 75)]
    assert "75" in limits.requests[0].text
    assert len(limits.definitions) == 5
    assert limits.tokens <= 1_000


async def test_a_request_takes_less_than_a_megabyte_and_leaves_nothing_behind() -> None:
    memory = await hosts_memory.measured(hosts_memory.ORDINARY, 16)
    assert memory.failures == 0
    assert memory.largest < 1_000_000
    assert memory.left < hosts_memory.LEFT_GOAL
