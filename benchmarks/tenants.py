"""A thousand tenants with catalogs of their own: python -m benchmarks.tenants [--quick]

Each tenant has a file with 50 tools, and all share 20. It measures, each in a process of its own:

    memory      what the process occupies with 10, 100 and 1,000 catalogs in use, and when 1,000 tenants take turns with 100 open
    selection   a selection for a tenant among 100 open catalogs, and in a process that has only the tools of that tenant; blocks
                of both take turns, so that other work on the machine affects both alike
    opening     the time from the first request of a tenant to its open catalog, and 1,000 first requests of one tenant at once
    flood       the selections of a quiet tenant, while 50 tasks ask for the catalogs of 900 others of which 100 may be open
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec import Struct

from benchmarks import tenant_files
from benchmarks.labelled import resident_mb
from benchmarks.tenant_files import OWN, SHARED, TENANTS
from toolcaddie.core.control import Principal
from toolcaddie.runtime import Runtime
from toolcaddie.sources.definitions import DefinitionSource
from toolcaddie.testing import ScriptedProvider
from toolcaddie.util.replacing import replace

OPEN = 100
GOAL = 1.1
"""Goal: median time of a selection among 100 open catalogs, divided by that in a process with only one."""
_SPAWN = multiprocessing.get_context("spawn")
_BLOCK = 100
"""Selections in one block of time."""


class Memory(Struct, frozen=True, kw_only=True):
    used: int
    """Tenants that have sent requests."""
    open: int
    """The setting `tenants.open`."""
    mb: float
    mb_per_catalog: float


class Times(Struct, frozen=True, kw_only=True):
    p50_ms: float
    p95_ms: float


class Row(Struct, frozen=True, kw_only=True):
    memory: Sequence[Memory]
    among: Times
    alone: Times
    ratio: float
    """Median over the blocks."""
    opening: Times
    first_at_once_ms: float
    """1,000 first requests of one tenant at once, until all have the catalog."""
    quiet: Times
    flooded: Times
    openings_per_second: float


def run(*, quick: bool = False) -> Row:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tenant_files.write(folder)
        loads = ((10, OPEN), (OPEN, OPEN), (TENANTS, TENANTS), (TENANTS, OPEN))
        memory = [_alone(_memory, folder, used, most) for used, most in loads]
        ratio, among, alone = _compared(folder, blocks=6 if quick else 30)
        opening, at_once = _alone(_openings, folder, 100 if quick else 500)
        quiet, flooded, per_second = _alone(_flooded, folder, 3.0 if quick else 15.0)
    return Row(
        memory=memory,
        among=among,
        alone=alone,
        ratio=ratio,
        opening=opening,
        first_at_once_ms=at_once,
        quiet=quiet,
        flooded=flooded,
        openings_per_second=per_second,
    )


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that the rows miss."""
    return [f"a selection takes {row.ratio:.2f} times as long as alone" for row in rows if row.ratio > GOAL]


def main(arguments: Sequence[str] = ()) -> list[Row]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tenants", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    row = run(quick=parser.parse_args(arguments).quick)
    print(f"{TENANTS:,} tenants with {OWN} tools, and {SHARED} shared ones")
    print(f"{'used':>6} {'open':>6} {'MB':>7} {'MB per catalog':>15}")
    for each in row.memory:
        print(f"{each.used:>6,} {each.open:>6,} {each.mb:>7.0f} {each.mb_per_catalog:>15.2f}")
    print(f"{'':<34} {'p50 ms':>7} {'p95 ms':>7}")
    for name, times in (
        (f"selection among {OPEN} open catalogs", row.among),
        ("selection in a process of its own", row.alone),
        ("opening a catalog", row.opening),
        ("quiet tenant alone", row.quiet),
        ("quiet tenant, others open catalogs", row.flooded),
    ):
        print(f"{name:<34} {times.p50_ms:>7.3f} {times.p95_ms:>7.3f}")
    print(f"selection, ratio of the medians of neighbouring blocks: {row.ratio:.2f}")
    print(f"{TENANTS:,} first requests of one tenant at once: {row.first_at_once_ms:.0f} ms, opened once")
    print(f"flood: {row.openings_per_second:.0f} openings a second")
    return [row]


# --- what is measured, in other processes


async def _selected(runtime: Runtime, tenant: str, text: str) -> None:
    async with runtime.holding(tenant):
        runtime.select(text, principal=Principal(tenant=tenant))


def _alone(measure: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, mp_context=_SPAWN) as executor:
        return executor.submit(measure, *arguments).result()


def _memory(folder: Path, used: int, most: int) -> Memory:
    async def measured() -> Memory:
        runtime = tenant_files.runtime(folder, most)
        await _selected(
            runtime, tenant_files.name(TENANTS - 1), "please count the invoices"
        )  # loads what all selections share
        gc.collect()
        before = resident_mb()
        for number in range(used):
            await _selected(runtime, tenant_files.name(number), next(tenant_files.texts(number)))
        gc.collect()
        mb = resident_mb()
        added = len(runtime.catalogs.open) - 1
        return Memory(used=used, open=most, mb=mb, mb_per_catalog=(mb - before) / added)

    return asyncio.run(measured())


def _compared(folder: Path, *, blocks: int) -> tuple[float, Times, Times]:
    """Returns the ratio of the medians, and the times of a selection among others and alone."""
    with _answering(_among, folder) as among, _answering(_only, folder) as alone:
        pairs = []
        for number in range(blocks):
            sides = (among, alone) if number % 2 else (alone, among)
            times = {side: _asked(side) for side in sides}
            pairs.append((times[among], times[alone]))
    ratio = statistics.median(statistics.median(first) / statistics.median(second) for first, second in pairs)
    return ratio, _times([t for first, _ in pairs for t in first]), _times([t for _, second in pairs for t in second])


@contextmanager
def _answering(serve: Callable[[Connection, Path], None], folder: Path) -> Iterator[Connection]:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=serve, args=(theirs, folder))
    process.start()
    try:
        ours.recv()
        yield ours
    finally:
        ours.send(False)
        process.join()


def _asked(side: Connection) -> list[float]:
    side.send(True)
    times: list[float] = side.recv()
    return times


def _among(connection: Connection, folder: Path) -> None:
    runtime = tenant_files.runtime(folder, OPEN)

    async def open_all() -> None:
        for number in range(OPEN):
            await _selected(runtime, tenant_files.name(number), next(tenant_files.texts(number)))

    with asyncio.Runner() as runner:
        runner.run(open_all())
        _serve(connection, runner, runtime, tenant_files.name(0))


def _only(connection: Connection, folder: Path) -> None:
    own = DefinitionSource(
        "own", [replace(tool, source="own") for tool in tenant_files.tools(0)], origin="the benchmark"
    )
    with asyncio.Runner() as runner:
        runtime = Runtime(provider=ScriptedProvider([]), sources=[tenant_files.shared(), own])
        runner.run(_selected(runtime, tenant_files.name(0), "please count the invoices"))
        _serve(connection, runner, runtime, tenant_files.name(0))


def _serve(connection: Connection, runner: asyncio.Runner, runtime: Runtime, tenant: str) -> None:
    """Measures a block of selections each time it is told to."""
    texts = tenant_files.texts(0)
    connection.send(True)
    while connection.recv():
        connection.send(runner.run(_block(runtime, tenant, texts)))


async def _block(runtime: Runtime, tenant: str, texts: Iterator[str]) -> list[float]:
    return [await _timed(_selected(runtime, tenant, next(texts))) for _ in range(_BLOCK)]


async def _timed(work: Any) -> float:
    started = time.perf_counter()
    await work
    return (time.perf_counter() - started) * 1e3


def _openings(folder: Path, count: int) -> tuple[Times, float]:
    async def measured() -> tuple[Times, float]:
        runtime = tenant_files.runtime(folder, OPEN)

        async def opened(tenant: str) -> None:
            async with runtime.holding(tenant):
                pass

        times = [await _timed(opened(tenant_files.name(number))) for number in range(count)]
        at_once = await _timed(asyncio.gather(*(opened(tenant_files.name(TENANTS - 1)) for _ in range(TENANTS))))
        return _times(times), at_once

    return asyncio.run(measured())


def _flooded(folder: Path, seconds: float) -> tuple[Times, Times, float]:
    async def measured() -> tuple[Times, Times, float]:
        runtime, texts, opened = tenant_files.runtime(folder, OPEN), tenant_files.texts(0), 0
        numbers = iter(range(10**9))

        async def flood() -> None:
            nonlocal opened
            while True:
                async with runtime.holding(tenant_files.name(100 + next(numbers) % 900)):
                    opened += 1

        async def quiet() -> list[float]:
            until, times = time.perf_counter() + seconds, []
            while time.perf_counter() < until:
                times.append(await _timed(_selected(runtime, tenant_files.name(0), next(texts))))
                await asyncio.sleep(0.005)
            return times

        await _selected(runtime, tenant_files.name(0), next(texts))
        alone = await quiet()
        tasks = [asyncio.create_task(flood()) for _ in range(50)]
        during = await quiet()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return _times(alone), _times(during), opened / seconds

    return asyncio.run(measured())


def _times(times: Sequence[float]) -> Times:
    ordered = sorted(times)
    return Times(p50_ms=statistics.median(ordered), p95_ms=ordered[int(len(ordered) * 0.95)])


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
