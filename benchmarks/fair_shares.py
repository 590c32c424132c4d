"""The cost of one tenant's flood for the others: python -m benchmarks.fair_shares [--quick] [--kind KIND] [--tree CHECKOUT]

One gateway, 20 quiet tenants and one that floods it. In each repetition the quiet tenants are measured alone and during the
flood, so that other work on the machine affects both alike. Requests have 24 tools, which is work for the processor.

    paced       a model that takes 200 ms; each quiet tenant sends a request twice in a second; 200 connections flood
    saturated   a model that takes no time; each quiet tenant sends its next request at once; 200 connections flood
    overfull    as saturated, with 600 connections that flood, so that requests are refused too

The flood comes from a process of its own. Figures are medians over the repetitions. `--tree` measures another checkout.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
from msgspec import Struct

from benchmarks import servers
from benchmarks.gateway import Case, request_bodies
from benchmarks.servers import Server

FLOOD = "flood"
QUIET = tuple(f"quiet{number:02}" for number in range(20))
GOAL = 1.2
"""Goal: p50 and p95 of the quiet tenants during the flood, divided by those without it; and throughput the other way round."""

_TOOLS = 24
_SPAWN = multiprocessing.get_context("spawn")


class Kind(Struct, frozen=True, kw_only=True):
    name: str
    delay: float
    """Seconds that the model takes."""
    pause: float
    """Seconds from one request of a quiet tenant to its next; 0: it sends it as soon as it has the answer."""
    flood: int
    """Connections of the flood."""


KINDS = (
    Kind(name="paced", delay=0.2, pause=0.5, flood=200),
    Kind(name="saturated", delay=0.0, pause=0.0, flood=200),
    Kind(name="overfull", delay=0.0, pause=0.0, flood=600),
)


class Figures(Struct, frozen=True, kw_only=True):
    """The quiet tenants in one block of time."""

    p50_ms: float
    p95_ms: float
    per_second: float
    refused: int


class Row(Struct, frozen=True, kw_only=True):
    kind: str
    alone: Figures
    flooded: Figures
    p50_ratio: float
    p95_ratio: float
    per_second_ratio: float
    flood_per_second: float
    """Answers to the tenant that floods."""
    flood_refused: float
    """Share of its requests that were refused."""


def run(*, kinds: Sequence[str], repetitions: int, seconds: float, tree: Path | None = None) -> list[Row]:
    body = request_bodies(Case(connections=1, stream=False, tools=_TOOLS))[0]
    return [_kind(kind, body, repetitions, seconds, tree) for kind in KINDS if kind.name in kinds]


def _kind(kind: Kind, body: bytes, repetitions: int, seconds: float, tree: Path | None) -> Row:
    options: dict[str, Any] = {} if tree is None else {"tree": tree}
    with (
        servers.upstream(kind.delay) as upstream,
        servers.toolcaddie(upstream.base_url, tenants=(*QUIET, FLOOD), **options) as server,
    ):
        return uvloop.run(_measured(server, kind, body, repetitions, seconds))


async def _measured(server: Server, kind: Kind, body: bytes, repetitions: int, seconds: float) -> Row:
    rounds: list[tuple[Figures, Figures]] = []
    flood_answers, flood_refused, flood_seconds = 0, 0, 0.0
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)
    async with aiohttp.ClientSession(connector=connector) as session:
        await _block(session, server, kind, body, min(seconds, 2.0))  # connections, caches
        for _ in range(repetitions):
            alone = await _block(session, server, kind, body, seconds)
            with _flood(server, kind.flood, body) as counts:
                while not sum(counts):  # noqa: ASYNC110  numbers of another process have no event
                    await asyncio.sleep(0.1)
                await asyncio.sleep(0.5)
                answers, refused, started = counts[0], counts[1], time.perf_counter()
                flooded = await _block(session, server, kind, body, seconds)
                flood_answers += counts[0] - answers
                flood_refused += counts[1] - refused
                flood_seconds += time.perf_counter() - started
            await asyncio.sleep(1.0)  # the rest of the flood is answered
            rounds.append((alone, flooded))
    return Row(
        kind=kind.name,
        alone=_median([alone for alone, _ in rounds]),
        flooded=_median([flooded for _, flooded in rounds]),
        p50_ratio=statistics.median(flooded.p50_ms / alone.p50_ms for alone, flooded in rounds),
        p95_ratio=statistics.median(flooded.p95_ms / alone.p95_ms for alone, flooded in rounds),
        per_second_ratio=statistics.median(flooded.per_second / alone.per_second for alone, flooded in rounds),
        flood_per_second=flood_answers / flood_seconds,
        flood_refused=flood_refused / max(1, flood_answers + flood_refused),
    )


def _median(figures: Sequence[Figures]) -> Figures:
    return Figures(
        p50_ms=statistics.median(each.p50_ms for each in figures),
        p95_ms=statistics.median(each.p95_ms for each in figures),
        per_second=statistics.median(each.per_second for each in figures),
        refused=sum(each.refused for each in figures),
    )


async def _block(session: aiohttp.ClientSession, server: Server, kind: Kind, body: bytes, seconds: float) -> Figures:
    times: list[float] = []
    refused = 0
    started = time.perf_counter()

    async def tenant(place: int, secret: str) -> None:
        nonlocal refused
        headers = {"content-type": "application/json", "authorization": f"Bearer {secret}"}
        due = started + kind.pause * place / len(QUIET)
        while (now := time.perf_counter()) < started + seconds:
            if kind.pause:
                await asyncio.sleep(max(0.0, due - now))
                due = max(due + kind.pause, time.perf_counter())
            asked = time.perf_counter()
            status = await ask(session, server, headers, body)
            refused += status == 429
            if status == 200:
                times.append(time.perf_counter() - asked)

    await asyncio.gather(*(tenant(place, server.secrets[name]) for place, name in enumerate(QUIET)))
    times.sort()
    return Figures(
        p50_ms=times[len(times) // 2] * 1e3,
        p95_ms=times[int(len(times) * 0.95)] * 1e3,
        per_second=len(times) / (time.perf_counter() - started),
        refused=refused,
    )


async def ask(session: aiohttp.ClientSession, server: Server, headers: dict[str, str], body: bytes) -> int:
    async with session.post(f"{server.base_url}/chat/completions", data=body, headers=headers) as answer:
        await answer.read()
        if answer.status not in (200, 429, 503):
            raise RuntimeError(f"the gateway answered {answer.status}: {(await answer.text())[:300]}")
        return answer.status


# --- the flood ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _flood(server: Server, connections: int, body: bytes) -> Iterator[Any]:
    """Floods the server from another process. Yields the numbers of answers and of refusals so far."""
    counts, stop = _SPAWN.RawArray("q", 2), _SPAWN.Event()
    process = _SPAWN.Process(target=_send_flood, args=(server, connections, body, counts, stop))
    process.start()
    try:
        yield counts
    finally:
        stop.set()
        process.join(20)
        if process.is_alive():
            process.kill()
            process.join()


def _send_flood(server: Server, connections: int, body: bytes, counts: Any, stop: Event) -> None:
    uvloop.run(_flooding(server, connections, body, counts, stop))


async def _flooding(server: Server, connections: int, body: bytes, counts: Any, stop: Event) -> None:
    headers = {"content-type": "application/json", "authorization": f"Bearer {server.secrets[FLOOD]}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:

        async def connection() -> None:
            while not stop.is_set():
                with contextlib.suppress(aiohttp.ClientError):
                    status = await ask(session, server, headers, body)
                    counts[int(status != 200)] += 1
                    if status != 200:
                        await asyncio.sleep(1.0)  # less than the server asks for

        await asyncio.gather(*(connection() for _ in range(connections)))


# --- the table ---------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> Iterator[str]:
    yield f"{'':<11}{'':<10}{'p50 ms':>9}{'p95 ms':>9}{'per s':>9}{'refused':>9}"
    for row in rows:
        for name, figures in (("alone", row.alone), ("flooded", row.flooded)):
            yield (
                f"{row.kind:<11}{name:<10}{figures.p50_ms:>9.1f}{figures.p95_ms:>9.1f}{figures.per_second:>9.1f}"
                f"{figures.refused:>9}"
            )
        yield (
            f"{'':<11}{'ratio':<10}{row.p50_ratio:>9.2f}{row.p95_ratio:>9.2f}{row.per_second_ratio:>9.2f}"
            f"   flood: {row.flood_per_second:.1f} answers per s, {row.flood_refused:.0%} refused"
        )


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that were missed."""
    figures = [
        (row, what, value)
        for row in rows
        for what, value in (("p50", row.p50_ratio), ("p95", row.p95_ratio), ("throughput", 1 / row.per_second_ratio))
    ]
    return [f"{row.kind}: {what} costs {value:.2f}, goal {GOAL}" for row, what, value in figures if value > GOAL]


def main(arguments: Sequence[str] = ()) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--kind", action="append", choices=[kind.name for kind in KINDS], help="only these kinds")
    options = parser.parse_args(list(arguments))
    kinds = options.kind or [kind.name for kind in KINDS]
    rows = run(
        kinds=kinds, repetitions=2 if options.quick else 5, seconds=3.0 if options.quick else 5.0, tree=options.tree
    )
    print(*table(rows), sep="\n")
    return rows


if __name__ == "__main__":
    print(*missed(main(sys.argv[1:])), sep="\n")
