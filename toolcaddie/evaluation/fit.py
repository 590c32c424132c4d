"""Fits the weights of rankers to labelled requests, moving them only as far as the gain justifies.

Weights are sought one after the other on a small grid (coordinate search) around the shipped ones. Among all candidates that
are not clearly worse than the best, the one nearest to the shipped weights is returned. Clearly worse: by more than one standard
error of the paired difference (Breiman et al. 1984, the one-standard-error rule). The gain is measured on unseen requests, by
cross-validation over whole groups, so that the turns of one conversation are never on both sides.
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
"""Factors that a weight may be multiplied by, besides 1."""

FOLDS = 5
PASSES = 2
DEPTHS = (1, 3, 5, 10)
"""Depths of the recall whose mean is maximised: a single depth would not notice most changes."""

TOP_TOOLS = 64
"""Number of each ranker's best tools that a case contains; a tool below that in every ranking never gets to the top."""

_FAR = 4.0
"""Distance of a weight of 0, in doublings."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One request: the scores of each ranker for the tools that matter, and the right tools among them."""

    signals: Mapping[str, Floats]
    """Scores by ranker, one number per tool."""
    own: Mapping[str, float]
    """Weights of this request, for rankers that set their own."""
    gold: frozenset[int]
    """Places of the right tools in the arrays."""
    missing: int
    """Right tools that no array contains."""
    group: str


Fuse = Callable[[Case, Weights], Floats]
"""Returns one score for each tool of the case, from its signals and the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Weights fitted to the requests if they beat the shipped ones, else the shipped ones."""

    start: Weights
    weights: Weights
    """Weights fitted to all requests."""
    before: Estimate
    """Mean recall over `DEPTHS` with `start`."""
    after: Estimate
    """Mean recall over `DEPTHS` on requests that the weights were not fitted to."""
    gain: Estimate
    """Their paired difference."""
    recall: Estimate
    """Paired difference in recall@5."""
    requests: int
    folds: int

    @property
    def recommended(self) -> bool:
        """True if the weights differ from the shipped ones and gain, beyond chance, on requests they were not fitted to."""
        return dict(self.weights) != dict(self.start) and self.gain.low > 0


def fitted(
    cases: Sequence[Case],
    fuse: Fuse,
    start: Weights,
    *,
    folds: int = FOLDS,
    on_progress: Callable[[int], None] = lambda count: None,
) -> Fitted:
    """Fits weights, beginning with `start`, which has one for every ranker; a weight of 0 stays 0.

    `on_progress` gets the number of evaluated weights. Raises `ValueError` if there are fewer groups than folds.
    """
    groups = [case.group for case in cases]
    names = sorted(set(groups))
    if len(names) < folds:
        raise ValueError(f"{len(names)} independent requests are too few to fit anything; {folds} are the least")
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
    """Evaluates each candidate once for all folds: it caches the recall of all requests, and a fold reads its own rows."""

    def __init__(self, cases: Sequence[Case], fuse: Fuse, start: Weights, on_progress: Callable[[int], None]) -> None:
        self._cases = cases
        self._fuse = fuse
        self._start = dict(start)
        self._on_progress = on_progress
        self._free = [name for name in self._start if self._start[name] > 0]
        self._recalls_of: dict[tuple[float, ...], npt.NDArray[np.float64]] = {}
        _, self._group = np.unique(np.array([case.group for case in cases]), return_inverse=True)

    def values(self, weights: Weights) -> npt.NDArray[np.float64]:
        means: npt.NDArray[np.float64] = self._recalls(weights).mean(axis=1)
        return means

    def recalls(self, weights: Weights) -> npt.NDArray[np.float64]:
        """Returns recall@5 of each request."""
        return self._recalls(weights)[:, DEPTHS.index(5)]

    def best(self, rows: npt.NDArray[np.bool_]) -> dict[str, float]:
        """Returns the weights nearest to the start that are not clearly worse than the best on these requests."""
        # First each weight alone: of two changes with the same effect, the smaller one must be a candidate.
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
        """True if the mean is within one standard error of 0, with groups as the sampling unit."""
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
    """Returns the case in the form that the selection's own fusion takes."""
    return Signals(by_ranker=case.signals, own_weights=case.own, matched=True)


def by_selection(case: Case, weights: Weights) -> Floats:
    """Fuses the signals as selection does; a `Fuse`."""
    return fused(signals_of_case(case), weights).scores


def case_of(
    signals: Mapping[str, Floats], own: Mapping[str, float], gold: Sequence[int], missing: int, group: str
) -> Case:
    """Returns a case from signals over the whole catalog, reduced to the columns that matter."""
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
