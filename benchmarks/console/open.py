"""Cost of an open console for the gateway: python -m benchmarks.console.open [--quick]

Two gateways over one upstream take turns, each with its trail in an SQLite file of its own. Over one of them a person has the
console open: the live list of runs, and the overview, which is loaded again every few seconds. Figures are medians over the
repetitions, ratios are taken within a repetition. The goal is a ratio of at most 1.03 for latency, and for requests a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

import aiohttp
import uvloop
from msgspec import Struct

from benchmarks import servers
from benchmarks.console.page_views import sign_in
from benchmarks.gateway import Case, Effort, request_bodies
from benchmarks.load import Load, Measured
from benchmarks.servers import Server

GOAL = 1.03
CLOSED, OPEN = "closed", "open"
FULL = Effort(repetitions=15, requests=4_000, seconds=1.5)
QUICK = Effort(repetitions=5, requests=500, seconds=1.0)

CASES = tuple(
    Case(connections=connections, stream=False, tools=tools) for connections in (1, 32) for tools in (0, 24, 300)
)
_LOADED_AGAIN = 5.0
"""Seconds between two visits of the overview."""


class Row(Struct, frozen=True, kw_only=True):
    """The figures of a kind of request without and with an open console."""

    case: str
    p50: float
    """Milliseconds, without."""
    p50_open: float
    latency: float
    """Ratio of the medians of the latency."""
    cpu: float
    """Ratio of the CPU of a request."""
    rate: float
    """Requests a second without, divided by those with an open console."""


def run(effort: Effort) -> list[Row]:
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(servers.upstream())
        running = {name: stack.enter_context(servers.toolcaddie(upstream.base_url)) for name in (CLOSED, OPEN)}
        return uvloop.run(_measured(running, effort))


async def _measured(running: Mapping[str, Server], effort: Effort) -> list[Row]:
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)  # servers close theirs after five seconds
    async with aiohttp.ClientSession(connector=connector) as session, _console(running[OPEN]):
        return [await _row(Load(session), running, case, effort) for case in CASES]


@contextlib.asynccontextmanager
async def _console(server: Server) -> AsyncIterator[None]:
    """Has the console of a server open."""
    async with aiohttp.ClientSession(
        base_url=server.base_url.removesuffix("/v1"),
        cookie_jar=aiohttp.CookieJar(unsafe=True),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as web:
        await sign_in(web, "")
        tasks = [asyncio.create_task(each) for each in (_follow(web), _visit(web))]
        try:
            yield
        finally:
            for task in tasks:
                if task.done():
                    task.result()
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(web: aiohttp.ClientSession) -> None:
    """Opens the list of runs and follows it, as the script of the page does."""
    while True:
        async with web.get("/console/runs", headers={"accept": "application/json"}) as answer:
            answer.raise_for_status()
            last = (await answer.json())["last"]
        async with web.get(f"/console/runs/live?after={last}") as answer:
            assert answer.content_type == "text/event-stream", answer.content_type
            async for _ in answer.content.iter_any():
                pass


async def _visit(web: aiohttp.ClientSession) -> None:
    while True:
        async with web.get("/console/overview") as answer:
            assert answer.url.path == "/console/overview", answer.url
            await answer.read()
        await asyncio.sleep(_LOADED_AGAIN)


async def _row(load: Load, running: Mapping[str, Server], case: Case, effort: Effort) -> Row:
    bodies = request_bodies(case)
    rounds: list[dict[str, Measured]] = []
    for repetition in range(effort.repetitions + 1):
        names = (CLOSED, OPEN) if repetition % 2 else (OPEN, CLOSED)
        rounds.append(
            {
                name: await load.block(
                    running[name],
                    bodies,
                    connections=case.connections,
                    requests=effort.requests,
                    seconds=effort.seconds,
                )
                for name in names
            }
        )
    del rounds[0]  # it warms connections and caches

    def ratio(of: str, over: str, name: str) -> float:
        return float(statistics.median(getattr(one[of], name) / getattr(one[over], name) for one in rounds))

    return Row(
        case=str(case),
        p50=statistics.median(one[CLOSED].p50_ms for one in rounds),
        p50_open=statistics.median(one[OPEN].p50_ms for one in rounds),
        latency=ratio(OPEN, CLOSED, "p50_ms"),
        cpu=ratio(OPEN, CLOSED, "cpu_ms"),
        rate=ratio(CLOSED, OPEN, "per_second"),
    )


def missed(rows: Sequence[Row]) -> Sequence[str]:
    """Returns a sentence for each goal that was missed."""
    return [
        f"{row.case}: {word} is {value:.3f} times as large, the goal is {GOAL}"
        for row in rows
        for word, value in (("latency", row.latency), ("time per request", row.rate))
        if value > GOAL
    ]


def table(rows: Sequence[Row]) -> Iterator[str]:
    yield f"{'':<36}{'p50 ms':>9}{'open':>9}{'latency':>10}{'CPU':>8}{'time':>8}"
    for row in rows:
        yield f"{row.case:<36}{row.p50:>9.2f}{row.p50_open:>9.2f}{row.latency:>10.3f}{row.cpu:>8.3f}{row.rate:>8.3f}"


def main(arguments: Sequence[str]) -> Sequence[Row]:
    rows = run(QUICK if "--quick" in arguments else FULL)
    print(*table(rows), *(f"MISSED: {sentence}" for sentence in missed(rows)), sep="\n")
    return rows


if __name__ == "__main__":
    sys.exit(bool(missed(main(sys.argv[1:]))))
