"""Predicts loads by a simulation and compares them with real ones: python -m benchmarks.replicas.predicted [--seconds 300]

Two servers on one PostgreSQL behind nginx answer three loads of the mix of `model.py`, and one of writing requests alone. The
simulation knows the costs of single requests, of commits, and of two low loads; it has not seen the loads that it predicts. p50,
p99, CPU by program and bytes on disk are printed, measured and predicted. The exit code is 1 if one of them is off by more than
20 %.

Programs outside of this comparison disturb it. What they use meanwhile is measured and simulated too, but only as a share of the
cores, so run it on a machine without other work. `--seconds` is the length of each load: a p99 needs thousands of requests.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import aiohttp
import numpy as np
import psutil

from benchmarks.replicas import simulation
from benchmarks.replicas.account import PARTIES, Use, cpu_of, used_by
from benchmarks.replicas.calibration import calibrations, client_seconds, idle_use, warm
from benchmarks.replicas.committing import measured_commit
from benchmarks.replicas.kinds import KINDS, send
from benchmarks.replicas.model import KINDS as MIX
from benchmarks.replicas.served_model import ServedModel, served_model
from benchmarks.replicas.simulation import Others, Result
from benchmarks.replicas.world import World

MOST_OFF = 0.2
"""Goal: the largest accepted distance of a prediction from the measured value, as a share of it."""

_NAMES = {"chat": "run", "read": "read", "write": "write"}
"""Kinds of the mix, as `kinds.py` names them."""
_ROUNDS = {"run": 1, "read": 2, "write": 2}
_WRITING = ("write",)
_COMMIT_PAUSE = 0.02
"""Seconds between two commits with which the simulation is calibrated, about as many as under the loads."""
_LOW_RATES = (10.0, 30.0)
"""Requests a second of the loads with which the simulation is calibrated."""
_SOME_WAKE = 1e-4
"""Seconds with which it is tried out how much longer requests take if programs notice work later."""
_SIMULATED = 4
"""Length of a simulation, as a multiple of the load's: its own chance must not count."""
_SETTLING_SECONDS = 0.5
_LEAST_SHOWN = 0.02
"""Parties below this share of a request's CPU are shown, and not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A load to predict. `mix`: shares of kinds."""

    name: str
    rate: float
    mix: Mapping[str, float]


_MIX = {_NAMES[kind]: share for kind, share in MIX.items()}
LOADS = (
    *(Load(name=f"mix, {rate} a second", rate=rate, mix=_MIX) for rate in (20, 40, 60)),
    Load(name="writes, 40 a second", rate=40, mix={"write": 1.0}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure, measured and predicted. `is_judged`: False if it is too small to matter."""

    load: str
    name: str
    measured: float
    predicted: float
    is_judged: bool = True

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured if self.measured else 1.0

    @property
    def is_off(self) -> bool:
        return self.is_judged and abs(self.ratio - 1) > MOST_OFF


async def run(seconds: float, requests: int) -> int:
    with tempfile.TemporaryDirectory(prefix="toolcaddie-predicted-") as folder, served_model() as model:
        world = World(Path(folder), model.base_url, count=2)
        try:
            world.start()
            await warm(world)
            simulated = await _calibrated(world, model, requests, seconds)
            figures = []
            for load in LOADS:
                use, measured = await _measured(world, model, load, seconds)
                others = _others(use)
                predicted = _simulated(simulated, load, seconds, others)
                _progress(f"{load.name}: {others.programs} other programs used {others.cores:.2f} cores")
                figures += list(_compared(load, measured, predicted))
        finally:
            world.end()
    _show(figures)
    return int(any(figure.is_off for figure in figures))


async def _calibrated(world: World, model: ServedModel, requests: int, seconds: float) -> simulation.World:
    """Returns what the simulation knows: single requests, commits, and how two low loads differ from them."""
    _progress("calibrating")
    commit, waits = await measured_commit(world.postgres, lambda: cpu_of(world, model)["database"], pause=_COMMIT_PAUSE)
    idle, idle_commits = await idle_use(world, model)
    kinds = await calibrations(world, model, list(_ROUNDS), requests, commit=commit, idle=idle)
    client = statistics.fmean([await client_seconds(world, kind, requests) for kind in kinds])
    alone = {kind: replace(each, seconds={**each.seconds, "client": client}) for kind, each in kinds.items()}
    simulated = simulation.World(
        kinds=alone,
        rounds=_ROUNDS,
        writing=_WRITING,
        commit=commit,
        disk_seconds=waits,
        idle={**idle, "client": 0.0},
        idle_commits=idle_commits,
        cores=psutil.cpu_count() or 1,
    )
    low_loads, pairs = [], []
    for rate in _LOW_RATES:
        low = Load(name=f"low load, {rate:.0f} a second", rate=rate, mix=_MIX)
        use, measured = await _measured(world, model, low, seconds)
        low_loads.append((low, use, measured))
        pairs.append((measured, _simulated(simulated, low, seconds, _others(use))))
    return _awake(_corrected(simulated, pairs), low_loads, seconds)


def _awake(
    simulated: simulation.World, low_loads: Sequence[tuple[Load, Use, Result]], seconds: float
) -> simulation.World:
    """Returns the simulation in which programs take so long to notice that there is work that the p50 of the low loads are the
    measured ones. A part of that time becomes shorter with the rate."""
    wakes = []
    for load, use, measured in low_loads:
        without, some = (
            _simulated(replace(simulated, wake_seconds=wake), load, seconds, _others(use)).percentile(0.5)
            for wake in (0.0, _SOME_WAKE)
        )
        wakes.append(_SOME_WAKE * (measured.percentile(0.5) - without) / (some - without))
    wake, cold = np.linalg.solve(np.array([[1.0, 1 / load.rate] for load, *_ in low_loads]), np.array(wakes))
    if wake < 0 or cold < 0:  # chance: the rates do not differ in it
        wake, cold = max(0.0, statistics.fmean(wakes)), 0.0
    _progress(f"until a program notices that there is work: {wake * 1e6:.0f} us + {cold * 1e6:.0f} us / rate")
    return replace(simulated, wake_seconds=float(wake), cold_wakes=float(cold))


def _corrected(simulated: simulation.World, pairs: Sequence[tuple[Result, Result]]) -> simulation.World:
    """Returns what the simulation needs so that it predicts the CPU of the low loads, from their measured and simulated results.

    Two numbers are found for each party: a factor of all CPU, and cores that a load of any rate takes beyond those of an idle
    program: whoever is woken seldom finds cold caches, which many requests share.
    """
    factors, idle = {}, {}
    for party in PARTIES:
        costs = np.array([measured.cpu[party] for measured, _ in pairs])
        matrix = np.array([[each.cpu[party], 1 / rate] for (_, each), rate in zip(pairs, _LOW_RATES, strict=True)])
        factor, cores = np.linalg.solve(matrix, costs)
        if cores < 0 or factor <= 0:  # chance: the rates do not differ in it
            factor, cores = float(np.mean(costs / matrix[:, 0])), 0.0
        factors[party] = float(factor)
        idle[party] = simulated.idle[party] + float(cores / factor)
    _progress(f"factors of CPU: { {party: round(factor, 2) for party, factor in factors.items()} }")
    _progress(f"cores of any load: { {party: round(cores, 4) for party, cores in idle.items()} }")
    return replace(simulated, corrections=factors, idle=idle)


async def _measured(world: World, model: ServedModel, load: Load, seconds: float) -> tuple[Use, Result]:
    """Sends a load, with Poisson arrivals, and returns what it used and came to."""
    _progress(f"{load.name} ...")
    used, times = await used_by(world, model, _sent(world, load, seconds))
    count = len(times)
    return used, Result(
        seconds=sorted(times),
        cpu={party: cpu / count for party, cpu in used.cpu.items()},
        commits=used.commits / count,
        disk_bytes=used.disk / count,
        utilisation=sum(used.cpu.values()) / used.seconds / (psutil.cpu_count() or 1),
    )


async def _sent(world: World, load: Load, seconds: float) -> list[float]:
    dice, times = random.Random(load.name), []

    async def one(kind: str) -> None:
        began = time.perf_counter()
        await send(session, world.address, KINDS[kind])
        times.append(time.perf_counter() - began)

    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        asyncio.TaskGroup() as group,
    ):
        due = time.perf_counter()
        until = due + seconds
        while (due := due + dice.expovariate(load.rate)) < until:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            [kind] = dice.choices(list(load.mix), list(load.mix.values()))
            group.create_task(one(kind))
    await asyncio.sleep(_SETTLING_SECONDS)
    return times


def _others(use: Use) -> Others:
    """Returns the programs outside of the world that ran meanwhile: as few as can use so many cores, because Linux lets programs
    that mostly sleep, as ours do, run before those that always work."""
    return Others(programs=math.ceil(use.other_cores), cores=use.other_cores)


def _simulated(world: simulation.World, load: Load, seconds: float, others: Others) -> Result:
    return simulation.simulate(world, mix=load.mix, rate=load.rate, seconds=seconds * _SIMULATED, others=others)


def _compared(load: Load, measured: Result, predicted: Result) -> Iterator[Figure]:
    figure = partial(Figure, load=load.name)
    for name, share in (("p50, ms", 0.5), ("p99, ms", 0.99)):
        at = [result.percentile(share) * 1e3 for result in (measured, predicted)]
        yield figure(name=name, measured=at[0], predicted=at[1])
    whole = sum(measured.cpu.values())
    for party in PARTIES:
        own, ours = measured.cpu[party], predicted.cpu.get(party, 0.0)
        is_judged = own >= _LEAST_SHOWN * whole
        yield figure(name=f"CPU of {party}, ms", measured=own * 1e3, predicted=ours * 1e3, is_judged=is_judged)
    cores = [100 * result.utilisation for result in (measured, predicted)]
    yield figure(name="cores used, %", measured=cores[0], predicted=cores[1])
    yield figure(name="commits", measured=measured.commits, predicted=predicted.commits)
    yield figure(name="bytes on disk", measured=measured.disk_bytes, predicted=predicted.disk_bytes)


def _show(figures: list[Figure]) -> None:
    print(f"{'load':<22}{'figure':<22}{'measured':>12}{'predicted':>12}{'ratio':>8}")
    for figure in figures:
        mark = " off" if figure.is_off else ("" if figure.is_judged else " (small)")
        print(
            f"{figure.load:<22}{figure.name:<22}{figure.measured:>12,.2f}{figure.predicted:>12,.2f}{figure.ratio:>8.2f}{mark}"
        )
    off = [figure for figure in figures if figure.is_off]
    middle = statistics.median(abs(figure.ratio - 1) for figure in figures if figure.is_judged)
    print(
        f"{len(off)} of {len(figures)} figures are off by more than {MOST_OFF:.0%}; the median is off by {middle:.0%}"
    )


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0, help="seconds of each load, and of the low ones")
    parser.add_argument("--requests", type=int, default=300, help="single requests of each kind, for calibration")
    arguments = parser.parse_args()
    sys.exit(asyncio.run(run(arguments.seconds, arguments.requests)))


if __name__ == "__main__":
    main()
