"""What it costs that an answer waits until its rows are on disk: python -m benchmarks.durable

Two gateways, one with `[storage] durable = "intent"` and one with "answer", asked in turn by the same load; the figures are
medians over the repetitions. The runs call no tool, so that the wait for the end of the answer is all that differs.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import aiohttp
import uvloop

from benchmarks import servers
from benchmarks.gateway import Case, request_bodies
from benchmarks.load import Load, Measured
from benchmarks.servers import Server

_REPETITIONS, _REQUESTS, _SECONDS = 7, 300, 0.5
_CASES = [Case(connections=connections, stream=stream, tools=24) for connections in (1, 32) for stream in (False, True)]
_WAYS = ("intent", "answer")


def main() -> None:
    with servers.upstream() as upstream:
        target = upstream.base_url
        first, second = (
            servers.toolcaddie(target, name=way, environment={"TOOLCADDIE_STORAGE_DURABLE": way}) for way in _WAYS
        )
        with first as intent, second as answer:
            uvloop.run(_compare([intent, answer]))


async def _compare(running: Sequence[Server]) -> None:
    print(f"{'':<34}{'intent p50':>12}{'answer p50':>12}{'intent p99':>12}{'answer p99':>12}  ms")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=3)) as session:
        load = Load(session)
        for case in _CASES:
            measured: dict[str, list[Measured]] = {way: [] for way in _WAYS}
            for repetition in range(_REPETITIONS + 1):  # the first one warms up
                for server in running if repetition % 2 else reversed(running):
                    block = await load.block(
                        server,
                        request_bodies(case),
                        connections=case.connections,
                        requests=_REQUESTS,
                        seconds=_SECONDS,
                    )
                    measured[server.name] += [block] if repetition else []
            p50 = [statistics.median(one.p50_ms for one in measured[way]) for way in _WAYS]
            p99 = [statistics.median(one.p99_ms for one in measured[way]) for way in _WAYS]
            print(f"{case!s:<34}" + "".join(f"{figure:>12.2f}" for figure in (*p50, *p99)))


if __name__ == "__main__":
    main()
