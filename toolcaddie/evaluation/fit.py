"""Weights of rankers, fitted to one's own requests: a few numbers, moved only as far as they earn it.

Weights are sought one after the other on a small grid (coordinate search) around those that ship. Of all weights looked at, the
ones nearest to those that ship are taken that are not clearly worse than the best: one standard error of the paired difference
(Breiman et al. 1984, the one-standard-error rule). What that gains is measured on requests that it did not see: cross-validation
over whole groups, so that the turns of one conversation are never on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from toolcaddie.evaluation.metrics import Estimate, difference_of, mean_of
from toolcaddie.selection.scores import Said, fused

Floats = npt.NDArray[np.float32]
Weights = Mapping[str, float]

FACTORS = (0.0, 0.25, 0.5, 0.7, 1.4, 2.0, 4.0)
"""Factors that a weight may be multiplied with, beside 1."""

FOLDS = 5
PASSES = 2
DEPTHS = (1, 3, 5, 10)
"""The mean of recall at these depths is maximised: one depth alone would be blind to most changes."""

KEPT = 64
"""Of each ranker's tools the best of a request; what none of them puts that high never comes to the top."""

_FAR = 4.0
"""Distance of omitting a ranker, in doublings."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """A request: what each ranker said of the tools worth looking at, and which of these are right."""

    signals: Mapping[str, Floats]
    """By ranker, one number a tool."""
    own: Mapping[str, float] = field(default_factory=dict)
    """Weights that rankers which weigh themselves chose in this request."""
    gold: frozenset[int]
    """Places of the right tools in the arrays."""
    missing: int = 0
    """Right tools that no array holds."""
    group: str


Fuse = Callable[[Case, Weights], Floats]
"""One score a tool of the case, from its signals and the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Weights that suit the requests better than those that ship, or those that ship."""

    start: Weights
    weights: Weights
    """Found on all requests."""
    before: Estimate
    """Mean recall over `DEPTHS` with `start`."""
    after: Estimate
    """The same on requests that the weights were not found on."""
    gain: Estimate
    """Their paired difference."""
    recall: Estimate
    """The gain in recall@5, likewise."""
    requests: int
    folds: int

    @property
    def recommended(self) -> bool:
        """True if the weights differ from those that ship and gain, beyond chance, on requests they were not fitted to."""
        return dict(self.weights) != dict(self.start) and self.gain.low > 0


def fitted(
    cases: Sequence[Case],
    fuse: Fuse,
    start: Weights,
    *,
    folds: int = FOLDS,
    done: Callable[[int], None] = lambda looked_at: None,
) -> Fitted:
    """`start` has a weight for every ranker; one of 0 stays. `done` is told how many weights were looked at.

    Raises `ValueError` where there are fewer groups than folds.
    """
    groups = [case.group for case in cases]
    names = sorted(set(groups))
    if len(names) < folds:
        raise ValueError(f"{len(names)} independent requests are too few to fit anything; {folds} are the least")
    search = _Search(cases, fuse, start, done)
    dice = np.random.default_rng(0)
    fold_of = dict(zip(dice.permutation(np.array(names, dtype=object)).tolist(), range(len(names)), strict=True))
    fold = np.array([fold_of[group] % folds for group in groups])
    unseen, unseen_recall = np.zeros(len(cases)), np.zeros(len(cases))
    for number in range(folds):
        weights_of_fold = search.best(fold != number)
        held = fold == number
        unseen[held], unseen_recall[held] = search.values(weights_of_fold)[held], search.recalls(weights_of_fold)[held]
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
    """Every weights looked at, once for all folds: the values of all requests are kept, a fold takes its own."""

    def __init__(self, cases: Sequence[Case], fuse: Fuse, start: Weights, done: Callable[[int], None]) -> None:
        self._cases = cases
        self._fuse = fuse
        self._start = dict(start)
        self._done = done
        self._free = [name for name in self._start if self._start[name] > 0]
        self._known: dict[tuple[float, ...], npt.NDArray[np.float64]] = {}
        _, self._group = np.unique(np.array([case.group for case in cases]), return_inverse=True)

    def values(self, weights: Weights) -> npt.NDArray[np.float64]:
        means: npt.NDArray[np.float64] = self._recalls(weights).mean(axis=1)
        return means

    def recalls(self, weights: Weights) -> npt.NDArray[np.float64]:
        """Recall@5."""
        return self._recalls(weights)[:, DEPTHS.index(5)]

    def best(self, rows: npt.NDArray[np.bool_]) -> dict[str, float]:
        """The weights nearest to the start that are not clearly worse than the best on these requests."""
        # First every weight by itself: of two changes that do the same, the smaller one must have been looked at.
        tried = [dict(self._start), *(each for name in self._free for each in self._around(self._start, name))]

        def goodness(weights: Weights) -> float:
            return float(self.values(weights)[rows].mean())

        best = max(tried, key=goodness)
        for _ in range(PASSES):
            before = best
            for name in self._free:
                around = self._around(best, name)
                tried.extend(around)
                best = max((best, *around), key=goodness)
            if best == before:
                break
        top = self.values(best)
        near = [each for each in tried if self._near(top - self.values(each), rows)]
        return min(near, key=self._distance, default=best)

    def _around(self, weights: Weights, name: str) -> list[dict[str, float]]:
        return [{**weights, name: self._start[name] * factor} for factor in (*FACTORS, 1.0)]

    def _near(self, behind: npt.NDArray[np.float64], rows: npt.NDArray[np.bool_]) -> bool:
        """True if a mean is within a standard error of 0, groups being drawn whole."""
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
        """[requests, DEPTHS]"""
        key = tuple(weights[name] for name in self._start)
        if key not in self._known:
            self._known[key] = np.array([_recalls(case, self._fuse(case, weights)) for case in self._cases])
            self._done(len(self._known))
        return self._known[key]


def _recalls(case: Case, scores: Floats) -> list[float]:
    order = np.argsort(-scores, kind="stable")[: max(DEPTHS)]
    hits = [int(place) in case.gold and scores[place] > 0 for place in order]
    total = len(case.gold) + case.missing
    return [sum(hits[:depth]) / total for depth in DEPTHS]


def said_of(case: Case) -> Said:
    """The case as the selection's own fusion takes it."""
    return Said(signals=case.signals, own=case.own, matched=True)


def by_selection(case: Case, weights: Weights) -> Floats:
    """A `Fuse`: as selection does it."""
    return fused(said_of(case), weights).scores


def case_of(
    signals: Mapping[str, Floats], own: Mapping[str, float], gold: Sequence[int], missing: int, group: str
) -> Case:
    """A case of signals over the whole catalog, with the columns that matter."""
    columns = set(gold)
    for signal in signals.values():
        best = np.argpartition(-signal, KEPT)[:KEPT] if len(signal) > KEPT else np.arange(len(signal))
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
    """The weights as a piece of a settings file."""
    return "\n".join(["[selection.weights]", *(f"{name} = {weight:.4g}" for name, weight in weights.items())]) + "\n"
