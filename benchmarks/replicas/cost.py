"""The cost of several servers on PostgreSQL: python -m benchmarks.replicas.cost [--repetitions 7] [--rate 60] [--seconds 8]

Worlds take turns: one server on SQLite, one on PostgreSQL, two on PostgreSQL, and two that share nothing, each behind nginx and
before the same scripted model. First single requests, one after another: how much PostgreSQL adds to the median. Then a steady
load: the CPU of the servers and of PostgreSQL for a request. Two servers that share nothing take more than one as well, because
more processes use the caches of the machine; what two on one PostgreSQL take beyond that is the price of sharing. Throughput
cannot be told on a machine that also carries the clients, the model and the database.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from benchmarks.replicas.account import tree_seconds
from benchmarks.replicas.load import Load
from benchmarks.replicas.model import KINDS, Model, request_text
from benchmarks.replicas.world import World
from toolcaddie.testing import ScriptedUpstream

_WARM = 100
_SINGLE = 200
"""Requests one after another in each repetition, of each kind."""
_APART = "two servers, SQLite each"


async def run(repetitions: int, rate: float, seconds: float) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="toolcaddie-cost-") as folder,
        ScriptedUpstream(Model(0.0), api_key="test-key") as upstream,
    ):
        sqlite = f"sqlite:///{folder}/one.sqlite"
        worlds = {
            "one server, SQLite": World(Path(folder) / "a", upstream.base_url, count=1, TOOLCADDIE_DATABASE_URL=sqlite),
            "one server, PostgreSQL": World(Path(folder) / "b", upstream.base_url, count=1),
            "two servers, PostgreSQL": World(Path(folder) / "c", upstream.base_url, count=2),
            # The path is relative, so each has a file in a folder of its own.
            _APART: World(
                Path(folder) / "d", upstream.base_url, count=2, TOOLCADDIE_DATABASE_URL="sqlite:///own.sqlite"
            ),
        }
        try:
            for world in worlds.values():
                world.start()
                await _one_by_one(world, "chat", _WARM)
            await _latencies(worlds, repetitions)
            await _costs(worlds, repetitions, rate, seconds)
        finally:
            for world in worlds.values():
                world.end()


async def _latencies(worlds: dict[str, World], repetitions: int) -> None:
    compared = {name: world for name, world in worlds.items() if name != _APART}
    for kind in KINDS:
        medians: dict[str, list[float]] = {name: [] for name in compared}
        for _ in range(repetitions):
            for name, world in compared.items():
                medians[name].append(statistics.median(await _one_by_one(world, kind, _SINGLE)))
        base = next(iter(medians.values()))
        for name, values in medians.items():
            added = statistics.median(value - before for value, before in zip(values, base, strict=True))
            print(
                f"{kind:5} {name:24} p50 {statistics.median(values) * 1e3:6.2f} ms, added {added * 1e3:5.2f} ms",
                flush=True,
            )


async def _costs(worlds: dict[str, World], repetitions: int, rate: float, seconds: float) -> None:
    costs: dict[str, list[float]] = {name: [] for name in worlds}
    of_database: dict[str, list[float]] = {name: [] for name in worlds}
    for _ in range(repetitions):
        for name, world in worlds.items():
            before, database = world.cpu(), tree_seconds(world.postgres.pid)
            load = Load(world.address, rate)
            loading = asyncio.create_task(load.run())
            await asyncio.sleep(seconds)
            load.stop()
            asked = await loading
            costs[name].append((world.cpu() - before) / len(asked))
            of_database[name].append((tree_seconds(world.postgres.pid) - database) / len(asked))
    sqlite, one, *_ = costs.values()
    for name, values in costs.items():
        base = sqlite if name == _APART else one
        ratio = statistics.median(value / before for value, before in zip(values, base, strict=True))
        print(
            f"load  {name:24} CPU {statistics.median(values) * 1e3:6.2f} ms a request, {ratio:.3f} of one server on "
            f"{'SQLite' if name == _APART else 'PostgreSQL'}; PostgreSQL {statistics.median(of_database[name]) * 1e3:5.2f} ms"
        )


async def _one_by_one(world: World, kind: str, count: int) -> Sequence[float]:
    """Returns the seconds of requests that are sent one after another, without idempotency keys."""
    seconds = []
    async with aiohttp.ClientSession() as session:
        for number in range(count):
            body = {"model": "gpt-test", "messages": [{"role": "user", "content": request_text(f"r{number}", kind)}]}
            began = time.perf_counter()
            async with session.post(f"{world.address}/v1/chat/completions", json=body) as response:
                answer = await response.read()
            seconds.append(time.perf_counter() - began)
            if response.status != 200:
                raise RuntimeError(f"{response.status}: {answer[:500]!r}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--rate", type=float, default=60.0, help="requests a second of the load")
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds of each load")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.repetitions, arguments.rate, arguments.seconds))


if __name__ == "__main__":
    main()
