"""All figures of the tools of a host, one after another: python -m benchmarks.hosts_check [--corpora FOLDER]

Each part prints its figures and their goals. The exit code is 1 if a part misses one. What this machine cannot do is skipped, and
says why.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, help="folder with hostile inputs")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("You are not root, so the back ends that need it are skipped.", flush=True)
    corpora = [] if options.corpora is None else ["--corpora", str(options.corpora)]
    parts = {
        "75 calls, and the tokens of the tools": ["benchmarks.hosts_limits"],
        "100 requests at once": ["benchmarks.hosts_load"],
        "memory of a request": ["benchmarks.hosts_memory"],
        "a hostile model": ["security", "hosts", *corpora],
        "200 random states of each plugin": ["benchmarks.hosts_states"],
    }
    failed: list[str] = []
    for name, module in parts.items():
        print(f"\n=== {name}", flush=True)
        began = time.monotonic()
        code = subprocess.run([sys.executable, "-m", *module], cwd=_ROOT, check=False).returncode
        if code:
            failed.append(name)
        print(f"({time.monotonic() - began:.0f} s, exit code {code})", flush=True)
    print(f"\nmissed: {', '.join(failed)}" if failed else "\nall goals are met")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
