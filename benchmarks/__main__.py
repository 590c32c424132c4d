"""Runs all benchmarks, or those named: python -m benchmarks [NAME ...] [--quick] [--json FILE]

They run in the order of the table below. Each prints its own table; docs/performance.md explains the columns. The goals that were
missed are listed at the end, and the exit status is then 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import (
    costs,
    doors,
    embedders,
    escalation,
    fair_shares,
    gateway,
    key_limits,
    left_out,
    loop,
    mcp_calls,
    mcp_door,
    openapi,
    policy,
    provider,
    selection,
    tool_config_goals,
    workers,
)

BENCHMARKS: Mapping[str, Callable[[Sequence[str]], Sequence[Any]]] = {
    "selection": selection.main,
    "embedders": embedders.main,
    "loop": loop.main,
    "policy": policy.main,
    "provider": provider.main,
    "escalation": escalation.main,
    "tool_config_goals": tool_config_goals.main,
    "left_out": left_out.main,
    "gateway": gateway.main,
    "key_limits": key_limits.main,
    "fair_shares": fair_shares.main,
    "mcp_calls": mcp_calls.main,
    "mcp_door": mcp_door.main,
    "doors": doors.main,
    "openapi": openapi.main,
    "workers": workers.main,
    "costs": costs.main,
}


GOALS: Mapping[str, Callable[[Sequence[Any]], Sequence[str]]] = {
    "selection": selection.missed,
    "embedders": embedders.missed,
    "loop": loop.missed,
    "policy": policy.missed,
    "provider": provider.missed,
    "escalation": escalation.missed,
    "tool_config_goals": tool_config_goals.missed,
    "gateway": gateway.missed,
    "mcp_calls": mcp_calls.missed,
    "mcp_door": mcp_door.missed,
    "doors": doors.missed,
    "openapi": openapi.missed,
}
"""The goals that the rows of a benchmark miss. A benchmark that is not named here has no goal."""


def main() -> int:
    """Returns the exit status: 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; without names: all")
    parser.add_argument(
        "--quick", action="store_true", help="fewer repetitions: some minutes instead of half an hour, and more noise"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    rows: dict[str, Sequence[Any]] = {}
    for name in options.names or BENCHMARKS:
        print(f"\n--- {name}", flush=True)
        rows[name] = BENCHMARKS[name](["--quick"] if options.quick else [])
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows)))
    misses = [f"{name}: {line}" for name, goals in GOALS.items() if name in rows for line in goals(rows[name])]
    print(*(["\nMissed goals:", *misses] if misses else []), sep="\n")
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
