"""The walk of a request, as docs/architecture.md tells it: stage after stage, and none comes back to the runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAGES = [
    "runtime/runtime.py",
    "runtime/requests.py",
    "runtime/answering.py",
    "runtime/setups.py",
    "runtime/views.py",
    "runtime/contexts.py",
    "runtime/conversations.py",
    "runtime/searching.py",
    "runtime/offering.py",
    "runtime/choosing.py",
    "runtime/vectors.py",
    "selection/selector.py",
    "runtime/instructions.py",
    "runtime/planning.py",
    "delivery/planner.py",
    "engine/loop.py",
    "runtime/ending.py",
]


@pytest.fixture(scope="module")
def walk() -> list[str]:
    """The files of a library run, each as often as the run turned to it from another one."""
    script = ROOT / "scripts" / "trace_walk.py"
    listed = subprocess.run(
        [sys.executable, str(script), "--list", "library"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [line.split()[0] for line in listed.stdout.splitlines() if not line.startswith(" ")]


def test_a_run_passes_the_stages_in_their_order(walk: list[str]) -> None:
    assert [file for file in dict.fromkeys(walk) if file in STAGES] == STAGES


def test_no_stage_comes_back_to_the_runtime(walk: list[str]) -> None:
    assert walk.count("runtime/runtime.py") == 1


def test_the_page_of_the_architecture_names_every_stage_of_the_runtime() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## The walk of a request")[2].partition("\n## ")[0]
    missing = [stage for stage in STAGES if stage.startswith("runtime/") and stage not in section]
    assert missing == []
