"""What an attacker or a power cut would try: python -m security [NAME ...] [--quick] [--times N] [--json FILE]

`kills` prints counts that must all be 0. `hostile` prints what each input was answered with, how long others waited and what
memory it took. The exit status is 1 where something is not as it should be.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from security import hostile, resumes, serves


class Finding(Protocol):
    """One line of the report."""

    @property
    def wrong(self) -> bool | str: ...
    def line(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How much is done."""

    quick: bool = False
    times: int | None = None
    """Kills of each sort; None: 200 of a server whose clients never retry, 50 of one whose clients retry with a key, and 150
    of processes that resume runs; a few of each where it must be quick."""


def kills(options: Options) -> Sequence[Finding]:
    """kill -9 at random moments: of a server under six clients that never retry, of one whose clients send an idempotency key
    and retry what failed, and of processes that resume runs."""
    plain, keyed, resumed = (options.times or number for number in ((5, 3, 6) if options.quick else (200, 50, 150)))
    return [
        *serves.killed(plain, keys=False, quick=options.quick),
        *serves.killed(keyed, keys=True, quick=options.quick),
        *resumes.killed(resumed),
    ]


def hostile_inputs(options: Options) -> Sequence[Finding]:
    """Inputs that are too large or too slow, and how long others wait beside them."""
    return hostile.played(quick=options.quick)


ATTACKS: Mapping[str, Callable[[Options], Sequence[Finding]]] = {"kills": kills, "hostile": hostile_inputs}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m security", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(ATTACKS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="some of each: a few minutes instead of an hour")
    parser.add_argument("--times", type=int, metavar="N", help="so many kills of each sort")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there as well")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in ATTACKS]:
        parser.error(f"there is no attack {unknown[0]!r}; there are {', '.join(ATTACKS)}")
    options = Options(quick=given.quick, times=given.times)
    findings: dict[str, Sequence[Finding]] = {}
    for name in given.names or ATTACKS:
        print(f"\n--- {name}", flush=True)
        findings[name] = ATTACKS[name](options)
        for finding in findings[name]:
            print(finding.line(), flush=True)
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(findings)))
    if any(finding.wrong for found in findings.values() for finding in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
