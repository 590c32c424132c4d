"""Random trees of bots that ask each other, and what any of them reached that it may not: python -m benchmarks.teams [--quick]

Models try everything (`security.teams`). Every figure below the first line must be 0; otherwise the exit status is 1.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence

from security.teams import Forest, grow

TREES, TREES_QUICK = 1_000, 50


def main(arguments: Sequence[str]) -> Forest:
    """Grows the trees, and prints what was counted."""
    logging.disable(logging.CRITICAL)  # runs that reach their limits fail on purpose
    started = time.perf_counter()
    forest = grow(TREES_QUICK if "--quick" in arguments else TREES)
    print(
        f"{forest.trees:,} trees, {forest.runs:,} bots asked, {forest.jobs:,} jobs run, {forest.reviews:,} reviews, "
        f"{forest.ran:,} tools run, at most {forest.widest} bots in a line, {time.perf_counter() - started:.0f} s"
    )
    for goal in forest.goals:
        print(goal.line())
    return forest


if __name__ == "__main__":
    sys.exit(any(goal.wrong for goal in main(sys.argv[1:]).goals))
