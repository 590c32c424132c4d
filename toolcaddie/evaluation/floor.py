"""Fits the floor of selection to labelled requests, for `eval --fit`.

The fit of a request is the score of its best tool, from 0 to 1. If it is below the floor, selection says "nothing fits".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.evaluation.metrics import Estimate, mean_of

FALSE_NOTHING = 0.02
"""Largest share of the requests with a fitting tool for which the floor may wrongly say "nothing fits"."""

LEAST_SERVED = 50
"""Smallest number of requests with a fitting tool; with fewer of them a floor would be a guess."""

LEAST_OTHERS = 20
"""Smallest number of requests without a fitting tool; with fewer of them a floor would be a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedFloor:
    """A floor with its two rates on the requests that it was fitted to."""

    floor: float
    false_nothing: Estimate
    """Share of the requests with a fitting tool for which the floor says "nothing fits"."""
    caught: Estimate
    """Share of the requests without a fitting tool for which the floor says "nothing fits"."""


def fitted_floor(fits: Sequence[float], served: Sequence[bool], groups: Sequence[str]) -> FittedFloor | None:
    """Returns the highest floor whose `false_nothing` is at most `FALSE_NOTHING`. None: there are too few requests of one kind.

    `fits`: the fit of each request. `served`: True for each request that some tool fits. `groups`: the group of each request.
    """
    values, right = np.asarray(fits, dtype=np.float64), np.asarray(served, dtype=np.bool_)
    if right.sum() < LEAST_SERVED or (~right).sum() < LEAST_OTHERS:
        return None
    # Rounded down, so that the floor is not above the fit of a request that must still be served.
    floor = float(np.floor(np.sort(values[right])[int(FALSE_NOTHING * right.sum())] * 1e4) / 1e4)
    labels = np.asarray(groups, dtype=object)

    def share(kind: npt.NDArray[np.bool_]) -> Estimate:
        return mean_of((values[kind] < floor).astype(float).tolist(), labels[kind].tolist())

    return FittedFloor(floor=floor, false_nothing=share(right), caught=share(~right))
