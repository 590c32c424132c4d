"""Memory of requests that use a host's tools: python -m benchmarks.hosts_memory [--requests 200]

Sends requests one after another through a gateway on a real socket, and traces the memory that Python allocates
(`tracemalloc`). The client and the database are in the same process, so their memory counts too. An ordinary request looks at the
catalog and makes three calls; the largest one makes 75. All requests and answers are the same, so what the gateway remembers of
conversations, which has bounds of its own, does not grow, and what is left is a leak. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.hosts_gateway import Step, answers, execution, follower, hosting

GOAL, LEFT_GOAL = 1_000_000, 4_000
"""Bytes of a request while it is answered, and bytes that may be left of one."""
_WARM = 24

ORDINARY: Sequence[Step] = (
    ("list_tools", {}),
    ("search_tools", {"query": "restart a service"}),
    ("get_tool_schema", {"tool_name": "systemd_restart_unit"}),
    execution("procfs_read", {"info_type": "meminfo"}),
    execution("procfs_read", {"info_type": "mounts"}),
    execution("list_network_interfaces", {}),
)
LARGEST: Sequence[Step] = (execution("procfs_read", {"info_type": "meminfo"}),) * 75


class Memory(Struct, frozen=True, kw_only=True):
    """Bytes. `median` and `largest`: of the peak of a request above the level before it."""

    requests: int
    median: int
    largest: int
    left: int
    """What is left of a request: the smaller one of average and median. A leak is in both, a cache that is filled later only in
    the average, and what is written some requests later only in the median."""
    failures: int

    @property
    def is_right(self) -> bool:
        return not self.failures and self.largest < GOAL and self.left < LEFT_GOAL


async def measured(steps: Sequence[Step], requests: int) -> Memory:
    """Measures requests after some others, with which caches are filled."""
    model, failures = follower(lambda number: steps, lambda texts: "done"), 0
    peaks, rests = list[int](), list[int]()
    with tempfile.TemporaryDirectory() as folder:
        async with hosting(Path(folder), model, {}) as served:
            tracemalloc.start()
            try:
                for number in range(-_WARM, requests):
                    before = _level()
                    tracemalloc.reset_peak()
                    ((status, _),) = await answers(served, [7])
                    failures += status != 200
                    peak = tracemalloc.get_traced_memory()[1]
                    model.requests.clear()
                    if number >= 0:
                        peaks.append(peak - before)
                        rests.append(_level() - before)
            finally:
                tracemalloc.stop()
    return Memory(
        requests=requests,
        median=int(statistics.median(peaks)),
        largest=max(peaks),
        left=int(min(statistics.median(rests), statistics.mean(rests))),
        failures=failures,
    )


def _level() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200)
    options = parser.parse_args()
    kinds: Mapping[str, tuple[Sequence[Step], int]] = {
        "ordinary requests": (ORDINARY, options.requests),
        "requests with 75 calls": (LARGEST, max(1, options.requests // 20)),
    }
    met = True
    for name, (steps, requests) in kinds.items():
        memory = asyncio.run(measured(steps, requests))
        print(
            f"{memory.requests} {name}: each takes {memory.median:,} bytes (median), {memory.largest:,} at most (goal: below "
            f"{GOAL:,}); {memory.left:,} are left of one (goal: below {LEFT_GOAL:,}); {memory.failures} failed (goal: 0)"
        )
        met &= memory.is_right
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
