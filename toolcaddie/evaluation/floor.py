"""Fits the floor to labelled requests: the fit of the best tool below which nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.evaluation.metrics import Estimate, mean_of

FALSE_NOTHING = 0.02
"""Largest share of requests with a fitting tool for which a floor may say "nothing fits"."""

LEAST_SERVED, LEAST_OTHERS = 50, 20
"""Least number of requests of each kind; with fewer a floor would be a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedFloor:
    """A floor with its two rates on the requests that it was fitted to."""

    floor: float
    false_nothing: Estimate
    """Share of the requests with a fitting tool for which it says "nothing fits"."""
    caught: Estimate
    """Share of the other requests for which it says "nothing fits"."""


def fitted_floor(fits: Sequence[float], served: Sequence[bool], groups: Sequence[str]) -> FittedFloor | None:
    """Returns the highest floor whose `false_nothing` is at most `FALSE_NOTHING`; None: too few requests of one kind.

    `fits`: score of each request's best tool, 0 to 1. `served`: True if some tool fits the request.
    """
    values, right = np.asarray(fits, dtype=np.float64), np.asarray(served, dtype=np.bool_)
    if right.sum() < LEAST_SERVED or (~right).sum() < LEAST_OTHERS:
        return None
    # Rounded down, to stay below the fit of the first request that must still be served.
    floor = float(np.floor(np.sort(values[right])[int(FALSE_NOTHING * right.sum())] * 1e4) / 1e4)
    labels = np.asarray(groups, dtype=object)

    def share(kind: npt.NDArray[np.bool_]) -> Estimate:
        return mean_of((values[kind] < floor).astype(float).tolist(), labels[kind].tolist())

    return FittedFloor(floor=floor, false_nothing=share(right), caught=share(~right))
