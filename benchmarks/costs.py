"""The cost of conversations under each strategy of sending tools: 200 scripts, four catalogs, seven price rules.

python -m benchmarks.costs [--quick] [--tuning]

The scripts are drawn with `FINAL_SEED`, which was not used when the strategies were tuned. With `--tuning`, they are drawn with
`TUNING_SEED`, which was. docs/costs.md explains the simulation and the columns.
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
    simulation = Simulation(
        catalogs=catalogs, models=DEFAULT_RULES, strategies=tuple(STRATEGIES), scripts=scripts, seed=seed
    )
    with progress("having conversations") as on_progress:
        return simulate(simulation, on_progress=on_progress)


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
