"""The attacks on the file tools meet their goals on this machine, and would see it if the tools let something through."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from security import files
from security.file_places import place
from security.file_setups import OWN_CASES, Case, played
from security.file_swaps import raced
from toolcaddie.guards.openat2 import problem

if problem():
    pytest.skip(problem(), allow_module_level=True)


@pytest.mark.parametrize("case", OWN_CASES, ids=lambda case: case.id)
def test_no_set_up_leads_out_of_the_workspace(case: Case) -> None:
    outcome = played(case)
    if outcome is None:
        pytest.skip("this machine cannot make the set-up")
    assert outcome == ""


def test_no_path_leads_out_of_the_workspace() -> None:
    goals = asyncio.run(files.traversed("paths of ours", files.OWN_PATHS))
    assert [goal.line() for goal in goals if not goal.met] == []


def test_no_round_of_a_swapped_link_leads_out_of_the_workspace() -> None:
    assert [goal.line() for goal in raced(2_000, tool_rounds=100) if not goal.met] == []


def test_a_changed_file_outside_is_seen() -> None:
    with place(depth=1) as where:
        before = where.outside_state()
        (where.base / "inside").write_text("x")
        assert where.outside_state() == before
        (where.outside / "secret").write_text("changed")
        (where.outside / "new").symlink_to("x")
        assert {Path(path).name for path, _ in {*before.items()} ^ {*where.outside_state().items()}} == {
            "secret",
            "new",
        }


def test_a_set_up_that_is_not_refused_is_seen() -> None:
    assert "it was not refused" in (played(Case(id="x", setup="echo a>BASE/a", use="a", expect="refused")) or "")
    assert played(Case(id="x", setup="a thread that nobody wrote", use="a")) is None
