"""The least fit of the best tool below which nothing is sent, fitted to one's own requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.evaluation.metrics import Estimate, mean_of

FALSE_NOTHING = 0.02
"""Requests that some tool serves of which a floor may say that none does."""

LEAST_SERVED, LEAST_OTHERS = 50, 20
"""Requests of each kind under which a floor would be a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedFloor:
    """A floor that wrongs few of the requests it was found on."""

    floor: float
    false_nothing: Estimate
    """Share of the requests that some tool serves that it says "nothing" to."""
    caught: Estimate
    """Share of the others that it says "nothing" to."""


def fitted_floor(fits: Sequence[float], served: Sequence[bool], groups: Sequence[str]) -> FittedFloor | None:
    """The highest floor that says "nothing" to at most `FALSE_NOTHING` of the requests some tool serves; None where there
    are too few of them or of the others to say.

    `fits`: how well the best tool was said to fit each request, 0 to 1. `served`: whether some tool does.
    """
    values, right = np.asarray(fits, dtype=np.float64), np.asarray(served, dtype=np.bool_)
    if right.sum() < LEAST_SERVED or (~right).sum() < LEAST_OTHERS:
        return None
    # Just under the fit of the first request that must still be served.
    floor = float(np.floor(np.sort(values[right])[int(FALSE_NOTHING * right.sum())] * 1e4) / 1e4)
    named = np.asarray(groups, dtype=object)

    def share(kind: npt.NDArray[np.bool_]) -> Estimate:
        return mean_of((values[kind] < floor).astype(float).tolist(), named[kind].tolist())

    return FittedFloor(floor=floor, false_nothing=share(right), caught=share(~right))
