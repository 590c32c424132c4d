"""All figures of bots, one after another: python -m benchmarks.bots_check [--bench FOLDER] [--corpora FOLDER]

Each part prints its figures and whether its goals are met. The exit code is 1 if a part fails. A part whose data are not there is
skipped, and says so.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, help="folder with the labelled sets")
    parser.add_argument("--corpora", type=Path, help="folder with hostile inputs")
    options = parser.parse_args()
    corpora = [] if options.corpora is None else ["--corpora", str(options.corpora)]
    parts = {
        "a walk through the sample bots": ["benchmarks.bots_walk"],
        "random trees of bots": ["benchmarks.teams"],
        "texts that tell bots what to do": ["security", "bots", *corpora],
        "durable runs": ["benchmarks.durable_runs"],
        "channels": ["benchmarks.channels"],
        "memory": [] if options.bench is None else ["benchmarks.memory", "--bench", str(options.bench)],
        "schedules": ["benchmarks.schedules"],
    }
    failed: list[str] = []
    for name, module in parts.items():
        print(f"\n=== {name}", flush=True)
        if not module:
            print("skipped: --bench names no folder")
            continue
        began = time.monotonic()
        if subprocess.run([sys.executable, "-m", *module], cwd=_ROOT, check=False).returncode:
            failed.append(name)
        print(f"({time.monotonic() - began:.0f} s)", flush=True)
    print(f"\nmissed: {', '.join(failed)}" if failed else "\nall goals are met")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
