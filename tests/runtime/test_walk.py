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
    "runtime/conversations.py",
    "runtime/setups.py",
    "runtime/views.py",
    "runtime/contexts.py",
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

NESTED = {"runtime/choosing.py"}
"""Stages that call the one behind them in the list and go on when it has returned."""


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


def test_a_stage_that_was_left_for_the_next_one_is_not_entered_again(walk: list[str]) -> None:
    """`answering.py` calls the stages, and a conversation is read at the beginning and written at the end."""
    at_both_ends = {"runtime/answering.py", "runtime/conversations.py"}
    stages = [stage for stage in STAGES if stage.startswith("runtime/") and stage not in at_both_ends]
    begins = {stage: walk.index(stage) for stage in stages}
    later = zip(stages, [*stages[1:], None], strict=True)
    returned = [
        stage for stage, after in later if after is not None and stage in walk[begins[after] :] and stage not in NESTED
    ]
    assert returned == []


def test_the_page_of_the_architecture_names_every_stage_of_the_runtime() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## The walk of a request")[2].partition("\n## ")[0]
    missing = [stage for stage in STAGES if stage.startswith("runtime/") and stage not in section]
    assert missing == []
