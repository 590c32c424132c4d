"""The model of capacity against values computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, pvariance

import pytest

from toolcaddie.core.errors import ConfigError
from toolcaddie.evaluation.capacity.constants import Commit, Constants, Cost, Memory, Size, shipped_constants
from toolcaddie.evaluation.capacity.load import Load, Site
from toolcaddie.evaluation.capacity.plan import Plan, plan
from toolcaddie.evaluation.capacity.queues import Waiting, erlang_c, percentile, spread, waiting
from toolcaddie.evaluation.capacity.recording import most_rows_a_second, recording

COSTS = {
    "passed": Cost(server_ms=1, rows=2, disk_bytes=1_000, wal_bytes=2_000),
    "run": Cost(server_ms=4, database_ms=1, rows=6, disk_bytes=4_000, wal_bytes=5_000),
    "round": Cost(server_ms=1, rows=2),
    "reading_call": Cost(server_ms=2, rows=2),
    "writing_call": Cost(server_ms=3, rows=3, flushes=1),
    "stream": Cost(server_ms=1),
    "key": Cost(server_ms=1, flushes=2),
}
MORE = {name: cost.plus(cost) for name, cost in COSTS.items()}
CONSTANTS = Constants(
    command="by hand",
    machine="paper",
    connections=7,
    variation=0.5,
    commit=Commit(
        server_ms=0.5,
        row_server_ms=0.05,
        database_ms=0.25,
        row_database_ms=0.025,
        seconds_ms=2,
        row_seconds_ms=0.1,
        lock_ms=1,
        row_lock_ms=0.1,
        linger_ms=25,
        most_rows=1_000,
        round_trips=6,
        lock_round_trips=4,
        disk_writes=1,
    ),
    memory=Memory(process_mb=100, thousand_tools_mb=50, tenant_mb=0.1),
    sizes=(Size(tools=0, costs=COSTS), Size(tools=100, costs=MORE)),
)
SITE = Site(network_ms=0)


def planned(rate: float, *, site: Site = SITE, **values: object) -> Plan:
    return plan(Load(requests_per_minute=rate, **{"tools": 0, **values}), CONSTANTS, site)  # type: ignore[arg-type]


def test_a_request_costs_the_sum_of_its_components() -> None:
    load = Load(requests_per_minute=60, calls=2, rounds=3, writing=0.5, streaming=0.5, keyed=1, passed=0.25, tools=0)
    cost = load.request(CONSTANTS)
    assert load.run(CONSTANTS).server_ms == 4 + 2 * 1 + 2 + 3 + 0.5 + 1
    assert cost.server_ms == 0.25 * 1 + 0.75 * 12.5
    assert cost.rows == 0.25 * 2 + 0.75 * (6 + 2 * 2 + 2 + 3)
    assert cost.flushes == 0.75 * (1 + 2 + 1)  # the intent of one call, a key, and calls that the client does not see


def test_costs_lie_on_the_line_between_two_sizes_of_the_catalog() -> None:
    assert [CONSTANTS.costs(tools)["run"].server_ms for tools in (0, 25, 100, 5_000)] == [4, 5, 8, 8]


def test_a_small_load_is_what_a_hand_computes() -> None:
    # One request a second of 4 ms, 6 rows; a commit gathers for 25 ms, so that each row has one of its own, nearly.
    result = planned(60, calls=0, rounds=1, keep_days=10, average=0.5)
    assert (result.processes, result.machines, result.databases, result.database_cores) == (1, 1, 1, 1)
    assert result.connections == 7
    assert result.process_mb == pytest.approx(100.1)
    assert result.rows_per_second == 6
    assert result.disk_mb_per_second == pytest.approx(0.009)
    assert result.disk_bytes == pytest.approx(0.5 * 86_400 * 10 * 4_000)
    # 1 / (1/6 + 0.025 + 0.002) commits a second without the time of their rows
    assert result.commits_per_second == pytest.approx(5.16, abs=0.05)
    assert result.server_ms == pytest.approx(4 + 6 * 0.05 + result.commits_per_second * 0.5)
    assert (
        result.server_ms < result.p50_ms + 1 < result.server_ms + 2
    )  # and 1 ms of PostgreSQL; the median is below the mean


def test_more_load_never_needs_less() -> None:
    plans = [planned(rate) for rate in (60, 1_000, 10_000, 100_000, 1_000_000)]
    for before, after in pairwise(plans):
        assert after.processes > before.processes or after.processes == 1
        assert after.databases >= before.databases
        assert after.disk_bytes * after.databases > before.disk_bytes * before.databases
        assert after.server_ms <= before.server_ms + 1e-9  # commits are shared by more rows


@pytest.mark.parametrize("name", ["calls", "writing", "streaming", "keyed", "tools"])
def test_a_heavier_request_needs_more(name: str) -> None:
    light, heavy = (planned(50_000, **{name: value}) for value in ((0, 50) if name == "tools" else (0.1, 0.9)))
    assert heavy.processes > light.processes
    assert heavy.p99_ms > light.p99_ms


def test_beyond_the_lock_of_the_trail_the_tenants_are_split_over_databases() -> None:
    # A full commit of 1,000 rows holds the lock for 101 ms, so a chain takes 9,901 rows a second, and 60 % of them are planned.
    assert most_rows_a_second(CONSTANTS.commit, 0) == pytest.approx(1_000 / 0.101)
    ceiling = 60 * 0.6 * (1_000 / 0.101) / 6
    site = replace(SITE, database_cores=1_000, iops=1e9, disk_mb=1e9, max_connections=10**9)
    below, above = (planned(ceiling * share, site=site, calls=0, rounds=1) for share in (0.99, 1.01))
    assert (below.databases, above.databases) == (1, 2)
    [lock] = [each for each in below.ceilings if "lock" in each.resource]
    assert lock.requests_per_minute == pytest.approx(ceiling)
    assert "tenants" in lock.remedy


def test_a_slow_network_lowers_the_ceiling_of_the_lock() -> None:
    assert most_rows_a_second(CONSTANTS.commit, 1) == pytest.approx(1_000 / 0.105)


def test_the_ceilings_are_sorted_and_no_database_is_beyond_one() -> None:
    result = planned(600_000)
    rates = [each.requests_per_minute for each in result.ceilings]
    assert rates == sorted(rates)
    assert result.databases > 1
    for each in result.ceilings:
        assert "server" in each.resource or each.requests_per_minute >= 600_000 / result.databases


def test_more_writers_hold_the_lock_longer_and_share_fewer_rows() -> None:
    one, many = (
        recording(rows=300 / writers, flushes=0, writers=writers, commit=CONSTANTS.commit, network_ms=0)
        for writers in (1, 10)
    )
    assert many.lock_utilisation > one.lock_utilisation
    assert many.rows < one.rows
    assert many.commit_seconds > one.commit_seconds - 0.1 * one.rows / 1e3  # it waits for the others


def test_queues_agree_with_the_formulas_of_textbooks() -> None:
    assert erlang_c(1, 0.5) == 0.5
    assert erlang_c(2, 0.5) == pytest.approx(1 / 3)
    exponential = waiting(1, 50, 0.01, 1.0)
    assert exponential.mean == pytest.approx(0.01)  # M/M/1 at half its capacity waits as long as it serves
    assert waiting(1, 50, 0.01, 0.0).mean == pytest.approx(0.005)  # M/D/1 waits half of that
    with pytest.raises(ValueError, match="2 servers are used to 125%"):
        waiting(2, 250, 0.01, 1.0)


def test_a_spread_has_its_mean_and_its_variation() -> None:
    times = spread(2.0, 0.5, places=2_000)
    assert fmean(times) == pytest.approx(2.0)
    assert pvariance(times) / 4 == pytest.approx(0.5, rel=0.05)


def test_percentiles_are_those_of_the_mixture() -> None:
    assert percentile(0.5, [(0.6, 1.0), (0.4, 3.0)], Waiting(chance=0, seconds=1)) == pytest.approx(1.0)
    assert percentile(0.9, [(0.6, 1.0), (0.4, 3.0)], Waiting(chance=0, seconds=1)) == pytest.approx(3.0)
    assert percentile(0.99, [(1.0, 0.0)], Waiting(chance=0.5, seconds=2)) == pytest.approx(2 * math.log(50))


def test_a_plan_that_no_number_of_databases_meets_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"more than 1,000 databases.*faster disks"):
        planned(1_000_000, site=replace(SITE, disk_mb=0.0001))


def test_the_shipped_constants_name_their_command() -> None:
    constants = shipped_constants()
    assert constants.command.startswith("python -m benchmarks.replicas.constants")
    assert [size.tools for size in constants.sizes] == [2, 300, 1_000]
