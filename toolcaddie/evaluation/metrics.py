"""Figures of merit of a ranking, and how sure they are."""

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
    """A mean over requests and the interval that holds 95 % of its bootstrap resamples."""

    value: float
    low: float
    high: float


def recall(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """The share of the right tools among the first k."""
    return len(set(ranked[:k]) & set(gold)) / len(gold)


def complete(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 if all right tools are among the first k, else 0."""
    return float(set(gold) <= set(ranked[:k]))


def ndcg(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain (Järvelin and Kekäläinen 2002), a right tool being worth 1."""
    gained = sum(1 / math.log2(place + 2) for place, name in enumerate(ranked[:k]) if name in gold)
    return gained / sum(1 / math.log2(place + 2) for place in range(min(len(gold), k)))


def auroc(positive: Floats, negative: Floats) -> float:
    """Share of pairs in which a positive value is above a negative one, equals counting half (Mann and Whitney's U)."""
    below = np.searchsorted(np.sort(negative), positive, side="left")
    up_to = np.searchsorted(np.sort(negative), positive, side="right")
    return float((below + up_to).sum() / 2 / (len(positive) * len(negative)))


def mean_of(values: Sequence[float], groups: Sequence[str]) -> Estimate:
    """The mean and its interval, groups being drawn whole: the turns of one conversation are no independent witnesses."""
    _, member = np.unique(np.asarray(groups), return_inverse=True)
    sums = np.bincount(member, weights=values)
    counts = np.bincount(member)
    return _bootstrapped(len(sums), lambda drawn: float(sums[drawn].sum() / counts[drawn].sum()))


def auroc_of(values: Sequence[float], fits: Sequence[bool]) -> Estimate:
    """Separation by a value of requests that some tool fits from those that none fits."""
    scores, truth = np.asarray(values, dtype=np.float64), np.asarray(fits, dtype=np.bool_)

    def drawn_auroc(drawn: npt.NDArray[np.int64]) -> float:
        some, label = scores[drawn], truth[drawn]
        return auroc(some[label], some[~label]) if label.any() and not label.all() else math.nan

    return _bootstrapped(len(scores), drawn_auroc)


def quantile_of(values: Sequence[float], share: float) -> Estimate:
    """The value that this share of all are not above; one of the values."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    place = min(int(len(ordered) * share), len(ordered) - 1)
    # The rank of a resample's quantile: drawing ranks and sorting them gives the same as sorting what was drawn.
    return _bootstrapped(len(ordered), lambda drawn: float(ordered[np.partition(drawn, place)[place]]))


def difference_of(values: Sequence[float], others: Sequence[float], groups: Sequence[str]) -> Estimate:
    """Difference of the means of `values` and `others`, which are of the same requests, one by one."""
    return mean_of((np.asarray(values) - np.asarray(others)).tolist(), groups)


def _bootstrapped(size: int, figure: Callable[[npt.NDArray[np.int64]], float]) -> Estimate:
    """Percentile bootstrap (Efron 1979) with a fixed seed: the same data give the same interval."""
    dice = np.random.default_rng(0)
    resampled = [figure(dice.integers(0, size, size)) for _ in range(RESAMPLES)]
    low, high = np.nanpercentile(resampled, [2.5, 97.5])
    return Estimate(value=figure(np.arange(size)), low=float(low), high=float(high))
