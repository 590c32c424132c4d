"""Time until a page of the console can be read: python -m benchmarks.console.readable [--folder FOLDER] [--repetitions 5]

Starts `toolcaddie serve` over the large database of `database`, which is made if it is missing, and opens every page of
`addresses` in chromium with an empty cache, as on a telephone: a processor that is four times slower than this one, and
a connection of 10 Mbit/s with 40 ms. A page can be read when its largest text or picture is painted. The exit code is 1 if a page
needs more than `GOAL` in the median of the repetitions. Needs chromium and the dependency group `browser`.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from playwright.sync_api import Browser, BrowserContext

from benchmarks.console.database import RUNS, prepared, runs_in
from benchmarks.console.page_views import key_and_paths
from tests.clients.server import toolcaddie_serve
from tests.console_browser.browser import opened, signed_in

GOAL = 1.5
"""Seconds."""
_SLOWER = 4
_NETWORK = {"offline": False, "latency": 40, "downloadThroughput": 1_250_000, "uploadThroughput": 1_250_000}
_PAINTED = """() => new Promise((resolve) => {
  new PerformanceObserver((list) => resolve(list.getEntries().at(-1).startTime))
    .observe({ type: "largest-contentful-paint", buffered: true });
})"""


class Row(Struct, frozen=True, kw_only=True):
    """The times of a page in seconds."""

    page: str
    median: float
    worst: float


def measured(browser: Browser, url: str, key: str, paths: Sequence[str], repetitions: int) -> list[Row]:
    rows = []
    with signed_in(browser, url, key) as context:
        state = context.storage_state()
    for path in paths:
        times = []
        for _ in range(repetitions):
            with browser.new_context(base_url=url, storage_state=state, locale="en") as fresh:
                times.append(_seconds(fresh, path))
        rows.append(Row(page=path, median=statistics.median(times), worst=max(times)))
    return rows


def _seconds(context: BrowserContext, path: str) -> float:
    """Returns the seconds until the largest thing of a page is painted."""
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.emulateNetworkConditions", _NETWORK)
    session.send("Emulation.setCPUThrottlingRate", {"rate": _SLOWER})
    page.goto(path, wait_until="load")
    return float(page.evaluate(_PAINTED)) / 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/console"))
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of a folder that is made")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        print("chromium is missing; sh packaging/browser.sh installs it", file=sys.stderr)
        return 1
    folder = options.folder.resolve()
    settings = prepared(folder, options.runs)
    key, paths = asyncio.run(key_and_paths(settings, runs_in(folder)))
    with toolcaddie_serve(folder) as url, opened(program) as browser:
        rows = measured(browser, url, key, paths, options.repetitions)
    for row in sorted(rows, key=lambda each: each.median):
        print(f"{row.median:7.2f} {row.worst:7.2f} s  {row.page}")
    slow = [row for row in rows if row.median >= GOAL]
    print(*(f"MISSED: {row.page} can be read after {row.median:.2f} s, the goal is {GOAL:g}" for row in slow), sep="\n")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
