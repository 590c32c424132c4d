"""Weights are moved where requests prove that it helps, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from toolcaddie.evaluation.fit import by_selection, case_of, fitted, fragment

TOOLS = 30


def _cases(count, *, noise, telling=True, seed=1):
    """`words` tells the right tool nearly always if it is `telling`; `chance` says anything, louder."""
    dice = np.random.default_rng(seed)
    cases = []
    for number in range(count):
        gold = int(dice.integers(TOOLS))
        words = dice.random(TOOLS, dtype=np.float32) * np.float32(0.6)
        words[gold] = 1.0 if telling else words[gold]
        chance = dice.random(TOOLS, dtype=np.float32) * np.float32(noise)
        cases.append(case_of({"words": words, "chance": chance}, {}, [gold], 0, str(number)))
    return cases


def test_a_ranker_that_says_anything_is_turned_down_and_that_gains_on_requests_not_seen():
    found = fitted(_cases(150, noise=1.0), by_selection, {"words": 1.0, "chance": 1.0})
    assert found.recommended
    assert found.weights["chance"] / found.weights["words"] < 0.5
    assert found.gain.low > 0
    assert found.after.value == pytest.approx(found.before.value + found.gain.value)


def test_where_all_is_chance_nothing_is_recommended():
    for seed in range(5):
        found = fitted(_cases(60, noise=1.0, telling=False, seed=seed), by_selection, {"words": 1.0, "chance": 1.0})
        assert not found.recommended


def test_weights_that_do_as_well_as_any_stay_as_they_are():
    found = fitted(_cases(60, noise=0.0), by_selection, {"words": 1.0, "chance": 1.0})
    assert found.weights == found.start
    assert not found.recommended


def test_turns_of_one_conversation_are_never_on_both_sides():
    """Every request is there twenty times under one name: what is learned by heart gains nothing."""
    cases = [case for case in _cases(6, noise=1.0, telling=False) for _ in range(20)]
    found = fitted(cases, by_selection, {"words": 1.0, "chance": 1.0})
    assert not found.recommended


def test_a_ranker_that_weighs_itself_is_multiplied():
    dice = np.random.default_rng(3)
    cases = []
    for number in range(120):
        gold = int(dice.integers(TOOLS))
        words = dice.random(TOOLS, dtype=np.float32)
        meaning = dice.random(TOOLS, dtype=np.float32) * np.float32(0.5)
        meaning[gold] = 1.0
        cases.append(case_of({"words": words, "meaning": meaning}, {"meaning": 1.0}, [gold], 0, str(number)))
    found = fitted(cases, by_selection, {"words": 1.0, "meaning": 1.0})
    assert found.recommended
    assert found.weights["meaning"] > 1.0


def test_a_right_tool_that_the_catalog_lacks_counts_as_not_found():
    signal = np.array([1.0, 0.0], dtype=np.float32)
    cases = [case_of({"words": signal}, {}, [0], 1, str(number)) for number in range(5)]
    assert fitted(cases, by_selection, {"words": 1.0}).before.value == 0.5


def test_too_few_independent_requests_are_refused():
    with pytest.raises(ValueError, match="too few"):
        fitted(_cases(4, noise=1.0), by_selection, {"words": 1.0, "chance": 1.0})


def test_only_the_tools_that_may_come_to_the_top_are_kept():
    signal = np.arange(1_000, dtype=np.float32)
    case = case_of({"words": signal}, {}, [0], 0, "a")
    assert len(case.signals["words"]) == 65
    assert [case.signals["words"][place] for place in case.gold] == [0.0]


def test_a_fragment_is_a_piece_of_a_settings_file():
    assert fragment({"bm25": 1.0, "characters": 0.35}) == "[selection.weights]\nbm25 = 1\ncharacters = 0.35\n"


def test_progress_counts_the_evaluated_weights_one_by_one():
    counts = []
    fitted(_cases(20, noise=1.0), by_selection, {"words": 1.0, "chance": 1.0}, on_progress=counts.append)
    assert counts == list(range(1, len(counts) + 1))
    assert len(counts) > 15, "each weight is tried at every factor"


def test_a_weight_of_zero_stays_zero_and_is_not_tried():
    counts = []
    start = {"words": 1.0, "chance": 0.0}
    found = fitted(_cases(60, noise=1.0), by_selection, start, on_progress=counts.append)
    assert found.weights["chance"] == 0.0
    assert len(counts) == 8, "one free weight at seven factors and as it is"
