"""Two states of the code against each other: the benchmarks of each in turn, before and after, and the ratio of every figure.

    git worktree add ../before v0.1.0
    python -m benchmarks.pairs ../before --pairs 10

Machines are noisy, so the two take turns (before, after, after, before, ...), each pair gives one ratio a figure, and what
counts is the median ratio with its 95 % interval by order statistics. A figure holds where the interval lies below
`--most` (1.05: five percent slower); exits with 1 where all of an interval lies above. Litellm is left out: it is the same in
both.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("loop", "selection", "provider", "gateway")
_FIGURES = ("round_ms", "run_ms", "p50_ms", "cpu_p99_ms", "cpu_ms", "added_ms", "ours_ms")
_OTHERS = ("upstream", "bare proxy", "litellm")
_RUNNER = """
import importlib, sys
import msgspec
rows = importlib.import_module("benchmarks." + sys.argv[1]).main(["--quick", "--without-litellm"])
open(sys.argv[2], "wb").write(msgspec.json.encode(rows))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A figure after over before: the median of the pairs, and the bounds of its interval."""

    figure: str
    before: float
    after: float
    median: float
    low: float
    high: float

    def verdict(self, most: float) -> str:
        """`holds`: the interval excludes such a slowdown; `slower`: all of it lies above; `open`: more pairs would tell."""
        return "holds" if self.high < most else "slower" if self.low > most else "open"


def measured(tree: Path, name: str) -> Mapping[str, float]:
    """The figures of one benchmark in one tree, by a name that says the case."""
    python = tree / ".venv" / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        subprocess.run(
            [str(python) if python.exists() else sys.executable, "-c", _RUNNER, name, str(file)],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return dict(_figures(name, json.loads(file.read_bytes())))


def _figures(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    for row in rows:
        flat = {**row, **row.get("case", {})}
        if flat.get("server") in _OTHERS:
            continue
        labels = [
            f"{key}={value}"
            for key, value in flat.items()
            if isinstance(value, str | bool | int) and key not in _COUNTS
        ]
        for figure in _FIGURES:
            if isinstance(flat.get(figure), float) and flat[figure] > 0:
                yield f"{name} {' '.join(labels)} {figure}", flat[figure]


_COUNTS = ("requests", "goal_ms", "met", "index_ms")


def compared(figure: str, pairs: Sequence[tuple[float, float]]) -> Ratio:
    """The ratio of a figure over all pairs. Shape: (before, after) a pair."""
    ratios = sorted(after / before for before, after in pairs)
    rank = _rank(len(ratios))
    return Ratio(
        figure=figure,
        before=statistics.median(before for before, _ in pairs),
        after=statistics.median(after for _, after in pairs),
        median=statistics.median(ratios),
        low=ratios[rank],
        high=ratios[-1 - rank],
    )


def _rank(count: int) -> int:
    """The order statistic that bounds the median from below with 97.5 % (sign test); 0 where there are too few pairs."""
    below, rank = 0.0, -1
    while rank + 1 < count // 2 and below + math.comb(count, rank + 1) / 2**count <= 0.025:
        rank += 1
        below += math.comb(count, rank) / 2**count
    return max(0, rank)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pairs", description=__doc__.split("\n", 1)[0] if __doc__ else ""
    )
    parser.add_argument("before", type=Path, help="a checkout of the state to compare with, with its own .venv or none")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--names", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--most", type=float, default=1.05, help="the ratio a figure may rise to [1.05]")
    given = parser.parse_args(arguments)
    before, after = given.before.resolve(), Path.cwd()
    verdicts: Counter[str] = Counter()
    for name in given.names:
        pairs: dict[str, list[tuple[float, float]]] = {}
        for number in range(given.pairs):
            print(f"{name}: pair {number + 1} of {given.pairs}", file=sys.stderr, flush=True)
            order = (before, after) if number % 2 == 0 else (after, before)
            figures = {tree: measured(tree, name) for tree in order}
            for figure in figures[before].keys() & figures[after].keys():
                pairs.setdefault(figure, []).append((figures[before][figure], figures[after][figure]))
        print(f"{'figure':<76}{'before':>9}{'after':>9}{'ratio':>8}   95 % interval")
        for ratio in sorted((compared(figure, both) for figure, both in pairs.items()), key=lambda one: one.figure):
            verdict = ratio.verdict(given.most)
            verdicts[verdict] += 1
            print(
                f"{ratio.figure:<76}{ratio.before:>9.3f}{ratio.after:>9.3f}{ratio.median:>8.3f}   "
                f"{ratio.low:.3f} to {ratio.high:.3f}   {verdict}",
                flush=True,
            )
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    return 1 if verdicts["slower"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
