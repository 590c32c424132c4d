"""Simulates servers behind nginx, their model, PostgreSQL and the clients on shared cores.

Requests arrive at random. Each passes the client, nginx, a server with its event loop, the model and the server again in each
round, and back. Rows of the trail go to the writer of the server, a thread that takes turns with the event loop. It gathers the
rows and commits them in one transaction under the lock on the trail's head, in as many steps as there are round trips. The
seconds of CPU of a request are those of a request that was measured alone.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy

from benchmarks.replicas.calibration import Calibration
from benchmarks.replicas.cores import Cores, Program
from toolcaddie.evaluation.capacity.constants import Commit

_BURST = 0.02
"""Seconds of CPU that a program outside of the world uses without a pause."""
_TICK = 0.05
"""Seconds between two pieces of work of an idle program."""

Steps = Generator[simpy.Event, Any, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Parameters of a simulation."""

    kinds: Mapping[str, Calibration]
    rounds: Mapping[str, int]
    """Answers of the model by kind of request."""
    writing: Collection[str]
    """Kinds of requests that wait until the intent of their call is on disk."""
    commit: Commit
    disk_seconds: Sequence[float]
    """Times for which commits waited for the disk."""
    idle: Mapping[str, float]
    """Cores that each party uses without requests."""
    idle_commits: float = 0.0
    """Commits a second without requests, such as those of leases."""
    corrections: Mapping[str, float] = field(default_factory=dict)
    """Factors of all CPU by party."""
    servers: int = 2
    cores: int = 2
    wake_seconds: float = 0.0
    """Mean time from a message until its receiver, which had waited for it, works."""
    cold_wakes: float = 0.0
    """What this time has in addition, times the requests a second: a program that is woken seldom finds cold caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """Programs outside of the world, and the cores that they use together."""

    programs: int
    cores: float


QUIET = Others(programs=0, cores=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Outcome of a load, simulated or measured."""

    seconds: Sequence[float]
    """Times of requests, sorted."""
    cpu: Mapping[str, float]
    """Seconds of CPU of a request by party."""
    commits: float
    """Commits of a request."""
    disk_bytes: float
    """Growth of the tables by a request."""
    utilisation: float
    """Share of the cores that the world used."""

    def percentile(self, share: float) -> float:
        return self.seconds[int(share * (len(self.seconds) - 1))]


def simulate(
    world: World, *, mix: Mapping[str, float], rate: float, seconds: float, others: Others = QUIET, seed: int = 1
) -> Result:
    """Returns the result of `seconds` seconds with `rate` requests a second, while `others` run on the same cores."""
    simulation = _Simulation(world, seed)
    simulation.begin(mix, rate, seconds, others)
    simulation.environment.run(until=seconds)
    if not simulation.times:
        raise ValueError("no request was answered")
    count = len(simulation.times)
    used = {party: cpu for party, cpu in simulation.cores.used.items() if party != "others"}
    return Result(
        seconds=sorted(simulation.times),
        cpu={party: cpu / count for party, cpu in used.items()},
        commits=(simulation.commits + world.idle_commits * seconds) / count,
        disk_bytes=simulation.disk_bytes / count,
        utilisation=sum(used.values()) / seconds / world.cores,
    )


class _Simulation:
    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.environment = simpy.Environment()
        self.cores = Cores(self.environment, world.cores, world.corrections)
        self.random = random.Random(seed)
        self.times: list[float] = []
        self.commits = 0
        self.disk_bytes = 0.0
        self._programs = {party: Program(self.environment, party) for party in ("client", "nginx", "model")}
        self._head = simpy.Resource(self.environment)
        self._wake_seconds = 0.0
        self._servers = [_Server(self, number) for number in range(world.servers)]

    def begin(self, mix: Mapping[str, float], rate: float, seconds: float, others: Others) -> None:
        self._wake_seconds = self.world.wake_seconds + self.world.cold_wakes / rate
        for server in self._servers:
            self.environment.process(server.write())
        idle = self.world.idle
        for party, program in {**self._programs, "servers": self._servers[0].program}.items():
            self.environment.process(self._tick(program, idle.get(party, 0.0)))
        self.environment.process(self._tick(self._servers[0].backend, idle.get("database", 0.0)))
        for _ in range(others.programs):
            self.environment.process(self._disturb(others.cores / others.programs))
        self.environment.process(self._arrive(mix, rate, seconds))

    def _arrive(self, mix: Mapping[str, float], rate: float, seconds: float) -> Steps:
        while self.environment.now < seconds:
            yield self.environment.timeout(self.random.expovariate(rate))
            [kind] = self.random.choices(list(mix), list(mix.values()))
            self.environment.process(self._request(kind))

    def _request(self, kind: str) -> Steps:
        calibration, began = self.world.kinds[kind], self.environment.now
        needed = self._seconds(calibration)
        server = min(self._servers, key=lambda each: (each.under_way, self.random.random()))
        server.under_way += 1
        rounds = self.world.rounds[kind]
        rows = calibration.cost.rows / (rounds + 2)
        is_writing, is_calling = kind in self.world.writing, rounds > 1
        piece = needed["servers"] / (1 + rounds + is_writing + is_calling)
        yield from self._loop(self._programs["client"], needed["client"] / 2)
        yield from self._loop(self._programs["nginx"], needed["nginx"] / 2)
        yield from self._loop(server.program, piece)
        yield self.cores.run(server.backend, needed["database"])
        server.add(rows)
        for answer in range(rounds):
            yield from self._loop(self._programs["model"], needed["model"] / rounds)
            yield from self._loop(server.program, piece)
            server.add(rows)
            if answer == 0 and is_writing:  # the first answer calls the tool
                yield server.flush()
                yield from self._loop(server.program, piece)
        server.add(rows)
        if is_calling:  # calls that the client does not see are stored before the answer ends
            yield server.flush()
            yield from self._loop(server.program, piece)
        yield from self._loop(self._programs["nginx"], needed["nginx"] / 2)
        yield from self._loop(self._programs["client"], needed["client"] / 2)
        server.under_way -= 1
        self.times.append(self.environment.now - began)
        self.disk_bytes += calibration.cost.disk_bytes

    def _seconds(self, calibration: Calibration) -> Mapping[str, float]:
        """Returns the CPU of a request by party: that of one of the measured requests, scaled so that the mean is the measured
        one without commits and rows."""
        sample = self.random.choice(calibration.samples)
        return {
            party: mean * sample[party] / calibration.means[party] if calibration.means[party] else 0.0
            for party, mean in calibration.seconds.items()
        }

    def _wake(self) -> Steps:
        """Waits until a program notices that there is work for it."""
        if self._wake_seconds > 0:
            yield self.environment.timeout(self.random.expovariate(1 / self._wake_seconds))

    def _loop(self, program: Program, seconds: float) -> Steps:
        """Lets the event loop of a program work, after what it has to do already."""
        yield from self._wake()
        with program.loop.request() as turn:
            yield turn
            yield from self.cores.work(program, seconds)

    def _tick(self, program: Program, cores: float) -> Steps:
        while cores > 0:
            yield self.environment.timeout(_TICK)
            yield from self.cores.work(program, cores * _TICK)

    def _disturb(self, share: float) -> Steps:
        """Uses a share of a core, as a program of its own outside of the world."""
        program = Program(self.environment, "others")
        while True:
            began = self.environment.now
            yield self.cores.run(program, _BURST)
            # The share counts CPU that was had, so a burst that took longer has a shorter pause.
            pause = self.random.expovariate(1.0) * _BURST * (1 / min(share, 0.999) - 1)
            yield self.environment.timeout(max(0.0, pause - (self.environment.now - began - _BURST)))

    def commit(self, server: _Server, rows: float) -> Steps:
        """Commits rows: the transaction's beginning, and the part under the lock with the wait for the disk."""
        commit = self.world.commit
        self.commits += 1
        own = (commit.server_ms + commit.row_server_ms * rows) / 1e3
        of_database = (commit.database_ms + commit.row_database_ms * rows) / 1e3
        locked = min(
            1.0, (commit.lock_ms + commit.row_lock_ms * rows) / (commit.seconds_ms + commit.row_seconds_ms * rows)
        )
        trips = commit.round_trips - commit.lock_round_trips
        yield from self._converse(server, trips, own * (1 - locked), of_database * (1 - locked))
        with self._head.request() as lock:
            yield lock
            yield from self._converse(server, commit.lock_round_trips, own * locked, of_database * locked)
            yield self.environment.timeout(self.random.choice(self.world.disk_seconds))

    def _converse(self, server: _Server, trips: float, own: float, of_database: float) -> Steps:
        """Lets the writer and PostgreSQL work in turns. After each answer, the writer waits until it may work."""
        steps = max(1, round(trips))
        for _ in range(steps):
            yield from self.cores.work(server.program, own / steps)
            yield self.cores.run(server.backend, of_database / steps)


class _Server:
    """A server: its program, its writer, and PostgreSQL's process for it."""

    def __init__(self, simulation: _Simulation, number: int) -> None:
        self.program = Program(simulation.environment, "servers")
        self.backend = Program(simulation.environment, "database")
        self.under_way = 0
        self._simulation = simulation
        self._rows = 0.0
        self._waiting: list[simpy.Event] = []
        self._new, self._urgent = simulation.environment.event(), simulation.environment.event()

    def add(self, rows: float) -> None:
        """Queues rows that nobody waits for."""
        self._rows += rows
        if not self._new.triggered:
            self._new.succeed()

    def flush(self) -> simpy.Event:
        """Returns the event that happens once all queued rows are on disk."""
        done = self._simulation.environment.event()
        self._waiting.append(done)
        for event in (self._new, self._urgent):
            if not event.triggered:
                event.succeed()
        return done

    def write(self) -> Steps:
        """Commits what is queued, again and again."""
        environment, commit = self._simulation.environment, self._simulation.world.commit
        while True:
            yield self._new
            yield self._urgent | environment.timeout(commit.linger_ms / 1e3)
            rows, waiting, self._rows, self._waiting = self._rows, self._waiting, 0.0, []
            self._new, self._urgent = environment.event(), environment.event()
            yield from self._simulation.commit(self, rows)
            for done in waiting:
                done.succeed()
