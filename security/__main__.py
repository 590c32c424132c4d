"""What an attacker would try: python -m security [NAME ...] [--quick] [--json FILE]

Each prints what it saw; the exit status is 1 where something is not as it should be.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from security import hostile


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much is done."""

    quick: bool = False


def hostile_inputs(options: Options) -> Sequence[hostile.Outcome]:
    """Inputs that are too large or too slow, and how long others wait beside them."""
    return hostile.played(quick=options.quick)


ATTACKS: Mapping[str, Callable[[Options], Sequence[hostile.Outcome]]] = {"hostile": hostile_inputs}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m security", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(ATTACKS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="some of each: a minute or two instead of an hour")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts there as well")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in ATTACKS]:
        parser.error(f"there is no attack {unknown[0]!r}; there are {', '.join(ATTACKS)}")
    outcomes: dict[str, Sequence[hostile.Outcome]] = {}
    for name in given.names or ATTACKS:
        print(f"\n--- {name}", flush=True)
        outcomes[name] = ATTACKS[name](Options(quick=given.quick))
        for outcome in outcomes[name]:
            print(outcome.line(), flush=True)
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes)))
    if any(outcome.wrong for found in outcomes.values() for outcome in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
