"""From settings to running parts: what the command line and the gateway both stand on.

    async with assembled(settings) as parts:
        result = await parts.runtime.run("freeze John's membership")

`offline` and `opened` are the smaller ones, for commands that ask no model or only read what was recorded.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from toolcaddie.audit.trail import Trail
from toolcaddie.catalog import Catalog
from toolcaddie.errors import ConfigError
from toolcaddie.functions import FunctionSource
from toolcaddie.plugins import PROVIDERS, RANKERS, discover, load, load_catalog
from toolcaddie.ports import Documents, EventLog, EventSink, KeyStore, Provider, RankerFactory, ToolSource
from toolcaddie.runtime import Bot, Runtime
from toolcaddie.settings import Settings, Upstream, effective_preset
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.storage.database import Database

PRACTICE = "practice"
_DEFAULT_KEY = Upstream().key_env
_BUILT_IN_RANKERS = frozenset({"categories", "bm25"})
"""The selector brings these itself, so that a catalog of one's own needs no look at what is installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """The running parts of one process."""

    settings: Settings
    runtime: Runtime
    provider: Provider
    database: Database
    event_log: EventLog
    documents: Documents
    keys: KeyStore
    registry: CollectorRegistry
    own_upstream_key: bool
    """The upstream is asked with a key of ours; otherwise clients bring their own."""

    @property
    def practice(self) -> bool:
        """Whether the practice model answers, because no real one was named."""
        return self.provider.name == PRACTICE


@asynccontextmanager
async def assembled(settings: Settings, *, needs_catalog: bool = False) -> AsyncIterator[Assembled]:
    """Everything, opened; on the way out what was recorded is on disk and the provider closed.

    Raises `ConfigError` for whatever the operator got wrong, before anything is opened that is right.
    """
    sources = sources_of(settings, needed=needs_catalog)
    provider = provider_of(settings)
    registry = CollectorRegistry()
    async with opened(settings) as database:
        runtime = _runtime(
            settings,
            sources,
            provider,
            trail=Trail(database.events),
            sinks=(),
            documents=database.documents,
        )
        try:
            yield Assembled(
                settings=settings,
                runtime=runtime,
                provider=provider,
                database=database,
                event_log=database.events,
                documents=database.documents,
                keys=database.keys,
                registry=registry,
                own_upstream_key=bool(_key_of(settings)) or provider.name == PRACTICE,
            )
        finally:
            await runtime.close()


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Database]:
    """The database alone: the trail, documents and keys."""
    async with Database(settings.database_url) as database:
        yield database


def offline(settings: Settings) -> Runtime:
    """A runtime that selects and explains: no database, nobody is asked, nothing is written."""
    return _runtime(settings, sources_of(settings, needed=True), _load_provider(PRACTICE, settings))


def catalog_of(settings: Settings) -> Catalog:
    """The tools of the settings' catalogs. Raises `ConfigError` if none is named or one cannot be used."""
    return CombinedSource(sources_of(settings, needed=True)).snapshot()


def sources_of(settings: Settings, *, needed: bool = False) -> Sequence[ToolSource]:
    if needed and not settings.catalogs:
        raise ConfigError(
            "no catalog is named; add --catalog SPEC (gym, a .jsonl file, python:module) or set catalogs in toolcaddie.toml"
        )
    return [load_catalog(spec, wrap_functions=FunctionSource) for spec in settings.catalogs]


def provider_of(settings: Settings) -> Provider:
    """The model's API that was named or for which there is a key; else the practice model."""
    key = _key_of(settings)
    if key is None and settings.upstream.key_env != _DEFAULT_KEY:
        raise ConfigError(
            f"the environment variable {settings.upstream.key_env} is not set; put the upstream's key into it, or leave "
            "--upstream-key-env (upstream.key_env) away"
        )
    named = settings.upstream.url is not None or key is not None
    return _load_provider("openai" if named else PRACTICE, settings)


def _load_provider(name: str, settings: Settings) -> Provider:
    make = load(PROVIDERS, name)
    given: dict[str, Any] = {
        "base_url": settings.upstream.url,
        "api_key": _key_of(settings),
        "model": settings.model,
    }
    provider: Provider = make(**given)
    return provider


def _key_of(settings: Settings) -> str | None:
    return os.environ.get(settings.upstream.key_env) or None


def _runtime(
    settings: Settings,
    sources: Sequence[ToolSource],
    provider: Provider,
    *,
    trail: EventSink | None = None,
    sinks: Sequence[EventSink] = (),
    documents: Documents | None = None,
) -> Runtime:
    chosen = effective_preset(settings)
    return Runtime(
        provider=provider,
        sources=sources,
        preset=chosen,
        model=settings.model or (PRACTICE if provider.name == PRACTICE else ""),
        trail=trail,
        sinks=sinks,
        documents=documents,
        rankers=_rankers(chosen.selection.rankers),
        bots={
            name: Bot(disabled_tools=bot.disabled_tools, categories=bot.categories)
            for name, bot in settings.bots.items()
        },
    )


def _rankers(names: Sequence[str]) -> Mapping[str, RankerFactory]:
    """The rankers of other packages that the preset asks for; an unknown name is the selector's to refuse, with a list."""
    wanted = set(names) - _BUILT_IN_RANKERS
    if not wanted:
        return {}
    return {plugin.name: load(RANKERS, plugin.name) for plugin in discover(RANKERS) if plugin.name in wanted}
