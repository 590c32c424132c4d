"""Makes a runtime from the settings without opening anything: no database, no connection, no file.

Separate from `build`, because commands that only select or list must start fast, and a database is slow to load.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcaddie.app.bots import BotsOnDemand, MessengerOnDemand
from toolcaddie.app.box import names_source
from toolcaddie.app.jobs import desk_of
from toolcaddie.app.models import PRACTICE, asked_of, fallbacks_of, provider_config
from toolcaddie.app.plugged import (
    all_of,
    cache_of,
    embedder_of,
    one_of,
    rankers_of,
    sources_of,
    store_of,
)
from toolcaddie.app.sandboxes import SandboxOnDemand
from toolcaddie.app.settings import Settings, duration_seconds, effective_preset
from toolcaddie.app.unasked import Unasked
from toolcaddie.bots.prompting import BotPrompt
from toolcaddie.control.answers import SameAnswer
from toolcaddie.control.bots import Bots, DayBudget
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.capabilities import CAPABILITIES, Capabilities
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.events import SourceStatus
from toolcaddie.core.personas import PersonaKey
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.engine.engine import Programs
from toolcaddie.learning import Experience
from toolcaddie.parts import Parts
from toolcaddie.personas import StoredChats, StoredPersonas
from toolcaddie.ports import (
    Approver,
    Classifier,
    EventSink,
    Interpreter,
    KeyMeter,
    PersonaFiles,
    Policy,
    Provider,
    Store,
    ToolSource,
)
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.runtime.vectors import MOST_IN_MEMORY
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.definitions import frozen
from toolcaddie.sources.life import log_status
from toolcaddie.sources.tenant_parts import Tenants
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.util.replacing import replace

ATTEMPTS = 3
"""The largest number of requests to a model for one answer, unless `upstream.attempts` is set."""

_STORING = ("authored", "cron", "improve", "memory", "persona", "phone", "team")
"""Types of sources that need a store to be made."""


class _NoRows:
    """Stands for the rows of jobs where no database is open, so that the tool that makes jobs can be listed."""

    def __getattr__(self, name: str) -> Any:
        raise ConfigError("jobs need a server with a database; start toolcaddie serve")


_NO_ROWS: Any = _NoRows()


def host_parts(
    settings: Settings, store: Store | None = None, emit: Callable[[SourceStatus], None] = log_status
) -> Parts:
    """Returns the services of this process that plugins may use. Without a store, bots have neither files nor chats."""
    return Parts(
        store=store,
        emit=emit,
        bounds=settings.bounds,
        sandbox=SandboxOnDemand(settings),
        bots=BotsOnDemand(settings.bots) if settings.bots else None,
        messenger=MessengerOnDemand(),
        personas=None if store is None else StoredPersonas(store, folders=persona_folders(settings)),
        chats=None if store is None else StoredChats(store),
        jobs=None if store is None else desk_of(settings, _NO_ROWS, store),
    )


def persona_folders(settings: Settings) -> Mapping[str, Path]:
    """Returns the folders from which the bots' files are read, by bot."""
    return {name: Path(bot.persona) for name, bot in settings.bots.items() if bot.persona is not None}


async def check_personas(settings: Settings, personas: PersonaFiles | None) -> None:
    """Raises `ConfigError` if a bot has no files yet and there is no folder from which to read them: each request to it would
    fail."""
    for bot, folder in persona_folders(settings).items():
        if personas is not None and not folder.is_dir():
            try:
                await personas.paths(PersonaKey(tenant="default", bot=bot))
            except RequestError as error:
                raise ConfigError(str(error)) from error


def runtime_of(
    settings: Settings,
    sources: Sequence[ToolSource],
    provider: Provider,
    *,
    tenants: Tenants | None = None,
    trail: EventSink | None = None,
    sinks: Sequence[EventSink] = (),
    meter: KeyMeter | None = None,
    classifier: Classifier | None = None,
    attempts: int = 1,
    asks: bool = True,
    registry: Registry | None = None,
    parts: Parts | None = None,
) -> Runtime:
    """Returns a runtime with these parts; the settings determine everything else.

    `tenants`: the catalogs of tenants. `attempts`: the largest number of requests to a model for one answer. `asks`: False for
    commands that send no request to a model, so that no key and no `meter` (which counts what bots use) is needed. The parts that
    the settings name are made by `registry`, which passes `parts` to them.
    """
    registry, parts = registry or Registry(), parts or host_parts(settings)
    embedder = parts.embedder or embedder_of(settings, registry, parts)
    parts = replace(parts, embedder=embedder)
    meta_tools = all_of("meta_tool", settings.meta_tool, registry, parts)
    preset = effective_preset(settings)
    preset = replace(preset, meta=(*preset.meta, *(tool.name for tool in meta_tools if tool.name not in preset.meta)))
    return Runtime(
        provider=provider,
        sources=sources,
        tenants=tenants,
        preset=preset,
        model=asked_of(settings, registry)[1] or (PRACTICE if provider.name == PRACTICE else ""),
        fallbacks=fallbacks_of(settings, registry, parts) if asks else (),
        attempts=attempts,
        tool_config=_tool_config(settings, asks=asks),
        capabilities=capabilities_of(settings),
        cache=cache_of(settings, registry, parts),
        bounds=settings.bounds,
        trail=trail,
        sinks=sinks,
        documents=store_of(settings, registry, parts),
        meter=meter,
        classifier=classifier,
        embedder=embedder,
        patience=settings.embedding.patience,
        vector_index=None if embedder is None else _with_database("vectors_kept").vector_index_of(settings),
        most_in_memory=MOST_IN_MEMORY if (most := settings.embedding.most_in_memory) is None else most,
        rankers=rankers_of(preset.selection.rankers, settings, registry, parts),
        policy=policy_of(settings, registry, parts),
        approval_expiry=duration_seconds(settings.approvals.expiry),
        programs=_programs(settings, registry, parts),
        check_claims=settings.claims.check,
        approver=_approver(settings, registry, parts),
        middleware=all_of("middleware", settings.middleware, registry, parts),
        meta_tools=meta_tools,
        experience=experience_of(settings),
        bots=settings.bots if asks else {name: replace(bot, budget=DayBudget()) for name, bot in settings.bots.items()},
        roles=settings.roles,
        default_bot=settings.default_bot,
        categories=settings.catalog.categories,
        replace_reserved=settings.catalog.replace_reserved,
        instructions=BotPrompt(bots=settings.bots, personas=parts.personas) if settings.bots else None,
    )


def bots_of(settings: Settings) -> Bots:
    """Returns the bots and roles of the settings, and the categories enabled for everyone."""
    return Bots(settings.bots, settings.roles, default=settings.default_bot, categories=settings.catalog.categories)


def policy_of(settings: Settings, registry: Registry, parts: Parts) -> Policy:
    """Returns the policy of the settings; the shipped rules if they name none."""
    return one_of("policy", settings.policy, registry, parts) or CedarPolicy()


def _programs(settings: Settings, registry: Registry, parts: Parts) -> Programs | None:
    """Returns what runs programs of the model; None: nothing does."""
    interpreter: Interpreter | None = one_of("interpreter", settings.interpreter, registry, parts)
    if interpreter is None:
        return None
    return Programs(interpreter=interpreter, limits=settings.programs, check_types=settings.programs.check_types)


def _approver(settings: Settings, registry: Registry, parts: Parts) -> Approver | None:
    """Returns what answers questions at once; None: they wait for a person."""
    answer = settings.approvals.answer
    if answer != "inbox":
        return SameAnswer(approved=answer == "run")
    approver: Approver | None = one_of("approver", settings.approver, registry, parts)
    return approver


def attempts_of(settings: Settings, *, clients_retry: bool) -> int:
    """Returns the largest number of requests to a model for one answer.

    A client that retries by itself gets the error at once. Otherwise each of its attempts would cause several here, and the time
    that a provider asks to wait would be spent twice.
    """
    return settings.upstream.attempts or (1 if clients_retry else ATTEMPTS)


def _tool_config(settings: Settings, *, asks: bool) -> ToolConfig | None:
    """Returns the tool configuration of the settings. `asks` False: no request is sent to a model, so its fallback provider,
    which would need a key, is omitted."""
    config = None if settings.tool_config is None else ToolConfig.of(settings.tool_config)
    if config is None or config.fallback_provider is None:
        return config
    fallback = config.fallback_provider
    table = provider_config(settings, fallback.provider, url=fallback.base_url)
    return replace(config, fallback_provider=replace(fallback, config=table) if asks else None)


def capabilities_of(settings: Settings) -> Sequence[Capabilities]:
    return (*settings.capabilities, *CAPABILITIES) if settings.capabilities else CAPABILITIES


def experience_of(settings: Settings) -> Experience | None:
    """Returns an empty experience, the memory of learned requests, with the settings of learning. None: learning is off."""
    return Experience(settings.learning) if settings.learning.enabled else None


def offline(settings: Settings, *, needs_catalog: bool = True) -> Runtime:
    """Returns a runtime that selects, explains and computes prices for the model of the settings. It sends no request to a model
    and needs no key for one.

    A database is opened only if an embedder is set, whose vectors are stored there for the next command, or for sources whose
    things are there, such as the approvals of tools that bots wrote. Sources that connect to something are opened for their tools
    and closed again. If learning is on, the runtime has learned from the log and the recorded runs. Raises `ConfigError`, also if
    `needs_catalog` is True and the settings name no source, and `StorageError`.
    """
    registry, parts = Registry(), host_parts(settings, _store_on_demand(settings))
    provider = Unasked(asked_of(settings)[0])
    sources = _definitions(settings, registry, parts, needed=needs_catalog)
    runtime = runtime_of(settings, sources, provider, asks=False, registry=registry, parts=parts)
    if settings.learning.enabled:
        _with_database("taught").teach(runtime, settings)
    return runtime


def _store_on_demand(settings: Settings) -> Store | None:
    """Returns a store that opens the database with each call, if these settings need one to select tools. Returns an empty one in
    memory for a host alone, and otherwise None."""
    if settings.embedding.embedder is None and not any(names_source(settings, each) for each in _STORING):
        # The changes of a host that wait for a confirmation are left to the servers: a command that selects tools undoes none.
        return MemoryStore() if names_source(settings, "host") else None
    store: Store = _with_database("vectors_kept").StoreOnDemand(settings)
    return store


def _with_database(module: str) -> Any:
    """Imports a module of this package that uses the database.

    It is not imported at the top, because loading the database takes half as long as a whole `toolcaddie select`, and only
    commands with an embedder or with learning need it.
    """
    return importlib.import_module(f"{__package__}.{module}")


def catalog_of(settings: Settings) -> Catalog:
    """Returns the enabled tools of the settings' sources. Raises `ConfigError` if the settings name no source, or a source cannot
    be used."""
    catalog, enabled = whole_catalog_of(settings), settings.catalog.categories
    if enabled is None:
        return catalog
    Bots(categories=enabled).check(catalog)
    categories = (category for category in catalog.categories if category.name in enabled)
    return Catalog.of((tool for tool in catalog if tool.category in enabled), categories, check_schemas=False)


def whole_catalog_of(settings: Settings) -> Catalog:
    """Returns the tools of the settings' sources, also those that are not enabled. Raises as `catalog_of`."""
    sources = _definitions(settings, Registry(), host_parts(settings, _store_on_demand(settings)))
    return CombinedSource(sources, replace_reserved=settings.catalog.replace_reserved).snapshot()


def _definitions(settings: Settings, registry: Registry, parts: Parts, *, needed: bool = True) -> Sequence[ToolSource]:
    """Returns the sources. If one of them connects to something, all are opened once, closed again, and replaced by sources with
    the tools that they had."""
    sources = sources_of(settings, registry, parts, needed=needed)
    combined = CombinedSource(sources, replace_reserved=settings.catalog.replace_reserved, report=parts.emit)
    if combined.is_open:
        return sources
    return asyncio.run(_looked_up(combined, sources))


async def _looked_up(combined: CombinedSource, sources: Sequence[ToolSource]) -> Sequence[ToolSource]:
    async with combined:
        return [frozen(source) for source in sources]
