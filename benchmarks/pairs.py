"""Compares the speed of two states of the code: before and after a change. Both are measured in turns, and each pair of turns
gives one ratio per figure, after to before.

    git worktree add ../before v0.1.0
    python -m benchmarks.pairs ../before --pairs 40

Machines are noisy, and a slow phase lasts for seconds. So each state runs in a process of its own, and both take turns within
a second or two (before, after, after, before, ...). After every ten pairs the processes are started again, because memory may
be laid out better in one than in the other. The result is the median ratio with its 95 % interval by order statistics. The
verdict is `holds` if the interval lies below `--most` (1.05: five percent slower), `slower` if it lies above, and otherwise
`open`. The exit status is 1 if any figure is slower.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from benchmarks import servers
from benchmarks.gateway import CASES, Case, request_bodies
from benchmarks.load import Load, Measured
from benchmarks.servers import Server

_SITTING = 10
"""Number of pairs that the same processes measure."""

_BLOCKS: Mapping[str, Mapping[str, int]] = {
    "loop": {"repetitions": 1},
    "selection": {"requests": 200},
    "provider": {"rounds": 1},
}
"""The benchmarks whose `run` measures in its own process, and the arguments for a short run."""
_WORKER = """
import importlib, json, sys
import msgspec
run = importlib.import_module("benchmarks." + sys.argv[1]).run
for line in sys.stdin:
    print(msgspec.json.encode(run(**json.loads(sys.argv[2]))).decode(), flush=True)
"""
_FIGURES = ("round_ms", "run_ms", "p50_ms", "cpu_p99_ms", "ours_ms")

_REQUESTS, _SECONDS = 200, 0.3
"""Limits of one turn of a gateway: requests, and seconds in which they begin."""

Figures = Mapping[str, float]
Turn = Callable[[], Figures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio of a figure, after to before: the median of the pairs, and the bounds of its interval."""

    figure: str
    before: float
    after: float
    median: float
    low: float
    high: float

    def verdict(self, most: float) -> str:
        """Returns `holds` if the whole interval lies below `most`, `slower` if the whole interval lies above it, else `open`."""
        return "holds" if self.high < most else "slower" if self.low > most else "open"


def compared(figure: str, pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Returns the ratio of a figure over all pairs of (before, after)."""
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
    """Returns the index of the sorted value that is below the true median with a probability of 97.5 % (sign test); 0 if there
    are too few pairs."""
    below, rank = 0.0, -1
    while rank + 1 < count // 2 and below + math.comb(count, rank + 1) / 2**count <= 0.025:
        rank += 1
        below += math.comb(count, rank) / 2**count
    return max(0, rank)


def _turns(turns: Sequence[Turn], count: int, first: int) -> Iterator[tuple[Figures, Figures]]:
    """Yields pairs of figures. The states take turns in being measured first. `first` is the number of the first pair."""
    for number in range(first, first + count):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        figures = {place: turns[place]() for place in order}
        yield figures[0], figures[1]


# --- benchmarks that measure their own process -------------------------------------------------------------------------


@contextlib.contextmanager
def _worker(tree: Path, name: str) -> Iterator[Turn]:
    """Starts a process of one state, which measures once per turn."""
    command = [str(servers.python_of(tree)), "-c", _WORKER, name, json.dumps(_BLOCKS[name])]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        commands, answers = process.stdin, process.stdout

        def turn() -> Figures:
            commands.write("\n")
            commands.flush()
            return dict(_figures(name, json.loads(answers.readline())))

        try:
            yield turn
        finally:
            commands.close()


def _figures(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yields the figures of a benchmark's rows. Each is named by the benchmark, the row's labels and the column."""
    for row in rows:
        labels = [f"{key}={value}" for key, value in row.items() if isinstance(value, str | int) and key != "calls"]
        for figure in _FIGURES:
            if isinstance(row.get(figure), float) and row[figure] > 0:
                yield f"{name} {' '.join(labels)} {figure}", row[figure]


def _in_processes(name: str, trees: Sequence[Path], count: int) -> Iterator[tuple[Figures, Figures]]:
    """Yields pairs of figures of a benchmark that runs in one process of each state."""
    for first in range(0, count, _SITTING):
        with contextlib.ExitStack() as stack:
            turns = [stack.enter_context(_worker(tree, name)) for tree in trees]
            for turn in turns:  # fills caches
                turn()
            yield from _turns(turns, min(_SITTING, count - first), first)


# --- the gateway -------------------------------------------------------------------------------------------------------


def _gateways(trees: Sequence[Path], count: int) -> Iterator[tuple[Figures, Figures]]:
    """Yields pairs of figures of the gateways of both states, for every kind of request."""
    for first in range(0, count, _SITTING):
        with contextlib.ExitStack() as stack:
            upstream = stack.enter_context(servers.upstream())
            gateways = [stack.enter_context(servers.toolcaddie(upstream.base_url, tree=tree)) for tree in trees]
            runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
            session = runner.run(_session())
            stack.callback(lambda runner, session: runner.run(session.close()), runner, session)
            ask = partial(_measured, runner, Load(session))
            for case in CASES:
                bodies = request_bodies(case)
                alone = ask(upstream, case, bodies).p50_ms
                turns = [partial(_gateway_figures, ask, server, case, bodies, alone) for server in gateways]
                for turn in turns:  # connections, caches
                    turn()
                yield from _turns(turns, min(_SITTING, count - first), first)


async def _session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)  # servers close theirs after five seconds
    return aiohttp.ClientSession(connector=connector)


def _measured(runner: asyncio.Runner, load: Load, server: Server, case: Case, bodies: Sequence[bytes]) -> Measured:
    block = load.block(server, bodies, connections=case.connections, requests=_REQUESTS, seconds=_SECONDS)
    return runner.run(block)


def _gateway_figures(
    ask: Callable[[Server, Case, Sequence[bytes]], Measured],
    server: Server,
    case: Case,
    bodies: Sequence[bytes],
    alone: float,
) -> Figures:
    """Measures one gateway. `alone` is the p50 of the upstream without a gateway."""
    measured = ask(server, case, bodies)
    added = measured.p50_ms - alone
    figures = {"p50_ms": measured.p50_ms, "cpu_ms": measured.cpu_ms, **({"added_ms": added} if added > 0 else {})}
    return {f"gateway {case} {name}": value for name, value in figures.items()}


# -----------------------------------------------------------------------------------------------------------------------

NAMES = ("loop", "selection", "gateway", "provider")


def ratios(name: str, before: Path, after: Path, count: int) -> Iterator[Ratio]:
    """Returns the ratios of all figures of one benchmark, in the order of their names."""
    measured = _gateways if name == "gateway" else partial(_in_processes, name)
    pairs: dict[str, list[tuple[float, float]]] = {}
    for was, now in measured((before, after), count):
        for figure in was.keys() & now.keys():
            pairs.setdefault(figure, []).append((was[figure], now[figure]))
        if sys.stderr.isatty():
            print(f"\r\033[K{name}: {max(map(len, pairs.values()))} of {count} pairs", end="", file=sys.stderr)
    return (compared(figure, both) for figure, both in sorted(pairs.items()))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pairs", description=__doc__.split("\n", 1)[0] if __doc__ else ""
    )
    parser.add_argument(
        "before", type=Path, help="a checkout of the state to compare with; its .venv is used if it has one"
    )
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--names", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--most", type=float, default=1.05, help="the largest accepted ratio of a figure [1.05]")
    options = parser.parse_args(arguments)
    verdicts: Counter[str] = Counter()
    for name in options.names:
        print(f"{'figure':<76}{'before':>9}{'after':>9}{'ratio':>8}   95 % interval")
        for ratio in ratios(name, options.before.resolve(), Path.cwd(), options.pairs):
            verdict = ratio.verdict(options.most)
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
