"""Measures any ranking function on labelled requests: recall and other figures, detection of "nothing fits", and latency.

Benchmarks use it. The command `toolcaddie eval` uses `assess`, which has the same figures and keeps the outcome of each request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from toolcaddie.core.catalog import View
from toolcaddie.core.selection import Budget, SelectionQuery
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.evaluation.metrics import Estimate, auroc_of, complete, mean_of, ndcg, recall
from toolcaddie.selection.selector import Selector

DEPTH = 20
"""Number of places of a ranking that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The ranking for one request."""

    names: Sequence[str]
    """Names of tools, the best first."""
    fit: float = 0.0
    """A number on any scale that is higher the better the first tool fits."""


Rank = Callable[[LabelledRequest], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The figures of one configuration."""

    requests: int
    metrics: Mapping[str, Estimate]
    """Means of `FIGURES` by name, over the requests that some tool fits."""
    no_fit: Estimate | None
    """AUROC with which `Answer.fit` separates requests that some tool fits from the others. None: there are no others."""
    latency_ms: Mapping[str, float]
    """Wall-clock time of a ranking, as `p50` and `p99`."""


def measure(rank: Rank, requests: Sequence[LabelledRequest]) -> Measured:
    """Calls `rank` once for each request, and returns the figures. Raises `ValueError` if no request has a right tool."""
    answers, seconds = [], []
    for request in requests:
        started = time.perf_counter()
        answers.append(rank(request))
        seconds.append(time.perf_counter() - started)
    fitting = [(answer, request) for answer, request in zip(answers, requests, strict=True) if request.gold]
    if not fitting:
        raise ValueError("no request has a right tool; label some before measuring")
    fits = [bool(request.gold) for request in requests]
    return Measured(
        requests=len(requests),
        metrics={name: _over(fitting, figure) for name, figure in FIGURES.items()},
        no_fit=None if all(fits) else auroc_of([answer.fit for answer in answers], fits),
        latency_ms=percentiles([1e3 * value for value in seconds]),
    )


def ranking_of(selector: Selector, view: View) -> Rank:
    """Returns a function that ranks the tools of a view with a selector, without regard to a budget."""

    def rank(request: LabelledRequest) -> Answer:
        ranked = selector.ranked(view, SelectionQuery(messages=request.messages), DEPTH)
        fit = ranked.fit if ranked.doubt is None else 1 - ranked.doubt
        return Answer(names=[entry.tool.name for entry in ranked.tools], fit=fit)

    return rank


def selection_of(selector: Selector, view: View, budget: Budget) -> Rank:
    """Returns a function that selects tools under a budget, to measure its latency. The ranking is the order of sending."""

    def rank(request: LabelledRequest) -> Answer:
        selection = selector.select(view, SelectionQuery(messages=request.messages, expandable=True), budget)
        return Answer(names=selection.names, fit=float(not selection.no_match))

    return rank


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Returns the median and the 99th percentile."""
    ordered = sorted(values)
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)]}


Figure = Callable[[Sequence[str], frozenset[str]], float]


def _at(figure: Callable[[Sequence[str], frozenset[str], int], float], k: int) -> Figure:
    return lambda names, gold: figure(names, gold, k)


FIGURES: Mapping[str, Figure] = {
    **{f"recall@{k}": _at(recall, k) for k in (1, 2, 3, 4, 5, 10, 20)},
    **{f"complete@{k}": _at(complete, k) for k in (1, 5, 10)},
    "ndcg@10": _at(ndcg, 10),
}
"""Figures from 0 to 1 by name. Each is a function of the ranked names, the best first, and the names of the right tools."""


def _over(pairs: Sequence[tuple[Answer, LabelledRequest]], figure: Figure) -> Estimate:
    values = [figure(answer.names, request.gold) for answer, request in pairs]
    return mean_of(values, [request.group for _, request in pairs])
