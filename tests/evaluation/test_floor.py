"""The floor that one's own requests ask for."""

from __future__ import annotations

import pytest

from toolcaddie.evaluation.floor import fitted_floor


def test_the_highest_floor_is_taken_that_wrongs_one_in_fifty() -> None:
    served = [0.1, 0.2] + [0.5] * 98
    others = [0.05, 0.15, 0.45, 0.6] * 5
    fits, kinds = served + others, [True] * 100 + [False] * 20
    found = fitted_floor(fits, kinds, [str(number) for number in range(120)])
    assert found is not None
    assert found.floor == 0.5
    assert found.false_nothing.value == pytest.approx(0.02)
    assert found.caught.value == pytest.approx(0.75)


def test_of_few_requests_no_floor_is_made() -> None:
    groups = [str(number) for number in range(100)]
    assert fitted_floor([0.5] * 100, [True] * 100, groups) is None
    assert fitted_floor([0.5] * 100, [False] * 100, groups) is None
    assert fitted_floor([0.5] * 60, [True] * 50 + [False] * 10, groups[:60]) is None
