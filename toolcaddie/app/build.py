"""Makes the running parts from the settings, for the command line and the gateway alike.

    async with assembled(settings) as parts:
        result = await parts.runtime.run("freeze John's membership")

`opened` opens only the database, and makes it if it is missing. `existing` and `existing_or_empty` make none: they are for
commands that read what is recorded, and which would otherwise report on an empty database if its name is misspelt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from toolcaddie.app.auditing import audit_key, note_secrets
from toolcaddie.app.classifying import classifier_of
from toolcaddie.app.durable import Work, working
from toolcaddie.app.exporting import Providers
from toolcaddie.app.improving import reviewer_of
from toolcaddie.app.informing import webhooks_of
from toolcaddie.app.jobs import desk_of
from toolcaddie.app.models import PRACTICE, check_bot_models, has_own_key, provider_of
from toolcaddie.app.plugged import SourceStates, embedder_of, sinks_of, sources_of
from toolcaddie.app.policy_names import warn_of_names
from toolcaddie.app.reloading import Changes, Reloading
from toolcaddie.app.runtimes import attempts_of, check_personas, host_parts, runtime_of
from toolcaddie.app.sandboxes import SandboxOnDemand
from toolcaddie.app.settings import DEFAULT_DATABASE, Settings
from toolcaddie.app.taught import logged_requests, past_entries
from toolcaddie.app.tenants import tenants_of
from toolcaddie.audit.trail import Trail
from toolcaddie.core.errors import StorageError
from toolcaddie.core.events import SourceStatus
from toolcaddie.core.key_limits import KeyLimits
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.guards.breakers import Breakers
from toolcaddie.ports import EventLog, KeyMeter, KeyStore, Provider, StorageWatch, Store
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.life import log_status
from toolcaddie.storage.database import Database, exists, is_in_memory
from toolcaddie.storage.watch import UNWATCHED
from toolcaddie.telemetry.circuits import CircuitMetrics
from toolcaddie.telemetry.database import DatabaseMetrics
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

_IN_MEMORY = "sqlite:///:memory:"
_GLOBAL = Providers()
"""OpenTelemetry's global providers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """The running parts of one process."""

    settings: Settings
    runtime: Runtime
    provider: Provider
    database: Database
    event_log: EventLog
    documents: Store
    keys: KeyStore
    meter: KeyMeter
    key_limits: Callable[[], KeyLimits]
    """Limits of API keys in the settings that were read last."""
    registry: CollectorRegistry
    reload: Callable[[Settings], Awaitable[Changes]]
    """Changes sources and policy to those of new settings; see `Reloading.reload`."""
    source_states: Callable[[], Sequence[SourceStatus]]
    """The last state of each source that connects to something."""
    source_moments: Callable[[], Mapping[str, float]]
    """The moments of these states, in seconds since the epoch, by source."""
    breakers: Breakers
    """The circuits to the upstreams."""
    work: Work
    """Lets the bots of the settings answer people, work for each other, and follow schedules."""
    own_upstream_key: bool
    """True if requests to the upstream, the model's API, use the operator's key; False: clients send their own keys."""

    @property
    def practice(self) -> bool:
        """True if the practice model, which works by rules and without network, answers instead of a real model."""
        return self.provider.name == PRACTICE


@asynccontextmanager
async def assembled(
    settings: Settings,
    *,
    needs_catalog: bool = False,
    clients_retry: bool = False,
    create: bool = True,
    registry: Registry | None = None,
    providers: Providers = _GLOBAL,
) -> AsyncIterator[Assembled]:
    """Yields all parts, opened; on exit every record is on disk and the provider is closed.

    `clients_retry`: True if clients repeat a request after a failure of the model, so that the runtime need not repeat it. It is
    ignored if the settings name tools: a run may have called some of them already, and must not start again.

    `create`: False if a database that does not exist yet is a mistake.

    `registry` makes the parts that the settings name. None: a registry with all installed parts. `providers`: where spans and
    metrics of OpenTelemetry go.

    Raises `ConfigError` for a mistake in the settings.
    """
    registry, states, metrics = registry or Registry(), SourceStates(log_status), CollectorRegistry()
    create = create or is_in_memory(settings.database_url)
    database = database_of(settings, create=create, watch=DatabaseMetrics(metrics))
    sandbox = SandboxOnDemand(settings, registry)
    jobs = desk_of(settings, database.jobs, database.store)
    breakers = Breakers(settings.breakers, observe=CircuitMetrics(metrics))
    parts = replace(
        host_parts(settings, database.store, states),
        metrics=metrics,
        sandbox=sandbox,
        jobs=jobs,
        tracer_provider=providers.tracer_provider,
        meter_provider=providers.meter_provider,
        breakers=breakers,
    )
    parts = replace(parts, embedder=embedder_of(settings, registry, parts))
    if settings.sandbox is not None:
        sandbox()  # a machine that cannot hold it is named at the start, and not when a tool is called
    provider = provider_of(settings, registry, parts)
    trail = Trail(database.events, durable=settings.storage.durable)
    parts = replace(parts, reviewer=reviewer_of(settings, provider, registry, trail, database.meter))
    tenants = tenants_of(settings, registry, parts)
    sources = sources_of(settings, registry, parts, needed=needs_catalog and tenants is None)
    source = CombinedSource(sources, replace_reserved=settings.catalog.replace_reserved, report=states)
    reloading = Reloading(source, settings, registry, parts)
    requests = logged_requests(settings)
    check_bot_models(settings, registry)
    classifier = classifier_of(settings, provider, registry, parts)
    async with database, source:
        await database.events.check()
        await database.leases.own()  # marks open runs of crashed processes as failed or resumable
        notices = webhooks_of(settings.approvals, database.store)
        runtime = runtime_of(
            settings,
            [source],
            provider,
            tenants=tenants,
            trail=trail,
            sinks=[*sinks_of(settings, registry, parts), *notices],
            meter=database.meter,
            classifier=classifier,
            attempts=attempts_of(settings, clients_retry=clients_retry and not sources and tenants is None),
            registry=registry,
            parts=parts,
        )

        async def reload(changed: Settings) -> Changes:
            changes = await reloading.reload(changed, runtime.change_policy)
            changes = replace(changes, tenants=await runtime.catalogs.look_again())
            if changes.policy:
                warn_of_names(changed, runtime.source.snapshot(), await database.keys.list())
            return changes

        teaching: asyncio.Task[None] | None = None
        try:
            if settings.embedding.most_in_memory is not None:
                await runtime.check_vectors()
            await runtime.warm()
            warn_of_names(settings, runtime.source.snapshot(), await database.keys.list())
            await check_personas(settings, parts.personas)
            for notice in notices:
                await notice.open()
            if settings.learning.enabled:
                teaching = asyncio.create_task(_teach(runtime, settings, requests, database))
            async with working(settings, runtime, parts, database) as work:
                yield Assembled(
                    settings=settings,
                    runtime=runtime,
                    provider=provider,
                    database=database,
                    event_log=database.events,
                    documents=database.store,
                    keys=database.keys,
                    meter=database.meter,
                    key_limits=reloading.key_limits,
                    registry=metrics,
                    reload=reload,
                    source_states=states.states,
                    source_moments=states.moments,
                    breakers=breakers,
                    work=work,
                    own_upstream_key=has_own_key(settings, registry),
                )
        finally:
            if teaching is not None:
                teaching.cancel()
                await asyncio.wait({teaching})
            await runtime.close()
            await sandbox.close()
            for notice in notices:
                await notice.close()


async def _teach(runtime: Runtime, settings: Settings, requests: Sequence[LabelledRequest], database: Database) -> None:
    """Learns from the file `learning.log` and the recorded runs while the first requests are served. If the trail cannot be read,
    this is logged, and the runtime learns from the file only."""
    try:
        entries = await past_entries(runtime, settings, requests, database.events)
    except StorageError as error:
        log.error("trail_not_learned_from", error=str(error))
        entries = await past_entries(runtime, settings, requests)
    await runtime.learn(entries)
    log.info("learned_from_the_past", requests=len(entries))


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Database]:
    """Yields the database alone: the trail, documents and keys."""
    async with database_of(settings) as database:
        yield database


@asynccontextmanager
async def existing(settings: Settings) -> AsyncIterator[Database]:
    """Yields the database. Raises `ConfigError` if it does not exist."""
    async with database_of(settings, create=is_in_memory(settings.database_url)) as database:
        yield database


@asynccontextmanager
async def existing_or_empty(settings: Settings) -> AsyncIterator[Database]:
    """Yields the database, or an empty one in memory if that of the default settings does not exist because nothing has run
    yet. Raises `ConfigError` if a database that is named does not exist."""
    if settings.database_url == DEFAULT_DATABASE and not exists(settings.database_url):
        settings = replace(settings, database_url=_IN_MEMORY)
    async with existing(settings) as database:
        yield database


def database_of(settings: Settings, *, create: bool = True, watch: StorageWatch = UNWATCHED) -> Database:
    """Returns the database of the settings, not opened yet. Raises `ConfigError`."""
    note_secrets(settings.audit)
    key = audit_key(settings.audit)
    return Database(settings.database_url, lease=settings.storage.lease, audit_key=key, create=create, watch=watch)
