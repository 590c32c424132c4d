"""Computes the part of a budget that is left for selected tools, after the tools that must be sent in any case: core tools, tools
that are essential to the request, and tools that the caller pins (requires by name).

The `fixed_count` and `fixed_tokens` of a query are places and tokens that other definitions take, such as meta tools. A slimmed
definition has no examples, titles and long descriptions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import View
from toolcaddie.core.errors import BudgetError
from toolcaddie.core.selection import Budget, SelectionQuery
from toolcaddie.selection.allot import Capacity
from toolcaddie.selection.index.catalog_index import CatalogIndex

Ints = npt.NDArray[np.int64]


def capacity_of(
    view: View, index: CatalogIndex, query: SelectionQuery, budget: Budget, always: Ints, pinned: Ints, *, whole: bool
) -> Capacity:
    """Returns the capacity that the budget has left for candidates.

    `always` are positions of core and essential tools, which do not count towards `max_tools`; `pinned` are positions of pinned
    tools, which count. Tokens and places are reserved for tools that the model may request later, unless the `whole` catalog is
    sent. Raises `BudgetError` if the tools that must be sent are over a limit.
    """
    must = np.concatenate([always, pinned])
    _check_cap(view, query, budget, must)
    max_tools = None if budget.max_tools is None else max(0, budget.max_tools - len(pinned))
    reserved = query.expandable and not whole
    provider_cap = None
    if budget.provider_cap is not None:
        provider_cap = budget.provider_cap - query.fixed_count - len(must) - (budget.reserve_tools if reserved else 0)
    if budget.max_tokens is None:
        return Capacity(max_tools=max_tools, provider_cap=provider_cap, max_tokens=None, max_tokens_slim=None)
    full, slim = int(index.full[must].sum()), int(index.slim(must).sum())
    _check_tokens(view, query, budget, must, slim)
    tokens_left = int(budget.max_tokens * (1 - budget.reserve_tokens)) if reserved else budget.max_tokens
    tokens_left -= query.fixed_tokens
    return Capacity(
        max_tools=max_tools,
        provider_cap=provider_cap,
        max_tokens=tokens_left - full,
        max_tokens_slim=tokens_left - slim,
    )


def pins_that_fit(
    index: CatalogIndex,
    query: SelectionQuery,
    budget: Budget,
    always: Ints,
    pinned: Ints,
    scores: npt.NDArray[np.float32],
) -> Ints:
    """Returns the positions of the pinned tools. If not all of them fit, only those with the highest `scores` are returned, at
    least one: a caller may name hundreds of tools of which few fit."""
    order = np.argsort(-scores[pinned], kind="stable")
    most = len(pinned)
    if budget.provider_cap is not None:
        most = min(most, budget.provider_cap - query.fixed_count - len(always))
    if budget.max_tokens is not None:
        tokens_left = budget.max_tokens - query.fixed_tokens - int(index.slim(always).sum())
        most = min(most, int((np.cumsum(index.slim(pinned[order])) <= tokens_left).sum()))
    return pinned if most == len(pinned) else np.sort(pinned[order[: max(1, most)]])


def _check_cap(view: View, query: SelectionQuery, budget: Budget, must: Ints) -> None:
    """Raises `BudgetError` if the tools that must be sent (`must`, by position) are more than the provider accepts."""
    needed = len(must) + query.fixed_count
    if len(must) and budget.provider_cap is not None and needed > budget.provider_cap:
        raise BudgetError(
            f"{len(must)} tools that are always sent ({_names(view, must)}) and {query.fixed_count} others that must be sent "
            f"make {needed}, over the provider's cap of {budget.provider_cap}; mark fewer tools as core, pin fewer, or "
            "raise provider_cap"
        )


def _check_tokens(view: View, query: SelectionQuery, budget: Budget, must: Ints, slim: int) -> None:
    """Raises `BudgetError` if the tools that must be sent (`must`, by position) are over `max_tokens` even if they are slimmed.
    `slim`: their tokens in that form."""
    if len(must) and budget.max_tokens is not None and slim + query.fixed_tokens > budget.max_tokens:
        raise BudgetError(
            f"{len(must)} tools that are always sent ({_names(view, must)}) need {slim} tokens even if they are slimmed, and "
            f"{query.fixed_tokens} tokens are taken by others: this is over max_tokens of {budget.max_tokens}; mark fewer tools "
            "as core, pin fewer, or raise max_tokens"
        )


def _names(view: View, positions: Ints) -> str:
    """Returns the names of the first 20 of these tools, for an error message."""
    names = [view.catalog.tools[position].name for position in positions[:20].tolist()]
    return ", ".join(names) + (", ..." if len(positions) > len(names) else "")
