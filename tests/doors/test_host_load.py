"""The tools of a host through the gateway: many requests at once, the limit of calls, memory. `make hosts` does more of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks import hosts_limits, hosts_load, hosts_memory
from tests.databases import sqlite_only

pytestmark = pytest.mark.anyio


@sqlite_only("its connections are no open files of the process")
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


def test_a_request_takes_less_than_a_megabyte_and_leaves_nothing_behind() -> None:
    """In a process of its own: what other tests have left here would be measured too."""
    code = "hosts_memory.measured(hosts_memory.ORDINARY, 16)"
    code = f"import asyncio, msgspec; from benchmarks import hosts_memory; memory = asyncio.run({code})"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(msgspec.json.encode(memory).decode())"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    memory = msgspec.json.decode(done.stdout.splitlines()[-1], type=hosts_memory.Memory)
    assert memory.failures == 0
    assert memory.largest < 1_000_000
    assert memory.left < hosts_memory.LEFT_GOAL
