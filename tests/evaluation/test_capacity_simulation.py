"""The simulation of servers on shared cores, against values computed by hand and formulas of textbooks."""

from __future__ import annotations

import random
from itertools import pairwise
from statistics import fmean

import pytest

simpy = pytest.importorskip("simpy", reason="install the group of dependencies `simulation`")

from benchmarks.replicas.calibration import Calibration  # noqa: E402
from benchmarks.replicas.cores import Cores, Program  # noqa: E402
from benchmarks.replicas.simulation import QUIET, Others, Result, World, simulate  # noqa: E402
from toolcaddie.evaluation.capacity.constants import Commit, Cost  # noqa: E402

SECONDS = {"client": 0.001, "nginx": 0.001, "model": 0.002, "servers": 0.006, "database": 0.0}
KIND = Calibration(cost=Cost(rows=6, disk_bytes=4_000), seconds=SECONDS, samples=[SECONDS])
COMMIT = Commit(
    server_ms=1,
    row_server_ms=0,
    database_ms=0.5,
    row_database_ms=0,
    seconds_ms=2,
    row_seconds_ms=0,
    lock_ms=1,
    row_lock_ms=0,
    linger_ms=25,
    most_rows=1_000,
    round_trips=6,
    lock_round_trips=4,
    disk_writes=1,
)


def ended(cores: int, *work: tuple[str, float]) -> list[float]:
    """The moments at which pieces of work end that begin together. The same name is the same program."""
    environment = simpy.Environment()
    shared, programs, moments = Cores(environment, cores, {}), {}, []
    for name, seconds in work:
        program = programs.setdefault(name, Program(environment, name))
        thread = environment.process(shared.work(program, seconds))
        thread.callbacks.append(lambda _: moments.append(environment.now))
    environment.run()
    return moments


def simulated(rate: float, *, writes: bool = False, cores: int = 2, others: Others = QUIET) -> Result:
    world = World(
        kinds={"run": KIND, "write": KIND},
        rounds={"run": 1, "write": 1},
        writing=["write"],
        commit=COMMIT,
        disk_seconds=[0.0005],
        idle={},
        cores=cores,
    )
    return simulate(world, mix={"write" if writes else "run": 1.0}, rate=rate, seconds=100, others=others, seed=3)


def test_programs_share_the_cores_equally_and_use_one_at_most() -> None:
    assert ended(2, ("one", 1.0), ("other", 1.0)) == pytest.approx([1.0, 1.0])
    assert ended(1, ("one", 1.0), ("other", 1.0)) == pytest.approx([2.0, 2.0])
    assert ended(1, ("short", 0.5), ("long", 1.5)) == pytest.approx([1.0, 2.0])
    assert ended(2, ("a", 1.0), ("b", 1.0), ("c", 1.0)) == pytest.approx([1.5] * 3)


def test_of_the_threads_of_a_program_one_at_a_time_works() -> None:
    assert ended(2, ("one", 1.0), ("one", 1.0)) == pytest.approx([1.995, 2.0])
    # A short piece of work waits until the long one has had its 5 ms, and a second thread's 1 ms.
    assert ended(2, ("one", 0.02), ("one", 0.001), ("one", 0.001)) == pytest.approx([0.006, 0.007, 0.022])


def test_random_arrivals_at_one_event_loop_wait_as_long_as_a_textbook_says() -> None:
    environment, dice, times = simpy.Environment(), random.Random(1), []
    cores = Cores(environment, 2, {})
    program = Program(environment, "server")

    def one():  # type: ignore[no-untyped-def]
        began = environment.now
        with program.loop.request() as turn:
            yield turn
            yield cores.run(program, dice.expovariate(100))
        times.append(environment.now - began)

    def arrive():  # type: ignore[no-untyped-def]
        while True:
            yield environment.timeout(dice.expovariate(60))
            environment.process(one())

    environment.process(arrive())
    environment.run(until=1_000)
    assert fmean(times) == pytest.approx(1 / (100 - 60), rel=0.05)  # M/M/1


def test_a_request_alone_takes_its_cpu_and_no_more() -> None:
    assert simulated(0.5).percentile(0.5) == pytest.approx(sum(SECONDS.values()), rel=1e-6)


def test_a_request_that_writes_also_waits_for_its_commit() -> None:
    # 1 ms of the server, 0.5 ms of PostgreSQL, 0.5 ms of the disk
    assert simulated(0.5, writes=True).percentile(0.5) == pytest.approx(0.010 + 0.002, rel=1e-6)


def test_more_load_is_slower_and_shares_commits() -> None:
    results = [simulated(rate) for rate in (10, 60, 150)]
    for before, after in pairwise(results):
        assert after.percentile(0.99) > before.percentile(0.99)
        assert after.utilisation > before.utilisation
        assert after.commits < before.commits
        assert after.disk_bytes == pytest.approx(4_000)
        assert after.cpu["servers"] < before.cpu["servers"]


def test_other_programs_on_the_cores_make_requests_slower() -> None:
    quiet, busy = simulated(60), simulated(60, others=Others(programs=3, cores=1.5))
    assert busy.percentile(0.99) > 1.5 * quiet.percentile(0.99)
    assert busy.cpu["servers"] == pytest.approx(quiet.cpu["servers"], rel=0.05)
