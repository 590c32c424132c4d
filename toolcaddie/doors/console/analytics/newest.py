"""Suggestions from the newest runs, by the functions of `toolcaddie eval usage` and `toolcaddie eval misses`: default categories,
related categories, and hints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.evaluation.misses import Hint, misses_of
from toolcaddie.evaluation.recorded import Log
from toolcaddie.evaluation.usage import DefaultProposal, RelatedProposal, usage_of

RUNS_READ = 60
"""The number of runs, the newest ones, that are read."""
_MOST = 20
"""The largest number of suggestions of a kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintProposal:
    """Words to add to a tool that runs called although it had not been selected."""

    tool: str
    missed: int
    served: int
    hints: Sequence[Hint]
    line: str
    """The line for a file of hints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """Suggestions from the newest runs."""

    runs: int
    with_calls: int
    since: float | None
    no_match: int
    defaults: Sequence[DefaultProposal]
    """Changes of the default categories; those that should stay are left out."""
    related: Sequence[RelatedProposal]
    """Relations that the catalog does not have."""
    hints: Sequence[HintProposal]


def proposals_of(log: Log, view: View) -> Proposals:
    """Returns what recorded runs suggest about the tools that the reader may read about, and their categories."""
    catalog = _called_tools(log, view)
    usage, misses = usage_of(log.runs, catalog), misses_of(log.runs, catalog)
    patch, categories = misses.patch(), {tool.category for tool in view}
    return Proposals(
        runs=usage.runs,
        with_calls=usage.with_calls,
        since=usage.since,
        no_match=usage.no_match,
        defaults=[each for each in usage.defaults if each.advice != "keep" and each.category in categories][:_MOST],
        related=[each for each in usage.related if not each.known and {each.category, each.related} <= categories][
            :_MOST
        ],
        hints=[
            HintProposal(
                tool=each.tool,
                missed=each.missed,
                served=each.served,
                hints=each.hints,
                line=msgspec.json.encode({"name": each.tool, "hints": patch[each.tool]}).decode(),
            )
            for each in misses.tools
            if each.tool in patch
        ][:_MOST],
    )


def _called_tools(log: Log, view: View) -> Catalog:
    """Returns the tools that the runs called and the reader may read about: all that these suggestions need."""
    names = dict.fromkeys(name for run in log.runs for name in run.used)
    tools = [tool for name in names if (tool := view.get(name)) is not None]
    return Catalog.of(tools, view.catalog.categories, check_schemas=False, before=view.catalog)
