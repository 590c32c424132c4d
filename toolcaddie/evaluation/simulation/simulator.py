"""The runtimes that `eval costs` plays its conversations with, and the processes that share the work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from toolcaddie.core.capabilities import CAPABILITIES, Capabilities
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.presets import PRESETS, Preset
from toolcaddie.core.reserved import RESERVED_NAMES
from toolcaddie.core.selection import Budget
from toolcaddie.evaluation.simulation.billing import PriceRule
from toolcaddie.evaluation.simulation.costs import (
    BY_RULE,
    Answers,
    Conversation,
    CostReport,
    Stage,
    charge,
    play,
    report,
)
from toolcaddie.evaluation.simulation.scripts import generated_catalog, generated_scripts
from toolcaddie.runtime import Runtime
from toolcaddie.telemetry.logs import configure_logging
from toolcaddie.util.replacing import replace

_CHUNK = 50
"""Scripts of one piece of work: each builds a runtime, which is an index over the catalog."""


_ALONE = 40
"""Number of conversations that are over before other processes have started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Catalogs, models and strategies to play, and the scripts."""

    catalogs: tuple[Catalog | int, ...]
    """Catalogs, or sizes of generated ones."""
    models: tuple[str, ...]
    strategies: tuple[str, ...]
    scripts: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """Some scripts under one strategy, billed for one or several models."""

    catalog: Catalog | int
    place: int
    """Of the catalog."""
    strategy: str
    models: tuple[str, ...]
    first: int
    count: int
    seed: int


_Found = Mapping[str, Sequence[Conversation]]
"""Conversations by model."""


def simulate(
    what: Simulation, *, workers: int | None = None, done: Callable[[int, int], None] = lambda played, of: None
) -> list[CostReport]:
    """Play everything and compare. `workers`: processes; None: one a core, if it is worth starting them. `done`: told of the
    conversations played."""
    pieces = list(_pieces(what))
    total, played = sum(piece.count for piece in pieces), 0
    if workers is None:
        workers = (os.cpu_count() or 1) if total > _ALONE else 1
    conversations_of: dict[tuple[int, str, str], list[Conversation]] = {}
    done(0, total)
    for piece, conversations in _shared(pieces, workers):
        for model, each in conversations.items():
            conversations_of.setdefault((piece.place, model, piece.strategy), []).extend(each)
        played += piece.count
        done(played, total)
    return [
        report(
            model,
            catalog if isinstance(catalog, int) else len(catalog),
            {
                strategy: sorted(conversations_of[place, model, strategy], key=lambda each: each.script)
                for strategy in what.strategies
                if (place, model, strategy) in conversations_of
            },
        )
        for place, catalog in enumerate(what.catalogs)
        for model in what.models
    ]


def _pieces(what: Simulation) -> Iterator[_Work]:
    for place, catalog in enumerate(what.catalogs):
        for strategy in what.strategies:
            groups = [(model,) for model in _models(strategy, what.models)] if strategy in BY_RULE else [what.models]
            for models in groups:
                for first in range(0, what.scripts, _CHUNK):
                    yield _Work(
                        catalog=catalog,
                        place=place,
                        strategy=strategy,
                        models=models,
                        first=first,
                        count=min(_CHUNK, what.scripts - first),
                        seed=what.seed,
                    )


def _models(strategy: str, models: Sequence[str]) -> list[str]:
    """Returns the models that a strategy exists for."""
    return [model for model in models if strategy != "native" or PriceRule.of(model).deferral]


def _shared(pieces: Sequence[_Work], workers: int) -> Iterator[tuple[_Work, _Found]]:
    if workers == 1 or len(pieces) == 1:
        for piece in pieces:
            yield piece, _worked(piece)
        return
    # Not forked: this process may have threads, and a lock that one of them held would stay locked in the child for good.
    context, quiet = get_context("spawn"), partial(configure_logging, level="error")
    with ProcessPoolExecutor(min(workers, len(pieces)), mp_context=context, initializer=quiet) as pool:
        waiting = {pool.submit(_worked, piece): piece for piece in pieces}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _worked(piece: _Work) -> _Found:
    """Play and bill one piece, in whatever process."""
    return asyncio.run(_played(piece))


async def _played(piece: _Work) -> _Found:
    catalog = piece.catalog
    if isinstance(catalog, int):
        catalog = generated_catalog(catalog, piece.seed)
    scripts = generated_scripts(catalog, piece.first + piece.count, piece.seed)[piece.first :]
    rules = [PriceRule.of(model) for model in piece.models]
    planned_for = rules[0] if piece.strategy in BY_RULE else None
    conversations: dict[str, list[Conversation]] = {rule.model: [] for rule in rules}
    async for played in play(piece.strategy, planned_for, catalog, scripts, runtime_for):
        for rule in rules:
            conversations[rule.model].append(charge(played, rule))
    return conversations


# --- runtimes ---------------------------------------------------------------------------------------------------------

_FEW = 8
"""Few tools are cheap if little or nothing is cached; a planner has to beat that too."""
_UNLIMITED = Budget(max_tools=None, provider_cap=None, policy="ranked", reserve_tools=0, reserve_tokens=0.0)
_UNCAPPED = (Capabilities(pattern="*", tool_cap=None),)
"""Of the strategies that no provider's limit shall hold back: some would refuse so many tools."""


def runtime_for(stage: Stage) -> Answers:
    """A runtime of the strategy, as somebody would set it up who wants just that."""
    rule = stage.rule
    return Runtime(
        provider=stage.model,
        sources=[stage.tools],
        preset=_preset(stage.strategy),
        model="" if rule is None else rule.model.partition(":")[2],
        capabilities=_UNCAPPED if rule is None else CAPABILITIES,
        replace_reserved=RESERVED_NAMES,  # nothing runs, so that any catalog may be played
        clock=stage.clock,
    )


def _preset(strategy: str) -> Preset:
    default = PRESETS["default"]
    match strategy:
        case "all":
            return replace(default, name="all", exposure="all", budget=_UNLIMITED, meta=())
        case "fresh":
            return replace(default, name="fresh", delivery="direct")
        case "few":
            return replace(default, name="few", delivery="direct", budget=replace(default.budget, max_tools=_FEW))
        case "native":
            return replace(default, name="native", delivery="native")
        case "compact":
            return PRESETS["compact"]
        case _:
            return default


__all__ = ["Simulation", "runtime_for", "simulate"]
