"""From settings to running parts: what the command line and the gateway both stand on.

    async with assembled(settings) as parts:
        result = await parts.runtime.run("freeze John's membership")

`opened` is the smaller one, for commands that only look at what was recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from toolcaddie.app.models import PRACTICE
from toolcaddie.app.parts import (
    attempts_of,
    classifier_of,
    has_own_key,
    provider_of,
    runtime_of,
    sources_of,
)
from toolcaddie.app.settings import Settings
from toolcaddie.app.taught import logged_requests, past_entries
from toolcaddie.audit.trail import Trail
from toolcaddie.core.errors import StorageError
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.ports import EventLog, EventSink, KeyStore, Provider, Store
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.storage.database import Database
from toolcaddie.telemetry import OpenTelemetrySink, PrometheusSink, StructlogSink
from toolcaddie.util.log import Logger

log = Logger(__name__)


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
    registry: CollectorRegistry
    own_upstream_key: bool
    """The upstream is asked with a key of ours; otherwise clients bring their own."""

    @property
    def practice(self) -> bool:
        """Whether the practice model answers, because no real one was named."""
        return self.provider.name == PRACTICE


@asynccontextmanager
async def assembled(
    settings: Settings, *, needs_catalog: bool = False, clients_retry: bool = False
) -> AsyncIterator[Assembled]:
    """Everything, opened; on the way out what was recorded is on disk and the provider closed.

    `clients_retry`: whoever asks tries again where a model fails. That is no help to a run of our own tools, of which some may
    have run by then; so it counts only where there is no catalog.

    Raises `ConfigError` for whatever the operator got wrong, before anything is opened that is right.
    """
    sources = sources_of(settings, needed=needs_catalog)
    requests = logged_requests(settings)
    provider = provider_of(settings)
    classifier = classifier_of(settings, provider)
    registry = CollectorRegistry()
    async with opened(settings) as database:
        await database.leases.own()  # from here on what others left behind is settled, also before the first request
        runtime = runtime_of(
            settings,
            sources,
            provider,
            trail=Trail(database.events, durable=settings.storage.durable),
            sinks=(StructlogSink(), PrometheusSink(registry), OpenTelemetrySink(), *plugged_sinks()),
            documents=database.store,
            classifier=classifier,
            attempts=attempts_of(settings, clients_retry=clients_retry and not sources),
        )
        teaching: asyncio.Task[None] | None = None
        try:
            await runtime.warm()
            if settings.learning.enabled:
                teaching = asyncio.create_task(_teach(runtime, settings, requests, database))
            yield Assembled(
                settings=settings,
                runtime=runtime,
                provider=provider,
                database=database,
                event_log=database.events,
                documents=database.store,
                keys=database.keys,
                registry=registry,
                own_upstream_key=has_own_key(settings),
            )
        finally:
            if teaching is not None:
                teaching.cancel()
                await asyncio.wait({teaching})
            await runtime.close()


async def _teach(runtime: Runtime, settings: Settings, requests: Sequence[LabelledRequest], database: Database) -> None:
    """What the file and the recorded runs teach, beside the first requests. A trail that cannot be read is said, and the file
    is learned from alone."""
    try:
        entries = await past_entries(runtime, settings, requests, database.events)
    except StorageError as error:
        log.error("trail_not_learned_from", error=str(error))
        entries = await past_entries(runtime, settings, requests)
    await runtime.learn(entries)
    log.info("learned_from_the_past", requests=len(entries))


def plugged_sinks() -> list[EventSink]:
    """The sinks of installed plugins: an entry point of the group names a callable that makes one. One that cannot be
    loaded or made is left out and said; `toolcaddie plugins` shows it too."""
    made: list[EventSink] = []
    registry = Registry()
    for plugin in registry.plugins("sink"):
        try:
            made.append(registry.make("sink", plugin.name))
        except Exception as error:  # noqa: BLE001  a stranger's code, at start: whatever it raises, the server comes up
            log.error(
                "sink_left_out",
                plugin=plugin.name,
                distribution=plugin.distribution,
                error=str(error.__cause__ or error),
            )
    return made


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Database]:
    """The database alone: the trail, documents and keys."""
    async with Database(settings.database_url, lease=settings.storage.lease) as database:
        yield database
