"""Time in which the console counts a trail that it has not counted yet: python -m benchmarks.console.counting FOLDER

FOLDER is one that `database` has made. Its figures are removed first. The steps follow one another at once; a server
rests 50 ms after each, so that requests have the database most of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.settings import load_settings
from toolcaddie.doors.cli.serve.serving import COLLECTIONS, SWITCH_SECONDS

_TICK = 0.001


class Counted(Struct, frozen=True, kw_only=True):
    """The times of counting a whole trail."""

    steps: int
    seconds: float
    cpu_seconds: float
    """Of the process."""
    p50: float
    """Milliseconds of a step."""
    p95: float
    worst: float
    still_p95: float
    """The longest time for which the event loop stood still in a step, in milliseconds."""
    still_worst: float

    def __str__(self) -> str:
        return (
            f"{self.steps:,} steps in {self.seconds:.0f} s ({self.cpu_seconds:.0f} s of CPU); a step: p50 {self.p50:.1f} ms, p95 "
            f"{self.p95:.1f} ms, worst {self.worst:.1f} ms; the event loop stood still for "
            f"{self.still_p95:.1f} ms (p95), {self.still_worst:.1f} ms at most"
        )


async def counted(parts: Assembled) -> Counted:
    """Counts the whole trail, as `toolcaddie serve` does beside its requests."""
    times: list[float] = []
    stills: list[float] = []
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            last = time.perf_counter()
            await asyncio.sleep(_TICK)
            longest = max(longest, time.perf_counter() - last - _TICK)

    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # as `toolcaddie serve` does when it has started
    gc.set_threshold(*COLLECTIONS)
    ticking = asyncio.create_task(tick())
    cpu, all_begun = time.process_time(), time.perf_counter()
    while True:
        begun, longest = time.perf_counter(), 0.0
        progress = await parts.database.figures.advance(parts.runtime.prices_of)
        times.append((time.perf_counter() - begun) * 1000)
        stills.append(longest * 1000)
        if not progress.behind:
            break
    ticking.cancel()
    ordered, stills = sorted(times), sorted(stills)
    return Counted(
        steps=len(times),
        seconds=time.perf_counter() - all_begun,
        cpu_seconds=time.process_time() - cpu,
        p50=ordered[len(ordered) // 2],
        p95=ordered[int(len(ordered) * 0.95)],
        worst=ordered[-1],
        still_p95=stills[int(len(stills) * 0.95)],
        still_worst=stills[-1],
    )


async def _count(folder: Path) -> Counted:
    with closing(sqlite3.connect(folder / "console.sqlite")) as database, database:
        database.execute("delete from figures")
        database.execute("update figures_position set position = 0")
    async with assembled(load_settings(folder / "toolcaddie.toml"), create=False) as parts:
        return await counted(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    print(asyncio.run(_count(parser.parse_args().folder.resolve())))


if __name__ == "__main__":
    main()
