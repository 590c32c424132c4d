"""Runs the simulated conversations of `toolcaddie eval costs`: makes the runtimes, and divides the work among processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.capabilities import CAPABILITIES, Capabilities
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.presets import PRESETS, Preset
from toolcaddie.core.reserved import RESERVED_NAMES
from toolcaddie.core.selection import Budget
from toolcaddie.engine.engine import Programs
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
from toolcaddie.programs.named import monty
from toolcaddie.runtime import Runtime
from toolcaddie.telemetry.logs import configure_logging
from toolcaddie.util.replacing import replace

_CHUNK = 50
"""Largest number of scripts in one piece of work. It is not small, because each piece makes a runtime and indexes the catalog."""

_ALONE = 40
"""Largest number of conversations for which one process is faster than several, which must start first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """A simulation to run: every script is played on each catalog, for each model and under each strategy."""

    catalogs: tuple[Catalog | int, ...]
    """Catalogs to use, or sizes of catalogs to generate."""
    models: tuple[str, ...]
    """Models as `provider:model`; each has a price rule."""
    strategies: tuple[str, ...]
    """Names of `costs.STRATEGIES`."""
    scripts: int
    """Number of scripts for each catalog."""
    seed: int
    """Seed of the generated catalogs and scripts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A piece of work for one process: some scripts under one strategy, billed for one or several models."""

    catalog: Catalog | int
    place: int
    """Index of the catalog in `Simulation.catalogs`."""
    strategy: str
    models: tuple[str, ...]
    first: int
    """Number of the first script."""
    count: int
    """Number of scripts."""
    seed: int


_Conversations = Mapping[str, Sequence[Conversation]]
"""Conversations by model."""


def simulate(
    simulation: Simulation,
    *,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] = lambda completed, total: None,
) -> list[CostReport]:
    """Plays all conversations and compares the strategies.

    `workers`: number of processes; None: one for each core, or a single one for few conversations. `on_progress` gets the
    number of conversations played so far and of all.
    """
    pieces = list(_pieces(simulation))
    total, completed = sum(piece.count for piece in pieces), 0
    if workers is None:
        workers = (os.cpu_count() or 1) if total > _ALONE else 1
    conversations_of: dict[tuple[int, str, str], list[Conversation]] = {}
    on_progress(0, total)
    for piece, conversations in _distributed(pieces, workers):
        for model, of_model in conversations.items():
            conversations_of.setdefault((piece.place, model, piece.strategy), []).extend(of_model)
        completed += piece.count
        on_progress(completed, total)
    return [
        report(
            model,
            catalog if isinstance(catalog, int) else len(catalog),
            {
                strategy: sorted(conversations_of[place, model, strategy], key=lambda of_model: of_model.script)
                for strategy in simulation.strategies
                if (place, model, strategy) in conversations_of
            },
        )
        for place, catalog in enumerate(simulation.catalogs)
        for model in simulation.models
    ]


def _pieces(simulation: Simulation) -> Iterator[_Work]:
    """Yields the pieces of work of a simulation."""
    for place, catalog in enumerate(simulation.catalogs):
        for strategy in simulation.strategies:
            groups = (
                [(model,) for model in _models(strategy, simulation.models)]
                if strategy in BY_RULE
                else [simulation.models]
            )
            for models in groups:
                for first in range(0, simulation.scripts, _CHUNK):
                    yield _Work(
                        catalog=catalog,
                        place=place,
                        strategy=strategy,
                        models=models,
                        first=first,
                        count=min(_CHUNK, simulation.scripts - first),
                        seed=simulation.seed,
                    )


def _models(strategy: str, models: Sequence[str]) -> list[str]:
    """Returns the models for which a strategy exists. `native` needs a provider that can defer definitions."""
    return [model for model in models if strategy != "native" or PriceRule.of(model).deferral]


def _distributed(pieces: Sequence[_Work], workers: int) -> Iterator[tuple[_Work, _Conversations]]:
    """Yields each piece of work with its conversations, as they are finished, in this process or in several."""
    if workers == 1 or len(pieces) == 1:
        for piece in pieces:
            yield piece, _run_piece(piece)
        return
    # "spawn", not "fork": this process may have threads, and a lock that one of them holds would stay locked in a fork.
    context, quiet = get_context("spawn"), partial(configure_logging, level="error")
    with ProcessPoolExecutor(min(workers, len(pieces)), mp_context=context, initializer=quiet) as pool:
        waiting = {pool.submit(_run_piece, piece): piece for piece in pieces}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_piece(piece: _Work) -> _Conversations:
    """Plays and bills one piece."""
    return asyncio.run(_play_piece(piece))


async def _play_piece(piece: _Work) -> _Conversations:
    """Plays the scripts of a piece, and returns them billed for each of its models."""
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
"""Largest number of selected tools under the strategy `few`, which is cheap if little or nothing is cached."""
_UNLIMITED = Budget(max_tools=None, provider_cap=None, policy="ranked", reserve_tools=0, reserve_tokens=0.0)
_UNCAPPED = (Capabilities(pattern="*", tool_cap=None),)
"""Capabilities without a limit of tools, for strategies that do not depend on the provider. (Some providers limit the number.)"""


def runtime_for(stage: Stage) -> Answers:
    """Returns a runtime that sends tools as the strategy does. Raises `ConfigError` if it needs an interpreter that is not
    installed."""
    rule = stage.rule
    interpreter = monty(workers=2) if needs_interpreter(stage.strategy) else None
    return Runtime(
        provider=stage.model,
        sources=[stage.tools],
        preset=_preset(stage.strategy),
        model="" if rule is None else rule.model.partition(":")[2],
        capabilities=_UNCAPPED if rule is None else CAPABILITIES,
        replace_reserved=RESERVED_NAMES,  # no real tool runs, so any names are allowed
        clock=stage.clock,
        programs=None if interpreter is None else Programs(interpreter=interpreter, check_types=False),
        policy=AllowAll(),  # nobody is there to be asked
    )


def needs_interpreter(strategy: str) -> bool:
    """Returns True if the model may write programs under the strategy of this name, so that an interpreter must be installed."""
    return _preset(strategy).programs != "never"


def _preset(strategy: str) -> Preset:
    """Returns the preset that sends tools as the strategy of this name does."""
    default = PRESETS["default"]
    plain = replace(default, programs="never")
    match strategy:
        case "all":
            return replace(plain, name="all", exposure="all", budget=_UNLIMITED, meta=())
        case "fresh":
            return replace(plain, name="fresh", delivery="direct")
        case "few":
            return replace(plain, name="few", delivery="direct", budget=replace(default.budget, max_tools=_FEW))
        case "native":
            return replace(plain, name="native", delivery="native")
        case "program":
            return replace(default, name="program", delivery="direct", programs="always")
        case "compact":
            return PRESETS["compact"]
        case _:
            return default


__all__ = ["Simulation", "needs_interpreter", "runtime_for", "simulate"]
