"""Writes the computed parts of docs/scale.md anew: python -m benchmarks.replicas.scale_page

They are the output of its example and the rows of its table, which follow from the constants that ship.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from toolcaddie.doors.cli import cli
from toolcaddie.evaluation.capacity.constants import shipped_constants
from toolcaddie.evaluation.capacity.load import Load, Site
from toolcaddie.evaluation.capacity.plan import plan

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
_EXAMPLE = re.compile(r"```sh\ntoolcaddie (?P<command>.*)\n```\n\n```text\n(?P<output>.*?)```\n", re.DOTALL)
_ROW = re.compile(r"^\| ([\d,]+) \| .*\|$", re.MULTILINE)
_TERABYTE = 1e12


def filled(text: str) -> str:
    """Returns the page with the output of its example and the rows of its table as they are now."""
    return _ROW.sub(_row, _EXAMPLE.sub(_example, text))


def _example(match: re.Match[str]) -> str:
    done = CliRunner().invoke(cli, shlex.split(match["command"]), prog_name="toolcaddie", catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return f"```sh\ntoolcaddie {match['command']}\n```\n\n```text\n{done.stdout}```\n"


def _row(match: re.Match[str]) -> str:
    rate = int(match[1].replace(",", ""))
    load = Load(requests_per_minute=rate, calls=2, rounds=3, tools=300, tenants=1_000)
    result = plan(load, shipped_constants(), Site())
    cells = (
        f"{rate:,}",
        f"{result.processes:,}",
        f"{result.machines:,}",
        f"{result.databases:,}",
        f"{result.database_cores:,}",
        f"{result.connections:,}",
        f"{result.disk_bytes / _TERABYTE:,.1f} TB",
        f"{result.disk_mb_per_second:,.1f}",
        f"{result.trail_utilisation:.0%} / {result.lock_utilisation:.0%}",
        f"{result.p50_ms:,.0f} / {result.p99_ms:,.0f} ms",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
