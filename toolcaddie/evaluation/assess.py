"""Measures one configuration on labelled requests, for `toolcaddie eval`: its ranking, the tools it sends, and its costs.

It also measures whether the configuration notices that no tool fits a request ("nothing fits"). The result has the outcome of
each request, so that two configurations can be compared request by request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.message import Message
from toolcaddie.core.schema import definition_tokens
from toolcaddie.core.selection import Selection
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.evaluation.floor import FittedFloor, fitted_floor
from toolcaddie.evaluation.measure import DEPTH, FIGURES, Figure
from toolcaddie.evaluation.metrics import Estimate, auroc_of, difference_of, mean_of, quantile_of, recall
from toolcaddie.selection.search import Ranked

SENT_FIGURES = {
    "recall@sent": lambda names, gold: len(gold.intersection(names)) / len(gold),
    "complete@sent": lambda names, gold: float(gold <= set(names)),
}
"""Figures of the tools that are sent under the budget. Their order does not count."""


class Finder(Protocol):
    """The configuration under test: a selector with its preset over one catalog."""

    @property
    def name(self) -> str: ...
    @property
    def catalog(self) -> Catalog: ...
    def select(self, messages: Sequence[Message]) -> Selection:
        """Selects the tools that a request carries."""
        ...

    def ranked(self, messages: Sequence[Message], limit: int) -> Ranked:
        """Ranks the tools without regard to the budget."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The ranking and the selection for one request."""

    names: tuple[str, ...]
    """Names of at most `DEPTH` ranked tools, the best first."""
    fit: float
    """Fit of the best tool; a higher number is a better fit."""
    nothing: bool
    """True if the selection says that no tool fits, or if no tool was ranked."""
    sent_names: tuple[str, ...]
    """Names of the tools that the selection sends under the budget."""
    tokens: int
    """Tokens of the definitions sent, without meta tools."""
    seconds: float
    """Duration of the selection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoFit:
    """Figures that show how well a configuration notices that no tool fits. Each is None if the requests cannot show it."""

    auroc: Estimate | None
    """Probability that a request that some tool fits has a higher fit than a request that no tool fits."""
    false_nothing: Estimate | None
    """Share of the requests with a fitting tool for which the configuration says "nothing fits"."""
    caught: Estimate | None
    """Share of the requests without a fitting tool for which the configuration says "nothing fits"."""


@dataclass(frozen=True, kw_only=True)
class Assessed:
    """The outcomes of one configuration, one for each request, and the figures computed from them."""

    name: str
    catalog: Catalog
    requests: tuple[LabelledRequest, ...]
    outcomes: tuple[Outcome, ...]

    @cached_property
    def metrics(self) -> Mapping[str, Estimate]:
        """Means of `FIGURES` and `SENT_FIGURES` by name, over the requests that some tool fits."""
        groups = [request.group for request in self.fitting]
        return {name: mean_of(self.values(name), groups) for name in (*FIGURES, *SENT_FIGURES)}

    def floor(self) -> FittedFloor | None:
        """Returns the floor (the `fit` below which the answer is "nothing fits") fitted to these requests; None: there are too
        few requests."""
        served = [bool(request.gold) for request in self.requests]
        return fitted_floor(
            [outcome.fit for outcome in self.outcomes], served, [request.group for request in self.requests]
        )

    @cached_property
    def no_fit(self) -> NoFit:
        """Returns the figures of "nothing fits": how well the fit of the best tool separates requests that some tool fits from
        the others."""
        fits = [bool(request.gold) for request in self.requests]
        values = [float(outcome.nothing) for outcome in self.outcomes]
        groups = [request.group for request in self.requests]

        def share(fits_some: bool) -> Estimate | None:
            places = [i for i, fit in enumerate(fits) if fit is fits_some]
            return mean_of([values[i] for i in places], [groups[i] for i in places]) if places else None

        mixed = any(fits) and not all(fits)
        return NoFit(
            auroc=auroc_of([outcome.fit for outcome in self.outcomes], fits) if mixed else None,
            false_nothing=share(True),
            caught=share(False),
        )

    @cached_property
    def latency_ms(self) -> Mapping[str, Estimate]:
        """Wall-clock time of a selection, as `p50` and `p99`."""
        times = [1e3 * outcome.seconds for outcome in self.outcomes]
        return {"p50": quantile_of(times, 0.5), "p99": quantile_of(times, 0.99)}

    @cached_property
    def tokens(self) -> Estimate:
        """Tokens of the definitions that are sent: the mean over all requests."""
        return mean_of(
            [float(outcome.tokens) for outcome in self.outcomes], [request.group for request in self.requests]
        )

    @cached_property
    def tokens_all(self) -> int:
        """Tokens of all definitions of the catalog together."""
        return definition_tokens(self.catalog)

    @property
    def fitting(self) -> tuple[LabelledRequest, ...]:
        """The requests that some tool fits."""
        return tuple(request for request in self.requests if request.gold)

    def values(self, metric: str) -> list[float]:
        """Returns one value for each request of `fitting`. Raises `KeyError` for a name that is not a metric."""
        if metric in SENT_FIGURES:
            return [
                SENT_FIGURES[metric](outcome.sent_names, request.gold) for outcome, request in self._fitting_pairs()
            ]
        figure = figure_of(metric)
        return [figure(outcome.names, request.gold) for outcome, request in self._fitting_pairs()]

    def recall_curve(self) -> list[Estimate]:
        """Returns the recall at 1, 2, ... `DEPTH` places."""
        groups = [request.group for request in self.fitting]
        return [
            mean_of([recall(outcome.names, request.gold, k) for outcome, request in self._fitting_pairs()], groups)
            for k in range(1, DEPTH + 1)
        ]

    def tokens_curve(self) -> list[float]:
        """Returns the tokens that the definitions of the first 1, 2, ... `DEPTH` tools take: each is a mean over the requests."""
        cost = {tool.name: definition_tokens((tool,)) for tool in self.catalog}
        rows = np.zeros((len(self.outcomes), DEPTH))
        for row, outcome in zip(rows, self.outcomes, strict=True):
            row[: len(outcome.names)] = [cost.get(name, 0) for name in outcome.names]
        means: list[float] = rows.cumsum(axis=1).mean(axis=0).tolist()
        return means

    def roc(self) -> list[tuple[float, float]]:
        """Returns the ROC curve of "nothing fits", with a point for each possible floor. Empty if some tool fits every
        request, or if none fits any.

        A point has two shares for which that floor says "nothing fits": of the requests that some tool fits, and of the others.
        """
        fits = np.array([bool(request.gold) for request in self.requests])
        if fits.all() or not fits.any():
            return []
        values = np.array([outcome.fit for outcome in self.outcomes])
        bars = [-np.inf, *np.unique(values).tolist(), np.inf]
        return [(float((values[fits] < bar).mean()), float((values[~fits] < bar).mean())) for bar in bars]

    def by_category(self) -> dict[str, tuple[int, Estimate]]:
        """Returns for each category the number of requests and their recall@5. The category with the most requests is first.

        A request counts for one category: that of the first of its right tools in the order of the catalog.
        """
        return self._by(lambda request: self._category(request.gold))

    def by_kind(self) -> dict[str, tuple[int, Estimate]]:
        """Returns for each kind of request the number of requests and their recall@5. The kind with the most requests is
        first."""
        return self._by(_kind)

    def misses(self, limit: int) -> Iterator[tuple[LabelledRequest, Outcome]]:
        """Yields at most `limit` requests with a recall@5 below 1, the worst first: ordered by recall@5, then by `ndcg@10`."""

        def badness(pair: tuple[Outcome, LabelledRequest]) -> tuple[float, float]:
            outcome, request = pair
            return recall(outcome.names, request.gold, 5), FIGURES["ndcg@10"](outcome.names, request.gold)

        worst = sorted(self._fitting_pairs(), key=badness)[:limit]
        return ((request, outcome) for outcome, request in worst if recall(outcome.names, request.gold, 5) < 1)

    def _fitting_pairs(self) -> list[tuple[Outcome, LabelledRequest]]:
        return [pair for pair in zip(self.outcomes, self.requests, strict=True) if pair[1].gold]

    def _category(self, gold: frozenset[str]) -> str:
        places = sorted(place for name in gold if (place := self.catalog.position(name)) is not None)
        return (self.catalog.tools[places[0]].category if places else None) or ""

    def _by(self, kind: Callable[[LabelledRequest], str]) -> dict[str, tuple[int, Estimate]]:
        """Returns for each kind of request the number of requests and their recall@5, the most frequent kind first. `kind`
        returns the kind of a request."""
        members: dict[str, list[tuple[float, str]]] = {}
        for value, request in zip(self.values("recall@5"), self.fitting, strict=True):
            members.setdefault(kind(request), []).append((value, request.group))
        groups = sorted(members.items(), key=lambda item: -len(item[1]))
        return {
            name: (len(values), mean_of([value for value, _ in values], [group for _, group in values]))
            for name, values in groups
        }


def assess(
    finder: Finder,
    requests: Sequence[LabelledRequest],
    *,
    on_progress: Callable[[int, int], None] = lambda count, total: None,
) -> Assessed:
    """Selects for every request once. `on_progress` gets the number of requests so far and of all.

    Raises `ValueError` if no request has a right tool.
    """
    if not any(request.gold for request in requests):
        raise ValueError("no request has a right tool; label some before measuring")
    finder.select(
        requests[0].messages
    )  # indexes the catalog, so that the time of the first request does not contain that
    outcomes = []
    for number, request in enumerate(requests, start=1):
        outcomes.append(_outcome(finder, request))
        on_progress(number, len(requests))
    return Assessed(name=finder.name, catalog=finder.catalog, requests=tuple(requests), outcomes=tuple(outcomes))


def _outcome(finder: Finder, request: LabelledRequest) -> Outcome:
    """Selects and ranks tools for one request."""
    started = time.perf_counter()
    selection = finder.select(request.messages)
    seconds = time.perf_counter() - started
    ranked = finder.ranked(request.messages, DEPTH)
    return Outcome(
        names=tuple(entry.tool.name for entry in ranked.tools),
        fit=ranked.fit,
        nothing=selection.no_match or not ranked.tools,
        sent_names=selection.names,
        tokens=selection.tokens_selected,
        seconds=seconds,
    )


def figure_of(metric: str) -> Figure:
    """Returns the figure with this name: one of `FIGURES`, or `recall@k` for any k from 1 to `DEPTH`. Raises `KeyError`."""
    if metric in FIGURES:
        return FIGURES[metric]
    name, _, places = metric.partition("@")
    if name != "recall" or not places.isdecimal() or not 1 <= int(places) <= DEPTH:
        raise KeyError(metric)
    return lambda names, gold: recall(names, gold, int(places))


COMPARED = ("recall@5", "complete@10", "ndcg@10", "recall@sent")
"""The metrics in which two configurations are compared by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The difference between two configurations in one metric, request by request."""

    metric: str
    name: str
    """Name of the configuration that is compared."""
    than: str
    """Name of the configuration that it is compared with."""
    difference: Estimate
    """Figure of `name` minus figure of `than`."""

    @property
    def verdict(self) -> str:
        """A sentence that says which configuration is better, or that the requests do not decide."""
        if self.difference.low > 0:
            return f"{self.name} is better than {self.than}"
        if self.difference.high < 0:
            return f"{self.name} is worse than {self.than}"
        if self.difference.low == self.difference.high == 0:
            return f"{self.name} and {self.than} are the same"
        return f"undecided between {self.name} and {self.than}"


def compared(first: Assessed, other: Assessed, metrics: Sequence[str] = COMPARED) -> list[Compared]:
    """Compares two configurations on the same requests.

    The interval is that of the paired difference (bootstrap over groups). It is far narrower than the intervals of the two
    figures.
    """
    groups = [request.group for request in first.fitting]
    return [
        Compared(
            metric=metric,
            name=first.name,
            than=other.name,
            difference=difference_of(first.values(metric), other.values(metric), groups),
        )
        for metric in metrics
    ]


def _kind(request: LabelledRequest) -> str:
    kind = "one tool" if len(request.gold) == 1 else "several tools"
    return f"{kind}, {'in a conversation' if len(request.messages) > 1 else 'first message'}"
