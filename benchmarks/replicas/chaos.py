"""Two servers under load while everything is killed: python -m benchmarks.replicas.chaos [--minutes 30] [--rate 200]

Two servers of Toolcaddie on one PostgreSQL behind nginx, with the shipped settings. Clients send requests at a steady rate; one
answer of the model in a hundred is a fault. PostgreSQL is killed every 5 to 20 seconds. Every 10 to 30 seconds one of the
servers is killed, or stopped for longer than its lease and then continued. The exit code is 1 if a request was lost, a call ran
twice, a server that had lost its lease caused an effect, or a client got an error while a server and the database were alive.

An answer 422 `outcome_unknown` is no error if the call that it names was really cut off: it is counted, and compared with the
trail.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import NullPool, create_engine, text

from benchmarks.replicas.load import Asked, Attempt, Load
from benchmarks.replicas.model import Model
from benchmarks.replicas.world import Replica, World
from toolcaddie.testing import ScriptedUpstream

_DATABASE_PAUSES = (5.0, 20.0)
_SERVER_PAUSES = (10.0, 30.0)
_STOP_SECONDS = (4.0, 9.0)
"""Longer than a lease, which is 3 seconds."""
_UNKNOWN = "422 outcome_unknown"
_HONEST = ("200", _UNKNOWN)
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
        self.uses: list[tuple[int, int]] = []
        """Memory and open files of the second server, which is never killed in the last phase."""

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
            return _judged(asked, chaos, world, model)
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


def _judged(asked: Sequence[Asked], chaos: Chaos, world: World, model: Model) -> int:
    """Prints what came of the requests. Returns 1 if something is wrong."""
    effects = [line.split() for line in world.effects.read_text().splitlines()]
    entries = Counter(entry for entry, _ in effects)
    unknown = _unknown_calls(world)
    outcomes = Counter(each.outcome for each in asked)
    refusals = Counter(
        attempt.outcome
        for each in asked
        for attempt in each.attempts
        if attempt.outcome not in _HONEST and not chaos.outages.excuse(attempt)
    )
    written = {each.request for each in asked if each.kind == "write" and each.outcome == "200"}
    wrong = {
        "requests without an answer": [each.request for each in asked if each.outcome not in _HONEST],
        "answers to another request": [
            each.request for each in asked if each.outcome == "200" and each.answer != f"done {each.request}:"
        ],
        "effects that are missing though the answer says done": sorted(written - set(entries)),
        "effects twice": [entry for entry, times in entries.items() if times > 1],
        "effects of a server that had lost its lease": [
            entry for entry, at in effects if entry in unknown and float(at) > unknown[entry]
        ],
        "answers 422 although no call was cut off": [
            each.request for each in asked if each.outcome == _UNKNOWN and each.request not in unknown
        ],
        "errors while a server and the database lived": list(refusals.elements()),
    }
    seconds = sorted(each.seconds for each in asked)
    print(f"requests: {len(asked):,}, faults of the model: {model.failed:,}, blows: {dict(chaos.blows)}")
    print(f"outcomes: {dict(outcomes)}")
    print(
        f"latency with all attempts: p50 {_at(seconds, 0.5):.3f} s, p99 {_at(seconds, 0.99):.3f} s, most {seconds[-1]:.1f} s"
    )
    for name, items in wrong.items():
        print(f"{name}: {len(items)} {dict(Counter(items).most_common(8)) if items else ''}")
    verified = _chain(world)
    print(f"trail: {verified}")
    return int(any(wrong.values()))


def _unknown_calls(world: World) -> Mapping[str, float]:
    """Returns the moments at which calls were recorded as unknown, by the entry that they write."""
    with create_engine(world.postgres.url, poolclass=NullPool).connect() as connection:
        rows = connection.execute(
            text(
                "select intended.data, min(unknown.at) from events intended join events unknown using (run_id) "
                "where intended.kind = 'call_intended' and unknown.kind = 'call_unknown' group by intended.data"
            )
        ).all()
    return {json.loads(json.loads(data)["arguments"])["entry"]: at for data, at in rows}


def _chain(world: World) -> str:
    command = [sys.executable, "-m", "toolcaddie", "audit", "verify", "--json", "--database-url", world.postgres.url]
    done = subprocess.run(command, cwd=world.folder, capture_output=True, text=True, check=False)
    return f"exit code {done.returncode}, {json.dumps(json.loads(done.stdout))[:600] if done.stdout else done.stderr[-400:]}"


def _at(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


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
