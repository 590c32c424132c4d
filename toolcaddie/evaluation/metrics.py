"""Figures of merit of rankings, such as recall, and the bootstrap that gives each its 95 % interval.

`gold` is the set of right tools of a request. `groups` names the group of each value: values of one group are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RESAMPLES = 1_000
"""Number of bootstrap resamples of an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure over all requests, and its interval: 95 % of the figure's bootstrap resamples are between `low` and `high`."""

    value: float
    low: float
    high: float


def recall(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Returns the share of the right tools that are among the first k."""
    return len(set(ranked[:k]) & set(gold)) / len(gold)


def complete(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Returns 1 if all right tools are among the first k, else 0."""
    return float(set(gold) <= set(ranked[:k]))


def ndcg(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Returns the normalised discounted cumulative gain (Järvelin and Kekäläinen 2002). The gain of a right tool is 1."""
    gained = sum(1 / math.log2(place + 2) for place, name in enumerate(ranked[:k]) if name in gold)
    return gained / sum(1 / math.log2(place + 2) for place in range(min(len(gold), k)))


def auroc(positive: Floats, negative: Floats) -> float:
    """Returns the share of pairs in which the positive value is above the negative one. A tie counts half (Mann and Whitney's
    U)."""
    below = np.searchsorted(np.sort(negative), positive, side="left")
    up_to = np.searchsorted(np.sort(negative), positive, side="right")
    return float((below + up_to).sum() / 2 / (len(positive) * len(negative)))


def mean_of(values: Sequence[float], groups: Sequence[str]) -> Estimate:
    """Returns the mean and its interval. The bootstrap draws whole groups, because turns of a conversation are not
    independent."""
    _, member = np.unique(np.asarray(groups), return_inverse=True)
    sums = np.bincount(member, weights=values)
    sizes = np.bincount(member)
    return _bootstrapped(len(sums), lambda draw: float(sums[draw].sum() / sizes[draw].sum()))


def auroc_of(values: Sequence[float], fits: Sequence[bool]) -> Estimate:
    """Returns the AUROC of values that should be higher for requests that a tool fits. `fits`: whether a tool fits each
    request."""
    scores, truth = np.asarray(values, dtype=np.float64), np.asarray(fits, dtype=np.bool_)

    def auroc_of_draw(draw: npt.NDArray[np.int64]) -> float:
        sample, label = scores[draw], truth[draw]
        return auroc(sample[label], sample[~label]) if label.any() and not label.all() else math.nan

    return _bootstrapped(len(scores), auroc_of_draw)


def quantile_of(values: Sequence[float], share: float) -> Estimate:
    """Returns a quantile, which is always one of the values, and its interval. `share`: 0.5 for the median."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    place = min(int(len(ordered) * share), len(ordered) - 1)
    # The bootstrap draws ranks instead of values, which is faster: the quantile of ranks is the rank of the quantile.
    return _bootstrapped(len(ordered), lambda draw: float(ordered[np.partition(draw, place)[place]]))


def difference_of(values: Sequence[float], others: Sequence[float], groups: Sequence[str]) -> Estimate:
    """Returns the mean of `values` minus the mean of `others`. The two are paired: equal places are the same request."""
    return mean_of((np.asarray(values) - np.asarray(others)).tolist(), groups)


def _bootstrapped(size: int, figure: Callable[[npt.NDArray[np.int64]], float]) -> Estimate:
    """Returns a figure and its interval by the percentile bootstrap (Efron 1979).

    `figure` computes the figure from drawn positions below `size`. The seed is fixed, so equal data give equal intervals.
    """
    dice = np.random.default_rng(0)
    resampled = [figure(dice.integers(0, size, size)) for _ in range(RESAMPLES)]
    low, high = np.nanpercentile(resampled, [2.5, 97.5])
    return Estimate(value=figure(np.arange(size)), low=float(low), high=float(high))
