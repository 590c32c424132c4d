"""What API keys and their limits add to a request at the gateway: python -m benchmarks.key_limits [--quick]

Three gateways over one upstream take turns, each with its trail, keys and counts in an SQLite file of its own: without keys,
with a key that has no limits, and with a key that has all six limits, too high to be reached. A request has no tools and is
passed through. Figures are medians over the repetitions, "added" those of the differences within a repetition.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence

import aiohttp
import uvloop
from msgspec import Struct

from benchmarks import servers
from benchmarks.gateway import FULL, QUICK, Case, Effort, request_bodies
from benchmarks.load import Load, Measured
from benchmarks.servers import Server

NO_KEY, NO_LIMITS, LIMITS = "no key", "key without limits", "key with six limits"
_HIGH = "1000000000"
_KEYS: Mapping[str, Sequence[str] | None] = {
    NO_KEY: None,
    NO_LIMITS: (),
    LIMITS: [
        word
        for what in ("requests", "tokens", "dollars")
        for window in ("minute", "day")
        for word in (f"--{what}-per-{window}", _HIGH)
    ],
}
_CONNECTIONS = (1, 16)


class Row(Struct, frozen=True, kw_only=True):
    """The figures of one kind of key, in milliseconds."""

    connections: int
    key: str
    requests: int
    p50: float
    p95: float
    added_p50: float
    """What it takes more than a request without a key."""
    added_p95: float
    cpu: float
    """CPU of the gateway's process for each request."""


def run(effort: Effort) -> list[Row]:
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(servers.upstream())
        running = {
            name: stack.enter_context(servers.toolcaddie(upstream.base_url, key=options))
            for name, options in _KEYS.items()
        }
        return uvloop.run(_measured(running, effort))


async def _measured(running: Mapping[str, Server], effort: Effort) -> list[Row]:
    rows: list[Row] = []
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)  # servers close theirs after five seconds
    async with aiohttp.ClientSession(connector=connector) as session:
        for connections in _CONNECTIONS:
            rows += await _rows(Load(session), running, connections, effort)
    return rows


async def _rows(load: Load, running: Mapping[str, Server], connections: int, effort: Effort) -> list[Row]:
    bodies = request_bodies(Case(connections=connections, stream=False, tools=0))
    rounds: list[dict[str, Measured]] = []
    for repetition in range(effort.repetitions + 1):
        shift = repetition % len(running)
        names = [*running][shift:] + [*running][:shift]
        rounds.append(
            {
                name: await load.block(
                    running[name], bodies, connections=connections, requests=effort.requests, seconds=effort.seconds
                )
                for name in names
            }
        )
    return [_row(connections, name, rounds[1:]) for name in running]  # the first warms connections and caches


def _row(connections: int, name: str, rounds: Sequence[Mapping[str, Measured]]) -> Row:
    return Row(
        connections=connections,
        key=name,
        requests=sum(one[name].requests for one in rounds),
        p50=statistics.median(one[name].p50_ms for one in rounds),
        p95=statistics.median(one[name].p95_ms for one in rounds),
        added_p50=statistics.median(one[name].p50_ms - one[NO_KEY].p50_ms for one in rounds),
        added_p95=statistics.median(one[name].p95_ms - one[NO_KEY].p95_ms for one in rounds),
        cpu=statistics.median(one[name].cpu_ms for one in rounds),
    )


def table(rows: Sequence[Row]) -> Iterator[str]:
    yield f"{'':<9}{'key':<22}{'p50 ms':>9}{'p95 ms':>9}{'added p50':>11}{'added p95':>11}{'CPU ms':>9}{'requests':>10}"
    for row in rows:
        yield (
            f"{row.connections:>2} conn  {row.key:<22}{row.p50:>9.2f}{row.p95:>9.2f}{row.added_p50:>11.2f}{row.added_p95:>11.2f}"
            f"{row.cpu:>9.3f}{row.requests:>10,}"
        )


def main(arguments: Sequence[str] = ()) -> list[Row]:
    rows = run(QUICK if "--quick" in arguments else FULL)
    print(*table(rows), sep="\n")
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
