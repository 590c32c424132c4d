"""The throughput of `toolcaddie serve --workers N`, compared with one process.

python -m benchmarks.workers [--quick]

One upstream that needs nearly no time answers. Both servers take turns in each repetition, under as many connections as keep them
at their limit; a ratio is taken within a repetition, and the figures are medians. The client and the upstream need processor
time too, so on a machine with few cores the ratio is lower than the number of workers.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp
import uvloop

from benchmarks import servers
from benchmarks.gateway import Case, request_bodies
from benchmarks.load import Load, Measured
from benchmarks.servers import Server

_COUNTS = (1, 2)
"""Numbers of workers."""
_CASES = tuple(Case(connections=32, stream=stream, tools=tools) for stream in (False, True) for tools in (0, 24, 300))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of a number of workers in a case."""

    case: Case
    workers: int
    p50_ms: float
    p99_ms: float
    per_second: float
    ratio: float
    """Requests per second divided by those of one process."""


async def _measured(running: Sequence[Server], repetitions: int, requests: int) -> list[Row]:
    rows: list[Row] = []
    for server in running:  # until all workers have started, and each has its indexes
        await _block(server, _CASES[-1], requests=1_000_000, seconds=4.0)
    for case in _CASES:
        rounds = [
            [await _block(server, case, requests=requests, seconds=2.0) for server in running]
            for _ in range(repetitions + 1)
        ]
        rows += [_row(case, at, rounds[1:]) for at in range(len(running))]
    return rows


async def _block(server: Server, case: Case, *, requests: int, seconds: float) -> Measured:
    """Measures one block of requests, over connections of its own."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        return await Load(session).block(
            server, request_bodies(case), connections=case.connections, requests=requests, seconds=seconds
        )


def _row(case: Case, at: int, rounds: Sequence[Sequence[Measured]]) -> Row:
    return Row(
        case=case,
        workers=_COUNTS[at],
        p50_ms=statistics.median(one[at].p50_ms for one in rounds),
        p99_ms=statistics.median(one[at].p99_ms for one in rounds),
        per_second=statistics.median(one[at].per_second for one in rounds),
        ratio=statistics.median(one[at].per_second / one[0].per_second for one in rounds),
    )


def run(*, quick: bool = False) -> list[Row]:
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(servers.upstream())
        running = [stack.enter_context(servers.toolcaddie(upstream.base_url, workers=count)) for count in _COUNTS]
        return uvloop.run(_measured(running, *((3, 300) if quick else (7, 1_500))))


def main(arguments: Sequence[str] = ()) -> list[Row]:
    rows = run(quick="--quick" in arguments)
    print(f"{os.cpu_count()} processor cores, shared with the client and the upstream")
    for row in rows:
        print(
            f"{row.case!s:<34}{row.workers:>2} workers{row.p50_ms:>8.1f} ms p50{row.p99_ms:>8.1f} ms p99"
            f"{row.per_second:>8,.0f} requests/s{row.ratio:>6.2f} of one process"
        )
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
