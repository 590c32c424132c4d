"""The floor that one's own requests ask for."""

from __future__ import annotations

import pytest

from toolcaddie.evaluation.floor import fitted_floor


def test_the_highest_floor_is_taken_that_wrongs_one_in_fifty() -> None:
    served = [0.1, 0.2] + [0.5] * 98
    others = [0.05, 0.15, 0.45, 0.6]
    fits, kinds = served + others, [True] * 100 + [False] * 4
    found = fitted_floor(fits, kinds, [str(number) for number in range(104)])
    assert found is not None
    assert found.floor == 0.5
    assert found.false_nothing.value == pytest.approx(0.02)
    assert found.caught.value == pytest.approx(0.75)


def test_where_every_request_is_served_there_is_nothing_to_win() -> None:
    assert fitted_floor([0.5, 0.6], [True, True], ["a", "b"]) is None
    assert fitted_floor([0.5, 0.6], [False, False], ["a", "b"]) is None
