"""What conversations cost under each way of sending tools: 200 scripts, four catalogs, seven price rules.

python -m benchmarks.costs [--quick] [--tuning]

The scripts come from `FINAL_SEED`, which nothing was tuned on; `--tuning` takes those that things are tuned on. docs/costs.md
says how the simulation works and what the columns mean.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from toolcaddie.doors.cli.eval.costs import SAMPLE_SIZE, SIZES, print_reports, sample
from toolcaddie.doors.cli.eval.parts import progress
from toolcaddie.evaluation.simulation.costs import DEFAULT_RULES, STRATEGIES, CostReport
from toolcaddie.evaluation.simulation.scripts import FINAL_SEED, TUNING_SEED
from toolcaddie.evaluation.simulation.simulator import Simulation, simulate

SCRIPTS = 200
QUICK_SCRIPTS = 20
QUICK_SIZES = (40, SAMPLE_SIZE, 500)


def run(scripts: int, sizes: Sequence[int], seed: int) -> list[CostReport]:
    catalogs = tuple(sample() if size == SAMPLE_SIZE else size for size in sizes)
    what = Simulation(catalogs=catalogs, models=DEFAULT_RULES, strategies=tuple(STRATEGIES), scripts=scripts, seed=seed)
    with progress("having conversations") as told:
        return simulate(what, on_progress=told)


def main(arguments: Sequence[str] = ()) -> list[CostReport]:
    quick = "--quick" in arguments
    seed = TUNING_SEED if "--tuning" in arguments else FINAL_SEED
    scripts, sizes = (QUICK_SCRIPTS, QUICK_SIZES) if quick else (SCRIPTS, SIZES)
    started = time.perf_counter()
    reports = run(scripts, sizes, seed)
    print_reports(reports, scripts)
    print(f"{time.perf_counter() - started:.0f} s")
    return reports


if __name__ == "__main__":
    main(sys.argv[1:])
