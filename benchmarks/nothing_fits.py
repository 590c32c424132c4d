"""Fits the models that estimate whether no tool fits a request (`toolcaddie/selection/fit.py`), and measures them on labelled
sets that they were not fitted to.

python -m benchmarks.nothing_fits [--signals lexical,plain] [--write]

For each set with requests that no tool fits, the table has the AUROC, the share of these requests above the score that 2 % of the
others exceed, and both shares at the default of `selection.sure_nothing_fits`. `left out`: the model was fitted without any set
of the same tools. `--write` writes the models fitted to all sets to `toolcaddie/selection/fit.toml`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt

from benchmarks.labelled import SETS, bench_folder, selector, vectors_of
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.presets import SIGNALS, SelectionSettings
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.evaluation.datasets import read_requests, read_tools
from toolcaddie.selection.fit import LOGIT_AT_THRESHOLD, MODELS_FILE, Features, Kind, Model, Situation, models
from toolcaddie.selection.selector import Selector

KINDS: Mapping[str, Kind] = {"lexical": "words", "plain": "static", "embedding": "embedding"}
FEATURES = ("best", "words", "meaning", "covered")
SAME_TOOLS = ("toole", "toole_multi", "toole_none")
"""Sets with the same tools, which are left out together."""
FALSE = 0.02
"""Share of the requests with a right tool that may exceed a threshold."""
RIDGE = 30.0
"""Penalty of the squares of the weights, so that sets with other tools are served as well."""
MUCH = 200.0
"""Weight of the requests with a right tool of each set, and of those without one."""

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labelled:
    """The features of the requests of a set; requests that are not judged have none."""

    features: Sequence[Features | None]
    nothing: npt.NDArray[np.bool_]
    """A flag for each request: True if no tool fits it."""

    def judged(self) -> tuple[list[Features], npt.NDArray[np.bool_]]:
        places = [place for place, each in enumerate(self.features) if each is not None]
        return [each for each in self.features if each is not None], self.nothing[places]

    def fitting(self) -> list[Features]:
        """Returns the features of the requests that some tool fits."""
        features, nothing = self.judged()
        return [each for each, none in zip(features, nothing, strict=True) if not none]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The figures of a model on a set."""

    auroc: float
    caught: float
    """Share of the requests without a tool above the score that 2 % of the others exceed."""
    false: float
    """Share of the requests with a tool that are reported by default."""
    reported: float
    """Share of the requests without a tool that are reported by default."""


def read_labelled(requests: Path, with_signals: Selector) -> Labelled:
    """Returns the features of the requests in a file, to the tools in the file beside it."""
    view = View(catalog=Catalog.of(read_tools(requests.with_name("tools.jsonl")), check_schemas=False))
    read = read_requests(requests)
    return Labelled(
        features=[with_signals.features(view, SelectionQuery(messages=request.messages)) for request in read],
        nothing=np.array([not request.gold for request in read]),
    )


def fitted(sets: Mapping[str, Labelled]) -> Model:
    """Returns the model of these sets. Its weights tell the two kinds of requests of one set from each other. The threshold of a
    situation is the highest that is needed by a set of which it is the commonest situation. All are raised until they are high
    enough for each set as a whole, which may have requests in several situations."""
    both = [one.judged() for one in sets.values() if one.nothing.any()]
    weights = _within(both)
    needed: dict[Situation, list[float]] = {situation: [] for situation in get_args(Situation)}
    fitting = [fits for one in sets.values() if (fits := one.fitting())]
    for fits in fitting:
        usual = Counter(each.situation for each in fits).most_common(1)[0][0]
        needed[usual].append(float(np.quantile([_sum(weights, each) for each in fits], 1 - FALSE)))
    known = {situation: max(values) for situation, values in needed.items() if values}
    thresholds = {situation: known.get(situation, max(known.values())) for situation in needed}
    above = [[_sum(weights, each) - thresholds[each.situation] for each in fits] for fits in fitting]
    more = max(0.0, *(float(np.quantile(each, 1 - FALSE)) for each in above))
    thresholds = {situation: threshold + more for situation, threshold in thresholds.items()}
    return Model(weights=weights, thresholds=thresholds, slope=_slope(weights, thresholds, sets))


def left_out(sets: Mapping[str, Labelled], name: str) -> Model:
    """Returns the model of all sets with other tools than this one."""
    same: Collection[str] = SAME_TOOLS if name in SAME_TOOLS else (name,)
    return fitted({each: one for each, one in sets.items() if each not in same})


def result(model: Model, one: Labelled) -> Result:
    doubts = np.array([0.0 if each is None else model.doubt(each) for each in one.features])
    sure = SelectionSettings().sure_nothing_fits
    fits, others = doubts[~one.nothing], doubts[one.nothing]
    if not len(others):
        nan = math.nan
        return Result(auroc=nan, caught=nan, false=float((fits >= sure).mean()), reported=nan)
    above = (others[:, None] > fits).mean() + (others[:, None] == fits).mean() / 2
    return Result(
        auroc=float(above),
        caught=float((others > np.quantile(fits, 1 - FALSE)).mean()),
        false=float((fits >= sure).mean()),
        reported=float((others >= sure).mean()),
    )


def print_results(sets: Mapping[str, Labelled], signals: str) -> None:
    """Prints the figures of the model fitted without each set, and of the model fitted to all."""
    whole = fitted(sets)
    columns = "".join(f"{each:>9}" for each in ("AUROC", "at 2 %", "false", "caught"))
    print(f"\n{f'nothing fits, {signals}':<26}{'left out:':>10}{columns}{'fitted:':>10}{columns}")
    for name, one in sets.items():
        both = (result(left_out(sets, name), one), result(whole, one))
        print(f"{name:<26}" + "".join(f"{'':10}{_row(each)}" for each in both), flush=True)


def _row(each: Result) -> str:
    values = (f"{each.auroc:.3f}", f"{each.caught:.1%}", f"{each.false:.1%}", f"{each.reported:.1%}")
    return "".join(f"{'' if value.startswith('nan') else value:>9}" for value in values)


def _sum(weights: Sequence[float], features: Features) -> float:
    return float(np.dot(weights, features.values))


def _within(sets: Sequence[tuple[list[Features], npt.NDArray[np.bool_]]]) -> tuple[float, ...]:
    """Returns the weights of a logistic regression with an intercept of its own for each set."""
    values = np.concatenate([[each.values for each in features] for features, _ in sets])
    spread = values.std(axis=0) + 1e-9
    columns = np.zeros((len(values), len(sets)))
    columns[np.arange(len(values)), np.repeat(np.arange(len(sets)), [len(nothing) for _, nothing in sets])] = 1
    table = np.concatenate([(values - values.mean(axis=0)) / spread, columns], axis=1)
    ridge = np.array([RIDGE] * values.shape[1] + [1e-6] * len(sets))
    target = np.concatenate([nothing for _, nothing in sets]).astype(np.float64)
    found = _logistic(table, target, np.concatenate([_balanced(nothing) for _, nothing in sets]), ridge)
    return tuple((found[: values.shape[1]] / spread).tolist())


def _slope(weights: Sequence[float], thresholds: Mapping[Situation, float], sets: Mapping[str, Labelled]) -> float:
    """Returns the slope of the logit of the doubt, by the sum above the threshold."""
    above, target, balance = [], [], []
    for one in sets.values():
        if one.nothing.any():
            features, nothing = one.judged()
            above += [_sum(weights, each) - thresholds[each.situation] for each in features]
            target += nothing.tolist()
            balance += _balanced(nothing).tolist()
    table, ridge = np.array(above)[:, None], np.full(1, 1e-6)
    (slope,) = _logistic(table, np.array(target, dtype=np.float64), np.array(balance), ridge, LOGIT_AT_THRESHOLD)
    return float(slope)


def _balanced(nothing: npt.NDArray[np.bool_]) -> Doubles:
    """Returns the weight of each request, so that both kinds of requests have the same weight in all."""
    return np.where(nothing, MUCH / nothing.sum(), MUCH / (~nothing).sum())


def _logistic(table: Doubles, target: Doubles, weights: Doubles, ridge: Doubles, constant: float = 0.0) -> Doubles:
    """Returns the coefficients of a logistic regression, by Newton's method. `constant` is added to each logit."""
    coefficients = np.zeros(table.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-(table @ coefficients + constant)))
        slopes = table.T @ (weights * (chance - target)) + ridge * coefficients
        curvature = (table * (weights * chance * (1 - chance))[:, None]).T @ table + np.diag(ridge)
        step = np.linalg.solve(curvature, slopes)
        coefficients -= step
        if np.abs(step).max() < 1e-7:
            break
    return coefficients


def _write(fits: Mapping[str, Model]) -> None:
    lines = [*MODELS_FILE.read_text(encoding="utf-8").split("\n\n")[0].splitlines()] if MODELS_FILE.exists() else []
    for kind, model in fits.items():
        weights = ", ".join(f"{name} = {weight:.3f}" for name, weight in zip(FEATURES, model.weights, strict=True))
        thresholds = ", ".join(f"{name} = {value:.3f}" for name, value in model.thresholds.items())
        lines += ["", f"[{kind}]", f"weights = {{ {weights} }}", f"thresholds = {{ {thresholds} }}"]
        lines += [f"slope = {model.slope:.3f}"]
    MODELS_FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Fits and measures the models of 'nothing fits'.")
    parser.add_argument("--signals", type=lambda text: text.split(","), default=list(SIGNALS))
    parser.add_argument("--write", action="store_true", help=f"write {MODELS_FILE.name}")
    arguments = parser.parse_args()
    bench = bench_folder()
    if bench is None:
        print("skipped: no folder shared/bench beside the project; point TOOLCADDIE_SHARED at it", file=sys.stderr)
        return
    fits: dict[str, Model] = {}
    for signals in arguments.signals:
        with_signals = selector(signals, vectors_of(signals))
        requests = {name: bench / "sets" / name / "queries.dev.jsonl" for name in SETS}
        sets = {name: read_labelled(path, with_signals) for name, path in requests.items()}
        print_results(sets, signals)
        fits[KINDS[signals]] = fitted(sets)
    if arguments.write:
        _write({**models(), **fits})


if __name__ == "__main__":
    main()
