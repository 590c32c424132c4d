"""Measuring a configuration, and that what ships still finds what it was shipped for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.message import Message
from toolcaddie.core.presets import PRESETS
from toolcaddie.evaluation.datasets import LabelledRequest, read_requests, read_tools
from toolcaddie.evaluation.measure import Answer, measure, ranking_of
from toolcaddie.selection.selector import Selector

SHARED = Path(os.environ.get("TOOLCADDIE_SHARED") or Path(__file__).parents[3] / "shared")


def _request(text, *gold):
    return LabelledRequest(messages=(Message(role="user", content=text),), gold=frozenset(gold), group=text)


def test_what_fits_nothing_counts_for_no_fit_alone():
    answers = {
        "a": Answer(names=["x"], fit=0.9),
        "b": Answer(names=["y", "x"], fit=0.8),
        "c": Answer(names=["z"], fit=0.1),
    }
    requests = [_request("a", "x"), _request("b", "x"), _request("c")]
    measured = measure(lambda request: answers[request.messages[-1].text], requests)
    assert measured.requests == 3
    assert measured.metrics["recall@1"].value == 0.5
    assert measured.metrics["recall@5"].value == 1.0
    assert measured.no_fit is not None
    assert measured.no_fit.value == 1.0


def test_requests_without_a_right_tool_cannot_be_measured():
    with pytest.raises(ValueError, match="label some"):
        measure(lambda request: Answer(names=[]), [_request("a")])


@pytest.mark.skipif(not (SHARED / "bench").is_dir(), reason="the labelled sets are not beside the project")
@pytest.mark.parametrize(("name", "least"), [("apibank", 0.832), ("bfcl_multiturn", 0.776), ("toole_multi", 0.545)])
def test_the_default_preset_finds_at_least_what_the_best_baseline_of_a_set_finds(name, least):
    folder = SHARED / "bench" / "sets" / name
    view = View(catalog=Catalog.of(read_tools(folder / "tools.jsonl"), check_schemas=False))
    rank = ranking_of(Selector(PRESETS["default"].selection), view)
    assert measure(rank, read_requests(folder / "queries.dev.jsonl")).metrics["recall@5"].value >= least
