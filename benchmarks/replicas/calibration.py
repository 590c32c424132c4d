"""Measures the costs of single requests by kind, in a world that does nothing else."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aiohttp

from benchmarks.replicas.account import PARTIES, Use, cpu_of, used_by
from benchmarks.replicas.kinds import KINDS, send
from benchmarks.replicas.served_model import ServedModel
from benchmarks.replicas.world import World
from toolcaddie.evaluation.capacity.constants import Commit, Cost

_WARM = 20
_AT_ONCE = 8
"""Requests of each kind at once, so that each server has all the connections to the database that it uses."""
_IDLE_SECONDS = 4.0
_TURNS = 5
"""Turns of each kind of request."""
_SETTLING_SECONDS = 0.3
"""Until rows that nobody waited for are on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The costs of a kind of request."""

    cost: Cost
    seconds: Mapping[str, float]
    """Seconds of CPU of a request by party, of servers and database without commits and rows."""
    samples: Sequence[Mapping[str, float]]
    """Seconds of CPU of single requests by party, with everything that ran meanwhile."""

    @property
    def means(self) -> Mapping[str, float]:
        """Returns the means of the samples by party."""
        return {party: statistics.fmean(sample[party] for sample in self.samples) for party in PARTIES}

    @property
    def variation(self) -> float:
        """Returns the variance of the servers' CPU for a request, divided by the square of its mean."""
        seconds = [sample["servers"] for sample in self.samples]
        return statistics.pvariance(seconds) / statistics.fmean(seconds) ** 2


async def warm(world: World, count: int = _WARM) -> None:
    """Sends some requests of each kind, so that indexes are made and connections are open."""
    async with aiohttp.ClientSession() as session:
        for kind in KINDS.values():
            for _ in range(count):
                await send(session, world.address, kind)
        await asyncio.gather(*(send(session, world.address, kind) for kind in KINDS.values() for _ in range(_AT_ONCE)))
    await asyncio.sleep(_SETTLING_SECONDS)


async def idle_use(world: World, model: ServedModel) -> tuple[Mapping[str, float], float]:
    """Returns the cores that each party uses while there are no requests, for leases and looks into the database, and the commits
    a second."""
    used, _ = await used_by(world, model, asyncio.sleep(_IDLE_SECONDS))
    return {party: seconds / used.seconds for party, seconds in used.cpu.items()}, used.commits / used.seconds


async def calibrations(
    world: World, model: ServedModel, kinds: Sequence[str], count: int, *, commit: Commit, idle: Mapping[str, float]
) -> Mapping[str, Calibration]:
    """Returns the costs of kinds of requests, from `count` requests of each one after another. The kinds take turns, so that a
    slow minute of the machine does not make one of them dearer than the others."""
    used: dict[str, Use] = {}
    samples: dict[str, list[Mapping[str, float]]] = {kind: [] for kind in kinds}
    turn = max(1, count // _TURNS)
    for _ in range(_TURNS):
        for kind in kinds:
            use, sampled = await used_by(world, model, _samples(world, model, kind, turn))
            samples[kind] += sampled
            used[kind] = used[kind] + use if kind in used else use
    return {
        kind: _calibration(used[kind], samples[kind], net_seconds(used[kind], turn * _TURNS, commit=commit, idle=idle))
        for kind in kinds
    }


async def _samples(world: World, model: ServedModel, kind: str, count: int) -> list[Mapping[str, float]]:
    samples = []
    async with aiohttp.ClientSession() as session:
        for _ in range(count):
            began = cpu_of(world, model)
            await send(session, world.address, KINDS[kind])
            ended = cpu_of(world, model)
            samples.append({party: ended[party] - began[party] for party in PARTIES})
    await asyncio.sleep(_SETTLING_SECONDS)
    return samples


def _calibration(used: Use, samples: Sequence[Mapping[str, float]], seconds: Mapping[str, float]) -> Calibration:
    count = len(samples)
    cost = Cost(
        server_ms=seconds["servers"] * 1e3,
        database_ms=seconds["database"] * 1e3,
        rows=used.rows / count,
        disk_bytes=used.disk / count,
        wal_bytes=used.wal / count,
    )
    return Calibration(cost=cost, seconds=seconds, samples=samples)


def net_seconds(used: Use, count: int, *, commit: Commit, idle: Mapping[str, float]) -> Mapping[str, float]:
    """Returns the seconds of CPU of a request by party, of servers and database without commits and rows."""
    recording = {
        "servers": used.commits * commit.server_ms + used.rows * commit.row_server_ms,
        "database": used.commits * commit.database_ms + used.rows * commit.row_database_ms,
    }
    return {
        party: max(0.0, used.cpu[party] - idle.get(party, 0.0) * used.seconds - recording.get(party, 0.0) / 1e3) / count
        for party in PARTIES
    }


async def client_seconds(world: World, kind: str, count: int) -> float:
    """Returns the seconds of CPU that this process takes for a request while it does not read the clocks of all
    programs, as it does for the samples."""
    async with aiohttp.ClientSession() as session:
        before = time.process_time()
        for _ in range(count):
            await send(session, world.address, KINDS[kind])
        return (time.process_time() - before) / count
