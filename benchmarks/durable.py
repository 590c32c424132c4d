"""The cost of waiting until the rows of an answer are on disk: python -m benchmarks.durable

The trail records the events of runs. Equal runs, which call no tool, take turns with two settings of the trail in one SQLite
file. With `[storage] durable = "intent"`, the trail waits for the disk before the call of a tool acts; with "answer", it also
waits at the end of each answer. The model answers at once, so the time of a run is that of Toolcaddie and the disk. The figures
are milliseconds.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from typing import Literal

from toolcaddie.audit.trail import Trail
from toolcaddie.runtime import Runtime
from toolcaddie.samples import gym
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, say

_RUNS = 600
_WAYS: tuple[Literal["intent", "answer"], ...] = ("intent", "answer")
_MESSAGES = ("freeze John's membership", "show John's invoices", "book a class for Maria", "which plans are there")


async def _compare() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Database(f"sqlite:///{folder}/bench.sqlite") as database:
            model, tools = ScriptedProvider(lambda request: say("Done.")), gym.source()
            runtimes = {
                way: Runtime(provider=model, sources=[tools], trail=Trail(database.events, durable=way))
                for way in _WAYS
            }
            times: dict[str, list[float]] = {way: [] for way in _WAYS}

            async def run(way: Literal["intent", "answer"], number: int) -> None:
                started = time.perf_counter()
                await runtimes[way].run(_MESSAGES[number % len(_MESSAGES)])
                times[way].append((time.perf_counter() - started) * 1e3)

            for number in range(_RUNS):
                for way in _WAYS if number % 2 else reversed(_WAYS):
                    await run(way, number)
            for way in _WAYS:
                cut = statistics.quantiles(times[way][len(times[way]) // 10 :], n=100)
                print(f"{way:<8}{cut[49]:>8.2f} p50 {cut[98]:>8.2f} p99")


if __name__ == "__main__":
    asyncio.run(_compare())
