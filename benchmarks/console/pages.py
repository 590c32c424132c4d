"""Time of the console's pages on a large database: python -m benchmarks.console.pages [--folder FOLDER] [--repetitions 40]

Opens every page of `addresses` one after another: first each once, in a process that has just started, then each many
times. A page is served by the product's own application in this process, without a network. The goal is a 95th percentile below
100 ms for each page, and no page, not even a first one, may stop the event loop for 250 ms. A route of the console that no
address covers counts as a missed goal too. `database` makes the folder, in some minutes, if it is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from msgspec import Struct

from benchmarks.console.addresses import AS_DATA, FORMS, LEFT_OUT, PAGES
from benchmarks.console.asked import Asker, signed_in
from benchmarks.console.database import RUNS, prepared, runs_in
from benchmarks.console.desks import reviews_of
from benchmarks.console.words import words_of
from toolcaddie.app.build import assembled
from toolcaddie.app.settings import Settings
from toolcaddie.core.control import Principal
from toolcaddie.doors.cli.serve.serving import COLLECTIONS, SWITCH_SECONDS
from toolcaddie.doors.console.app import Console
from toolcaddie.doors.console.complete import console_of

GOAL = 100.0
"""Milliseconds."""
STILL_GOAL = 250.0
"""Milliseconds for which the event loop may stand still in the first view of a page."""
_TICK = 0.001
_SERIES = 3


class Row(Struct, frozen=True, kw_only=True):
    """The times of a page in milliseconds, and its size in kilobytes."""

    page: str
    kind: str
    """`page`, `data` (the page as JSON) or `form`."""
    status: int
    p50: float
    p95: float
    worst: float
    cpu: float
    """The 95th percentile of the CPU time of the whole process, which other work on the machine does not affect much."""
    first: float
    """The first view of the process."""
    still: float
    """The longest time for which the event loop stood still during the first view."""
    kilobytes: float


@dataclass(slots=True, kw_only=True)
class _Asked:
    """A page with how it is asked for, and what was measured."""

    page: str
    kind: str
    ask: Callable[[], Awaitable[tuple[int, bytes]]]
    first: float = 0.0
    times: list[float] = field(default_factory=list)
    cpu_times: list[float] = field(default_factory=list)
    still: float = 0.0
    status: int = 0
    size: int = 0

    async def view(self) -> None:
        begun, cpu = time.perf_counter(), time.process_time()
        self.status, body = await self.ask()
        self.cpu_times.append((time.process_time() - cpu) * 1000)
        self.times.append((time.perf_counter() - begun) * 1000)
        self.size = len(body)

    async def series(self, repetitions: int) -> None:
        self.times, self.cpu_times = [], []
        for _ in range(repetitions):
            await self.view()

    async def measure(self, repetitions: int) -> None:
        """Opens the page many times; if it misses the goal, in two more series, of which the one in the middle counts."""
        await self.series(repetitions)
        if _p95(self.times) < GOAL:
            return
        all_series = [(_p95(self.times), self.times, self.cpu_times)]
        while len(all_series) < _SERIES:
            await self.series(repetitions)
            all_series.append((_p95(self.times), self.times, self.cpu_times))
        _, self.times, self.cpu_times = sorted(all_series)[_SERIES // 2]

    async def first_view(self) -> None:
        ticker = _Ticker()
        ticking = asyncio.create_task(ticker.run())
        await asyncio.sleep(0)
        await self.view()
        await asyncio.sleep(0)
        ticking.cancel()
        self.first = self.times[0]
        self.still = ticker.longest * 1000

    @property
    def row(self) -> Row:
        return Row(
            page=self.page,
            kind=self.kind,
            status=self.status,
            p50=round(statistics.median(self.times), 1),
            p95=round(_p95(self.times), 1),
            worst=round(max(self.times), 1),
            cpu=round(_p95(self.cpu_times), 1),
            first=round(self.first, 1),
            still=round(self.still, 1),
            kilobytes=round(self.size / 1024, 1),
        )


class _Ticker:
    """Notes the longest time between two turns of the event loop."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        last = time.perf_counter()
        try:
            while True:
                await asyncio.sleep(_TICK)
                self.longest, last = max(self.longest, time.perf_counter() - last), time.perf_counter()
        finally:
            self.longest = max(self.longest, time.perf_counter() - last)


async def measured(settings: Settings, runs: int, repetitions: int, only: str = "") -> tuple[list[Row], Sequence[str]]:
    """Returns the times of all pages, and the routes that none of them covers. `only`: a text in the addresses to measure."""
    async with assembled(settings, create=False) as parts:
        console = console_of(parts, reviews_of(parts))
        assert console is not None
        _, key = await parts.keys.add(f"bench {time.time()}", Principal(id="ada", role="admin"))
        asker = await signed_in(console, key)
        words = await words_of(parts, runs)
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.freeze()  # as `toolcaddie serve` does when it has started
        gc.set_threshold(*COLLECTIONS)
        wanted = [each for each in _wanted(asker, words) if only in each.page]
        for each in wanted:
            await each.first_view()
        for each in wanted:
            await each.measure(repetitions)
        return [each.row for each in wanted], _uncovered(console)


def _wanted(asker: Asker, words: Mapping[str, str]) -> Sequence[_Asked]:
    return [
        *(_Asked(page=page, kind="page", ask=partial(asker.page, page.format(**words))) for page in PAGES),
        *(_Asked(page=page, kind="data", ask=partial(asker.json, page.format(**words))) for page in AS_DATA),
        *(
            _Asked(page=page, kind="form", ask=partial(asker.sent, page.format(**words), fields))
            for page, fields in FORMS.items()
        ),
    ]


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[max(0, int(len(times) * 0.95) - 1)]


def _uncovered(console: Console) -> Sequence[str]:
    """Returns the GET routes that no address covers."""
    plain = [page.partition("?")[0].replace("{", "").replace("}", "") for page in PAGES]
    return [
        route.path
        for _, route in console.routes
        if route.method == "GET"
        and route.path not in LEFT_OUT
        and not any(_is_of(console, page, route.path) for page in plain)
    ]


def _is_of(console: Console, page: str, path: str) -> bool:
    """Returns True if the console answers a page by the route of this path: the first route that fits."""
    first = next(
        (route for _, route in console.routes if route.method == "GET" and route.part_of(page) is not None), None
    )
    return first is not None and first.path == path


def missed(rows: Sequence[Row], uncovered: Sequence[str]) -> Sequence[str]:
    """Returns a sentence for each goal that was missed."""
    return [
        *(f"{row.page} answers with status {row.status}" for row in rows if row.status != 200),
        *(f"{row.page} takes {row.p95} ms (p95), the goal is {GOAL:g}" for row in rows if row.p95 >= GOAL),
        *(
            f"the first view of {row.page} stops the event loop for {row.still} ms, the goal is {STILL_GOAL:g}"
            for row in rows
            if row.still >= STILL_GOAL
        ),
        *(f"no address of console_addresses covers {path}" for path in uncovered),
    ]


def main(arguments: Sequence[str]) -> bool:
    """Returns True if all goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/console"))
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of a folder that is made")
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--only", default="", help="a text in the addresses to measure")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    settings = prepared(folder, options.runs)
    rows, uncovered = asyncio.run(measured(settings, runs_in(folder), options.repetitions, options.only))
    print("     p50      p95    worst      cpu    first    still       kB")
    for row in rows:
        figures = (row.p50, row.p95, row.worst, row.cpu, row.first, row.still, row.kilobytes)
        print("".join(f"{figure:8.1f} " for figure in figures) + f" {row.status}  {row.kind} {row.page}")
    sentences = missed(rows, uncovered)
    for sentence in sentences:
        print(f"MISSED: {sentence}")
    return not sentences


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
