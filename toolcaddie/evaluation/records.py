"""The figures of an evaluation as JSON, and the checks before it, for the command line and the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import ConfigError
from toolcaddie.evaluation.assess import COMPARED, Assessed, Compared, compared
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.evaluation.metrics import Estimate


def checked_requests(requests: Sequence[LabelledRequest], catalog: Catalog, *, origin: str) -> list[str]:
    """Returns the names of right tools that the catalog lacks. Raises `ConfigError` if nothing can be measured with these
    requests. `origin`: what errors call their source."""
    if not requests:
        raise ConfigError(
            f'{origin} holds no requests; write one JSON object a line: {{"query": "...", "gold": ["tool"]}}'
        )
    if not any(request.gold for request in requests):
        raise ConfigError(f"{origin}: no request has a right tool in `gold`; label some")
    unknown = unknown_tools(requests, catalog)
    if unknown and not any(catalog.position(name) is not None for request in requests for name in request.gold):
        raise ConfigError(
            f"{origin}: the catalog has none of the right tools ({', '.join(unknown[:3])}, ...); check --catalog"
        )
    return unknown


def unknown_tools(requests: Sequence[LabelledRequest], catalog: Catalog) -> list[str]:
    """Returns the names of right tools that the catalog lacks."""
    right_names = dict.fromkeys(name for request in requests for name in sorted(request.gold))
    return [name for name in right_names if catalog.position(name) is None]


def comparisons_of(assessed: Sequence[Assessed], at: int) -> list[Compared]:
    """Compares every configuration with the first."""
    metrics = (f"recall@{at}", *(name for name in COMPARED if name != "recall@5"))
    return [comparison for other in assessed[1:] for comparison in compared(other, assessed[0], metrics)]


def evaluation_record(
    assessed: Sequence[Assessed],
    comparisons: Sequence[Compared],
    catalog: Catalog,
    requests: Sequence[LabelledRequest],
    at: int,
) -> dict[str, Any]:
    """Returns the JSON of `eval --json`: the figures of the first configuration at the top, those of all under
    `configurations`."""
    figures = [_figures(configuration, at) for configuration in assessed]
    return {
        **figures[0],
        "catalog": {"tools": len(catalog), "version": catalog.version},
        "requests": {
            "all": len(requests),
            "fitting": len(assessed[0].fitting),
            "nothing_fits": len(requests) - len(assessed[0].fitting),
            "groups": len({request.group for request in requests}),
            "unknown_tools": unknown_tools(requests, catalog),
        },
        "configurations": figures,
        "comparisons": [
            {
                "metric": comparison.metric,
                "name": comparison.name,
                "than": comparison.than,
                "difference": rounded(comparison.difference.value),
                "interval": interval_of(comparison.difference),
                "verdict": comparison.verdict,
            }
            for comparison in comparisons
        ],
    }


def _figures(assessed: Assessed, at: int) -> dict[str, Any]:
    """Returns the figures of one configuration, with the recall at `at` places."""
    metrics = dict(assessed.metrics)
    if f"recall@{at}" not in metrics:
        metrics[f"recall@{at}"] = assessed.recall_curve()[at - 1]
    no_fit = {
        "auroc": assessed.no_fit.auroc,
        "false_nothing": assessed.no_fit.false_nothing,
        "caught": assessed.no_fit.caught,
    }
    tokens = assessed.tokens
    return {
        "configuration": assessed.name,
        "metrics": _values(metrics),
        "no_fit": _values(no_fit),
        "latency_ms": _values(assessed.latency_ms),
        "tokens": {
            "sent": round(tokens.value, 1),
            "all": assessed.tokens_all,
            "share": rounded(tokens.value / assessed.tokens_all) if assessed.tokens_all else None,
        },
        "intervals": {
            "metrics": _intervals(metrics),
            "no_fit": _intervals(no_fit),
            "latency_ms": _intervals(assessed.latency_ms),
            "tokens": {"sent": interval_of(tokens)},
        },
    }


def _values(estimates: Mapping[str, Estimate | None]) -> dict[str, float | None]:
    return {name: None if estimate is None else rounded(estimate.value) for name, estimate in estimates.items()}


def _intervals(estimates: Mapping[str, Estimate | None]) -> dict[str, tuple[float, float] | None]:
    return {name: None if estimate is None else interval_of(estimate) for name, estimate in estimates.items()}


def interval_of(estimate: Estimate) -> tuple[float, float]:
    return rounded(estimate.low), rounded(estimate.high)


def rounded(number: float) -> float:
    return round(number, 4)
