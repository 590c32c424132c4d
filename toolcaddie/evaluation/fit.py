"""Fits the weights of rankers to labelled requests, for `eval --fit`. It changes weights only as far as the gain justifies.

The search starts at the present weights, and tries a few factors for one weight after the other (coordinate search). Of all
candidates that are not clearly worse than the best one, it takes the one nearest to the start. "Clearly worse" means by more than
one standard error of the paired difference (the one-standard-error rule, Breiman et al. 1984). The gain is measured on requests
that were not used for the search, by cross-validation. Groups are never divided, because the turns of one conversation are not
independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.evaluation.metrics import Estimate, difference_of, mean_of
from toolcaddie.selection.scores import Signals, fused

Floats = npt.NDArray[np.float32]
Weights = Mapping[str, float]

FACTORS = (0.0, 0.25, 0.5, 0.7, 1.4, 2.0, 4.0)
"""Factors by which the search multiplies each start weight; it also tries the start weight itself."""

FOLDS = 5
"""Number of parts of the cross-validation."""
PASSES = 2
"""Largest number of times that the search goes through all weights."""
DEPTHS = (1, 3, 5, 10)
"""The search maximises the mean of recall at these numbers of places. Recall at one number alone would not show most changes."""

TOP_TOOLS = 64
"""Number of each ranker's best tools that a case contains. Other tools never get to the top, so a case omits them."""

_FAR = 4.0
"""Distance from the start weight to 0. Other distances are counted in doublings: twice or half the start weight has distance
1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One labelled request, reduced to the tools that can get to the top and the right tools."""

    signals: Mapping[str, Floats]
    """For each ranker, an array with one score for each tool."""
    own: Mapping[str, float]
    """Weights for this request, of rankers that set their own weight."""
    gold: frozenset[int]
    """Places of the right tools in the arrays."""
    missing: int
    """Number of right tools that the catalog lacks."""
    group: str
    """Name of the group; requests of one group are not independent."""


Fuse = Callable[[Case, Weights], Floats]
"""Combines the scores of all rankers under the weights: returns one score for each tool of the case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The result of a fit, whether it is worth using or not; see `recommended`."""

    start: Weights
    """Weights at which the search began."""
    weights: Weights
    """Weights fitted to all requests."""
    before: Estimate
    """Mean recall over `DEPTHS` with `start`."""
    after: Estimate
    """Mean recall over `DEPTHS` on requests that the weights were not fitted to."""
    gain: Estimate
    """Paired difference of `after` and `before`."""
    recall: Estimate
    """Paired difference of the recall at 5, also on requests that the weights were not fitted to."""
    requests: int
    folds: int

    @property
    def recommended(self) -> bool:
        """True if the weights differ from `start` and their gain is beyond chance."""
        return dict(self.weights) != dict(self.start) and self.gain.low > 0


def fitted(
    cases: Sequence[Case],
    fuse: Fuse,
    start: Weights,
    *,
    folds: int = FOLDS,
    on_progress: Callable[[int], None] = lambda count: None,
) -> Fitted:
    """Fits weights. `start` has a weight for every ranker; a weight of 0 stays 0.

    `on_progress` gets the number of candidates evaluated so far. Raises `ValueError` if there are fewer groups than folds.
    """
    groups = [case.group for case in cases]
    names = sorted(set(groups))
    if len(names) < folds:
        raise ValueError(f"{len(names)} independent requests are too few to fit weights; at least {folds} are needed")
    search = _Search(cases, fuse, start, on_progress)
    dice = np.random.default_rng(0)
    fold_of = dict(zip(dice.permutation(np.array(names, dtype=object)).tolist(), range(len(names)), strict=True))
    fold = np.array([fold_of[group] % folds for group in groups])
    unseen, unseen_recall = np.zeros(len(cases)), np.zeros(len(cases))
    for number in range(folds):
        weights_of_fold = search.best(fold != number)
        in_fold = fold == number
        unseen[in_fold], unseen_recall[in_fold] = (
            search.values(weights_of_fold)[in_fold],
            search.recalls(weights_of_fold)[in_fold],
        )
    before, recall_before = search.values(start), search.recalls(start)
    return Fitted(
        start=dict(start),
        weights=search.best(np.ones(len(cases), dtype=np.bool_)),
        before=mean_of(before.tolist(), groups),
        after=mean_of(unseen.tolist(), groups),
        gain=difference_of(unseen.tolist(), before.tolist(), groups),
        recall=difference_of(unseen_recall.tolist(), recall_before.tolist(), groups),
        requests=len(cases),
        folds=folds,
    )


class _Search:
    """The search for weights. It computes the recall of a candidate once for all requests; each fold reads its own rows of
    that."""

    def __init__(self, cases: Sequence[Case], fuse: Fuse, start: Weights, on_progress: Callable[[int], None]) -> None:
        self._cases = cases
        self._fuse = fuse
        self._start = dict(start)
        self._on_progress = on_progress
        self._free = [name for name in self._start if self._start[name] > 0]
        self._recalls_of: dict[tuple[float, ...], npt.NDArray[np.float64]] = {}
        _, self._group = np.unique(np.array([case.group for case in cases]), return_inverse=True)

    def values(self, weights: Weights) -> npt.NDArray[np.float64]:
        """Returns for each request the mean of its recall over `DEPTHS`."""
        means: npt.NDArray[np.float64] = self._recalls(weights).mean(axis=1)
        return means

    def recalls(self, weights: Weights) -> npt.NDArray[np.float64]:
        """Returns recall@5 of each request."""
        return self._recalls(weights)[:, DEPTHS.index(5)]

    def best(self, rows: npt.NDArray[np.bool_]) -> dict[str, float]:
        """Returns the weights nearest to the start that are not clearly worse than the best ones. `rows`: the requests that
        count."""
        # First candidates in which one weight differs, so that of two changes with equal effect the smaller one is a candidate.
        candidates = [
            dict(self._start),
            *(weights for name in self._free for weights in self._around(self._start, name)),
        ]

        def goodness(weights: Weights) -> float:
            return float(self.values(weights)[rows].mean())

        best = max(candidates, key=goodness)
        for _ in range(PASSES):
            before = best
            for name in self._free:
                around = self._around(best, name)
                candidates.extend(around)
                best = max((best, *around), key=goodness)
            if best == before:
                break
        top = self.values(best)
        near = [weights for weights in candidates if self._near(top - self.values(weights), rows)]
        return min(near, key=self._distance, default=best)

    def _around(self, weights: Weights, name: str) -> list[dict[str, float]]:
        return [{**weights, name: self._start[name] * factor} for factor in (*FACTORS, 1.0)]

    def _near(self, behind: npt.NDArray[np.float64], rows: npt.NDArray[np.bool_]) -> bool:
        """Returns True if the mean of `behind` is at most its standard error. The error is that of a sample of groups."""
        mean = float(behind[rows].mean())
        apart = np.bincount(self._group[rows], weights=behind[rows] - mean)
        error = math.sqrt(float((apart**2).sum())) / int(rows.sum())
        return mean <= error

    def _distance(self, weights: Weights) -> float:
        return sum(self._doublings(weights[name] / self._start[name]) for name in self._free)

    @staticmethod
    def _doublings(factor: float) -> float:
        return abs(math.log2(factor)) if factor > 0 else _FAR

    def _recalls(self, weights: Weights) -> npt.NDArray[np.float64]:
        """Returns the recall of each request at each of `DEPTHS`."""
        key = tuple(weights[name] for name in self._start)
        if key not in self._recalls_of:
            self._recalls_of[key] = np.array([_recalls(case, self._fuse(case, weights)) for case in self._cases])
            self._on_progress(len(self._recalls_of))
        return self._recalls_of[key]


def _recalls(case: Case, scores: Floats) -> list[float]:
    order = np.argsort(-scores, kind="stable")[: max(DEPTHS)]
    hits = [int(place) in case.gold and scores[place] > 0 for place in order]
    total = len(case.gold) + case.missing
    return [sum(hits[:depth]) / total for depth in DEPTHS]


def signals_of_case(case: Case) -> Signals:
    """Returns the case in the form that `selection.scores.fused` takes."""
    return Signals(by_ranker=case.signals, own_weights=case.own, matched=True)


def by_selection(case: Case, weights: Weights) -> Floats:
    """Combines the scores as selection does. It is a `Fuse`."""
    return fused(signals_of_case(case), weights).scores


def case_of(
    signals: Mapping[str, Floats], own: Mapping[str, float], gold: Sequence[int], missing: int, group: str
) -> Case:
    """Returns a case from scores over the whole catalog, reduced to the tools that can get to the top and the right tools.

    `own`: weights of this request, of rankers that set their own. `gold`: positions of the right tools in the catalog. `missing`:
    number of right tools that the catalog lacks.
    """
    columns = set(gold)
    for signal in signals.values():
        best = np.argpartition(-signal, TOP_TOOLS)[:TOP_TOOLS] if len(signal) > TOP_TOOLS else np.arange(len(signal))
        columns.update(place for place in best.tolist() if signal[place] > 0)
    positions = np.array(sorted(columns), dtype=np.int64)
    return Case(
        signals={name: signal[positions] for name, signal in signals.items()},
        own=dict(own),
        gold=frozenset(np.flatnonzero(np.isin(positions, list(gold))).tolist()),
        missing=missing,
        group=group,
    )


def fragment(weights: Weights) -> str:
    """Returns the weights as a table of a settings file."""
    return "\n".join(["[selection.weights]", *(f"{name} = {weight:.4g}" for name, weight in weights.items())]) + "\n"
