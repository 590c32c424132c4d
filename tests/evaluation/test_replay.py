"""A replay says what another selection would have changed, and why the comparison is less than exact."""

from __future__ import annotations

import pytest

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.message import Message
from toolcaddie.core.selection import SelectedTool, Selection
from toolcaddie.core.tool import Tool
from toolcaddie.evaluation.recorded import RecordedCall, RecordedRun
from toolcaddie.evaluation.replay import Replay, replayed

CATALOG = Catalog.of([Tool(name=name) for name in "abcd"])


def replay(selected: str, selected_now: str, called: str = "", **more: object) -> Replay:
    """The replay of a run over `CATALOG`; tools are named by single letters."""
    run = RecordedRun(
        run_id="r1",
        started=1.0,
        principal="ann",
        messages=(Message(role="user", content="hello"),),
        selected=tuple(selected),
        called=tuple(RecordedCall(name=name) for name in called),
        **{"catalog_version": CATALOG.version, "catalog_size": len(CATALOG), **more},  # type: ignore[arg-type]
    )
    tools = tuple(SelectedTool(tool=tool) for tool in CATALOG if tool.name in selected_now)
    return replayed(run, Selection(tools=tools), CATALOG)


def test_the_difference_of_two_selections_is_named() -> None:
    result = replay("ab", "bcd")
    assert (result.added, result.removed, result.kept) == (("c", "d"), ("a",), 1)


@pytest.mark.parametrize(
    ("selected", "selected_now", "called", "verdict"),
    [
        ("ab", "cd", "", "no tool was called, so nothing says which selection is better"),
        ("a", "abc", "abc", "better: 2 more of the 3 tools called would have been selected"),
        ("abc", "a", "ab", "worse: 1 of the 2 tools called would not have been selected"),
        ("a", "bc", "abc", "mixed: 2 more of the 3 tools called, 1 fewer"),
        ("ab", "abc", "ab", "the same: every tool called is in both (2)"),
        ("a", "a", "ab", "the same: 1 of 2 tools called are in both"),
    ],
)
def test_the_verdict_follows_from_the_tools_that_were_called(
    selected: str, selected_now: str, called: str, verdict: str
) -> None:
    assert replay(selected, selected_now, called).verdict == verdict


def test_an_exact_comparison_has_no_notes() -> None:
    assert replay("a", "a").notes == ()


def test_a_message_that_was_cut_is_noted() -> None:
    (note,) = replay("a", "a", cut=True).notes
    assert note.startswith("the trail has only the beginning of a message")


def test_categories_that_a_model_named_are_noted() -> None:
    assert "named categories for the run (x, y)" in replay("a", "a", classified=("x", "y")).notes[0]
    assert "named categories for the run (none)" in replay("a", "a", classified=()).notes[0]


def test_a_run_that_saw_fewer_tools_is_noted() -> None:
    (note,) = replay("a", "a", catalog_size=3).notes
    assert note == "the run could see 3 of the 4 tools; the replay sees all of them"


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("", "it has 4 tools, and had 9 at the time of the run; the replay"),
        ("v", "these selected tools: v; the replay"),
        ("vwxyz", "these selected tools: v, w, x, y, z; the replay"),
        ("uvwxyz", "these selected tools: u, v, w, x, y and 1 more; the replay"),
    ],
)
def test_another_catalog_is_noted_with_five_of_the_tools_it_lacks(gone: str, words: str) -> None:
    (note,) = replay("a" + gone, "a", catalog_version="older", catalog_size=9).notes
    assert words in note
