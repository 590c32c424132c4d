"""What an attacker or a power cut would try: python -m security [NAME ...] [--quick] [--keys] [--json FILE]

Each prints a table of counts that must all be 0; the exit status is 1 where one is not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from security import resumes, serves
from security.counted import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much is done."""

    quick: bool = False
    keys: bool = False
    """Clients send an idempotency key and retry what failed."""
    times: int | None = None


def kills(options: Options) -> Sequence[Count]:
    """kill -9 at random moments: of a server under six clients, then of processes that resume runs."""
    served = serves.killed(options.times or (8 if options.quick else 200), keys=options.keys, quick=options.quick)
    return [*served, *resumes.killed(options.times or (6 if options.quick else 150))]


ATTACKS: Mapping[str, Callable[[Options], Sequence[Count]]] = {"kills": kills}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m security", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(ATTACKS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="some of each: a minute or two instead of an hour")
    parser.add_argument("--times", type=int, metavar="N", help="so many kills of each sort")
    parser.add_argument("--keys", action="store_true", help="clients send an idempotency key and retry what failed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts there as well")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in ATTACKS]:
        parser.error(f"there is no attack {unknown[0]!r}; there are {', '.join(ATTACKS)}")
    options = Options(quick=given.quick, keys=given.keys, times=given.times)
    counts: dict[str, Sequence[Count]] = {}
    for name in given.names or ATTACKS:
        print(f"\n--- {name}", flush=True)
        counts[name] = ATTACKS[name](options)
        for count in counts[name]:
            print(count.line(), flush=True)
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(counts)))
    if any(count.wrong for found in counts.values() for count in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
