"""The figures of merit, on rankings small enough to count by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from toolcaddie.evaluation.metrics import auroc, auroc_of, complete, difference_of, mean_of, ndcg, quantile_of, recall


def test_recall_is_the_share_of_the_right_tools_among_the_first():
    assert recall(["a", "x", "b"], {"a", "b"}, 2) == 0.5
    assert recall(["a", "x", "b"], {"a", "b"}, 3) == 1.0
    assert recall([], {"a"}, 5) == 0.0


def test_complete_takes_all_or_nothing():
    assert complete(["a", "x", "b"], {"a", "b"}, 2) == 0.0
    assert complete(["a", "x", "b"], {"a", "b"}, 3) == 1.0


def test_ndcg_rewards_early_places():
    assert ndcg(["a", "b", "x"], {"a", "b"}, 10) == 1.0
    assert ndcg(["x", "a"], {"a"}, 10) == pytest.approx(1 / math.log2(3))


def test_auroc_counts_pairs_and_halves_ties():
    assert auroc(np.array([3.0, 2.0]), np.array([1.0])) == 1.0
    assert auroc(np.array([1.0]), np.array([1.0])) == 0.5
    assert auroc(np.array([1.0, 3.0]), np.array([2.0])) == 0.5


def test_an_interval_holds_its_mean_and_is_the_same_each_time():
    values = [float(i % 3 == 0) for i in range(90)]
    groups = [str(i) for i in range(90)]
    one = mean_of(values, groups)
    assert one == mean_of(values, groups)
    assert one.low < one.value < one.high
    assert one.value == pytest.approx(1 / 3)


def test_turns_of_one_conversation_are_drawn_together():
    """Ten copies of ten answers are worth ten answers."""
    values = [float(i % 2) for i in range(10)] * 10
    apart = mean_of(values, [str(i) for i in range(100)])
    together = mean_of(values, [str(i % 10) for i in range(100)])
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_auroc_of_equal_values_is_chance():
    told = auroc_of([0.5] * 20, [True] * 10 + [False] * 10)
    assert (told.value, told.low, told.high) == (0.5, 0.5, 0.5)


def test_a_paired_difference_is_surer_than_two_intervals_side_by_side():
    hard = [float(i % 2) for i in range(200)]
    better = [min(1.0, value + (0.0 if i % 10 else 1.0)) for i, value in enumerate(hard)]
    groups = [str(i) for i in range(200)]
    gain = difference_of(better, hard, groups)
    one, other = mean_of(hard, groups), mean_of(better, groups)
    assert gain.low > 0
    assert one.high > other.low
    assert gain.value == pytest.approx(other.value - one.value)


def test_a_quantile_is_one_of_the_values_and_its_interval_lies_around_it():
    values = [float(i) for i in range(101)]
    median = quantile_of(values, 0.5)
    assert (median.value, quantile_of(values, 0.99).value) == (50.0, 99.0)
    assert median.low < 50.0 < median.high
    assert quantile_of([3.0], 0.99).high == 3.0
