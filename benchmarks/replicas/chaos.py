"""Two servers under load while everything is killed: python -m benchmarks.replicas.chaos [--minutes 30] [--rate 200]

Two servers of Toolcaddie on one PostgreSQL behind nginx, with the shipped settings. Clients send requests at a steady rate; one
answer of the model in a hundred is a fault. PostgreSQL is killed every 5 to 20 seconds. Every 10 to 30 seconds one of the
servers is killed, or stopped for longer than its lease and then continued. The exit code is 1 if a request was lost, a call ran
twice, a server that had lost its lease caused an effect, or a client got an error while a server and the database were alive.

That the outcome of a call is unknown is no error if the call was really cut off, whether the answer 422 `outcome_unknown` says so
or the model, which was told: such answers are counted, and compared with the trail.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.replicas.load import Attempt, Load
from benchmarks.replicas.model import Model
from benchmarks.replicas.verdict import Verdict
from benchmarks.replicas.world import Replica, World
from toolcaddie.testing import ScriptedUpstream

_DATABASE_PAUSES = (5.0, 20.0)
_SERVER_PAUSES = (10.0, 30.0)
_STOP_SECONDS = (4.0, 9.0)
"""Longer than a lease, which is 3 seconds."""
_NOTICE_SECONDS = 2.0
"""Seconds after the database came back in which servers still report its loss."""


@dataclass(slots=True, kw_only=True)
class Outages:
    """The times in which the database, or all servers, were not there."""

    times: list[tuple[float, float]] = field(default_factory=list)

    def excuse(self, attempt: Attempt) -> bool:
        return any(began <= attempt.ended and attempt.began <= ended for began, ended in self.times)


class Chaos:
    def __init__(self, world: World, minutes: float, seed: int) -> None:
        self.world = world
        self.until = time.monotonic() + minutes * 60
        self.random = random.Random(seed)
        self.blows: Counter[str] = Counter()
        self.outages = Outages()

    async def run(self) -> None:
        """Kills until the time is over; afterwards everything is alive."""
        await asyncio.gather(self._strike_database(), self._strike_servers())

    async def _strike_database(self) -> None:
        while await self._wait(_DATABASE_PAUSES):
            began = time.monotonic()
            await asyncio.to_thread(self.world.postgres.kill)
            await asyncio.to_thread(self.world.postgres.start)
            self.outages.times.append((began, time.monotonic() + _NOTICE_SECONDS))
            self.blows["database killed"] += 1

    async def _strike_servers(self) -> None:
        while await self._wait(_SERVER_PAUSES):
            replica = self.random.choice(self.world.replicas)
            if self.random.random() < 0.5:
                await asyncio.to_thread(replica.kill)
                await asyncio.to_thread(_started, replica)
                self.blows["server killed"] += 1
            else:
                replica.send(signal.SIGSTOP)
                await asyncio.sleep(self.random.uniform(*_STOP_SECONDS))
                replica.send(signal.SIGCONT)
                self.blows["server stopped and continued"] += 1

    async def _wait(self, between: tuple[float, float]) -> bool:
        """Waits a random time. Returns False if the test is over."""
        await asyncio.sleep(self.random.uniform(*between))
        return time.monotonic() < self.until


def _started(replica: Replica) -> None:
    """Starts a server, again and again: the database may be killed meanwhile."""
    while True:
        try:
            replica.start()
            return
        except RuntimeError:
            replica.kill()


async def run(minutes: float, rate: float, faults: float, seed: int) -> int:
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # the upstream's clients are killed all the time
    model = Model(faults)
    with (
        tempfile.TemporaryDirectory(prefix="toolcaddie-chaos-") as folder,
        ScriptedUpstream(model, api_key="test-key") as upstream,
    ):
        world = World(Path(folder), upstream.base_url)
        try:
            world.start()
            chaos, load = Chaos(world, minutes, seed), Load(world.address, rate)
            loading = asyncio.create_task(load.run())
            reporting = asyncio.create_task(_report(load, chaos, world, upstream))
            await chaos.run()
            load.stop()
            asked = await loading
            reporting.cancel()
            await asyncio.sleep(8)  # until runs that were cut off are settled
            print(f"faults of the model: {model.failed:,}; blows: {dict(chaos.blows)}")
            verdict = Verdict(asked, world, excuse=chaos.outages.excuse)
            verdict.show()
            return int(not verdict.is_good)
        finally:
            world.end()


async def _report(load: Load, chaos: Chaos, world: World, upstream: ScriptedUpstream) -> None:
    """Shows the progress every ten seconds, and forgets what the upstream has seen."""
    while True:
        await asyncio.sleep(10)
        upstream.requests.clear()
        uses = [replica.uses() for replica in world.replicas if replica.process is not None]
        print(
            f"{len(load.asked):,} requests, {load.under_way} under way, {dict(chaos.blows)}, "
            + ", ".join(f"{memory / 1e6:.0f} MB {files} files" for memory, files in uses),
            file=sys.stderr,
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second")
    parser.add_argument("--faults", type=float, default=0.01, help="share of the model's answers that fail")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    sys.exit(asyncio.run(run(arguments.minutes, arguments.rate, arguments.faults, arguments.seed)))


if __name__ == "__main__":
    main()
