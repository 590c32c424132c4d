"""All benchmarks, or the ones named: python -m benchmarks [NAME ...] [--quick] [--json FILE]

They stand in the order they run; each prints its own table, and docs/performance.md says what the columns mean.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import costs, embedders, gateway, ladder, left_out, loop, provider, selection, source003

BENCHMARKS: Mapping[str, Callable[[Sequence[str]], Sequence[Any]]] = {
    "selection": selection.main,
    "embedders": embedders.main,
    "loop": loop.main,
    "provider": provider.main,
    "ladder": ladder.main,
    "source003": source003.main,
    "left_out": left_out.main,
    "gateway": gateway.main,
    "costs": costs.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; all if none is named"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer repetitions: some minutes instead of half an hour, and more noise"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    rows: dict[str, Sequence[Any]] = {}
    for name in given.names or BENCHMARKS:
        print(f"\n--- {name}", flush=True)
        rows[name] = BENCHMARKS[name](["--quick"] if given.quick else [])
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows)))


if __name__ == "__main__":
    main()
