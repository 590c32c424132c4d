"""Figures of merit of a ranking, with their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RESAMPLES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure over requests and the interval of 95 % of its bootstrap resamples."""

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
    """Returns the normalised discounted cumulative gain (Järvelin and Kekäläinen 2002); a right tool is worth 1."""
    gained = sum(1 / math.log2(place + 2) for place, name in enumerate(ranked[:k]) if name in gold)
    return gained / sum(1 / math.log2(place + 2) for place in range(min(len(gold), k)))


def auroc(positive: Floats, negative: Floats) -> float:
    """Returns the share of pairs whose positive value is above the negative one, ties as half (Mann and Whitney's U)."""
    below = np.searchsorted(np.sort(negative), positive, side="left")
    up_to = np.searchsorted(np.sort(negative), positive, side="right")
    return float((below + up_to).sum() / 2 / (len(positive) * len(negative)))


def mean_of(values: Sequence[float], groups: Sequence[str]) -> Estimate:
    """Returns the mean and its interval. Groups are drawn whole, because the turns of a conversation are not independent."""
    _, member = np.unique(np.asarray(groups), return_inverse=True)
    sums = np.bincount(member, weights=values)
    sizes = np.bincount(member)
    return _bootstrapped(len(sums), lambda draw: float(sums[draw].sum() / sizes[draw].sum()))


def auroc_of(values: Sequence[float], fits: Sequence[bool]) -> Estimate:
    """Returns the AUROC of a value that separates requests with a fitting tool from those without."""
    scores, truth = np.asarray(values, dtype=np.float64), np.asarray(fits, dtype=np.bool_)

    def auroc_of_draw(draw: npt.NDArray[np.int64]) -> float:
        sample, label = scores[draw], truth[draw]
        return auroc(sample[label], sample[~label]) if label.any() and not label.all() else math.nan

    return _bootstrapped(len(scores), auroc_of_draw)


def quantile_of(values: Sequence[float], share: float) -> Estimate:
    """Returns a quantile of the values and its interval; it is one of the values."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    place = min(int(len(ordered) * share), len(ordered) - 1)
    # Ranks are drawn instead of values: the quantile of the drawn ranks is the rank of the drawn values' quantile.
    return _bootstrapped(len(ordered), lambda draw: float(ordered[np.partition(draw, place)[place]]))


def difference_of(values: Sequence[float], others: Sequence[float], groups: Sequence[str]) -> Estimate:
    """Returns the difference of the means of `values` and `others`, which are paired by request."""
    return mean_of((np.asarray(values) - np.asarray(others)).tolist(), groups)


def _bootstrapped(size: int, figure: Callable[[npt.NDArray[np.int64]], float]) -> Estimate:
    """Returns a figure with its percentile bootstrap (Efron 1979). The seed is fixed: equal data give equal intervals."""
    dice = np.random.default_rng(0)
    resampled = [figure(dice.integers(0, size, size)) for _ in range(RESAMPLES)]
    low, high = np.nanpercentile(resampled, [2.5, 97.5])
    return Estimate(value=figure(np.arange(size)), low=float(low), high=float(high))
