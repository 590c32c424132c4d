"""Makes the parts that the settings name, with the registry.

A part is an implementation of one interface (its socket), such as a source, a sink or an embedder; a plugin may bring it.
`parts` is what plugins receive from the program that runs them: the store, secrets, a clock and so on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import NODEFAULT, ValidationError, convert
from msgspec.structs import asdict, fields

from toolcaddie.app.settings import PartSettings, Settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.events import SourceStatus
from toolcaddie.parts import Parts
from toolcaddie.ports import (
    CacheStore,
    Embedder,
    EventSink,
    OpenableSource,
    RankerFactory,
    RemoteEmbedder,
    Store,
    ToolSource,
)
from toolcaddie.registry import Registry
from toolcaddie.sources.arranged import Arrangement, arranged, arrangement_of
from toolcaddie.sources.life import OptionalSource
from toolcaddie.sources.named import load_catalog
from toolcaddie.util.log import Logger

log = Logger(__name__)

Entry = str | PartSettings
"""A source in the settings: the short form of `catalogs`, or a table `[[source]]`."""


def sources_of(settings: Settings, registry: Registry, parts: Parts, *, needed: bool = False) -> list[ToolSource]:
    """Returns the sources of the settings, not yet opened. If `needed` is True, it raises `ConfigError` if there are none."""
    if needed and not settings.catalogs and not settings.source:
        raise ConfigError(
            "no catalog is named; add --catalog SPEC (gym, a .jsonl file, python:module, mcp:URL) or --box files, or set "
            "catalogs or add a table [[source]] in toolcaddie.toml"
        )
    catalogs = [
        _started_without(load_catalog(spec, registry=registry, parts=parts), None, parts) for spec in settings.catalogs
    ]
    return catalogs + [_source(each, registry, parts) for each in settings.source]


def _source(part: PartSettings, registry: Registry, parts: Parts) -> ToolSource:
    own, ours = arrangement_of(part.config, registry.config_type("source", part.type))
    source: ToolSource = registry.make("source", part.type, own, parts)
    if ours:
        source = arranged(source, **_arrangement(part, ours))
    return _started_without(source, part.required, parts)


def _arrangement(part: PartSettings, config: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return asdict(convert(config, Arrangement))
    except ValidationError as error:
        raise ConfigError(f"source {part.type!r}: {error}") from error


def _started_without(source: ToolSource, required: bool | None, parts: Parts) -> ToolSource:
    """Returns the source; one that is not required is wrapped, so that everything else starts without it."""
    if required is None:
        required = getattr(source, "required", True)
    if required or not isinstance(source, OpenableSource):
        return source
    return OptionalSource(source, parts.emit)


def sinks_of(settings: Settings, registry: Registry, parts: Parts) -> list[EventSink]:
    """Returns the sinks, the receivers of events: every installed one that needs no settings, and those of the settings.

    An installed sink that cannot be loaded or made is omitted, and the error is logged; `toolcaddie plugins` shows it too.
    """
    names = [part.type for part in settings.sink]
    installed = [name for name in registry.names("sink") if name not in names]
    sinks = [_installed_sink(name, registry, parts) for name in installed]
    return [*filter(None, sinks), *all_of("sink", settings.sink, registry, parts)]


def _installed_sink(name: str, registry: Registry, parts: Parts) -> EventSink | None:
    """Returns an installed sink; None: it needs settings, or it cannot be made, which is logged."""
    try:
        if _needs_settings(registry, "sink", name):
            return None
        sink: EventSink = registry.make("sink", name, {}, parts)
    except Exception as error:  # noqa: BLE001  code of another package: whatever it raises, the server starts
        log.error("sink_left_out", plugin=name, error=str(error.__cause__ or error))
        return None
    return sink


def _needs_settings(registry: Registry, socket: str, name: str) -> bool:
    items = fields(registry.config_type(socket, name))
    return any(item.default is NODEFAULT and item.default_factory is NODEFAULT for item in items)


def all_of(socket: str, settings: Sequence[PartSettings], registry: Registry, parts: Parts) -> list[Any]:
    """Returns all parts of a socket, in the order of the settings."""
    return [registry.make(socket, each.type, each.config, parts) for each in settings]


def one_of(socket: str, settings: PartSettings | None, registry: Registry, parts: Parts) -> Any:
    """Returns the part of a socket for which the settings name at most one part. None: they name none."""
    return None if settings is None else registry.make(socket, settings.type, settings.config, parts)


def store_of(settings: Settings, registry: Registry, parts: Parts) -> Store | None:
    """Returns the store of the settings, or the store in `parts` if they name none."""
    store: Store | None = one_of("store", settings.store, registry, parts)
    return parts.store if store is None else store


def cache_of(settings: Settings, registry: Registry, parts: Parts) -> CacheStore | None:
    """Returns the cache of results. None: the runtime's own cache in memory, whose size the tool configuration
    limits; also if the settings say "database" and there is no store."""
    keep = settings.cache.keep
    if keep == "memory" or (keep == "database" and parts.store is None):
        return None
    cache: CacheStore = registry.make("cache", keep, {}, parts)
    return cache


def rankers_of(
    names: Sequence[str], settings: Settings, registry: Registry, parts: Parts
) -> Mapping[str, RankerFactory]:
    """Returns the installed rankers that the preset names. The selector refuses an unknown name, with a list of the names."""
    installed = [name for name in registry.names("ranker") if name in names]
    return {name: registry.make("ranker", name, settings.ranker.get(name), parts) for name in installed}


def embedder_of(settings: Settings, registry: Registry, parts: Parts) -> Embedder | RemoteEmbedder | None:
    """Returns the embedder of the settings; None: there is none.

    Only values that are set are passed to the embedder, so that it can refuse a setting it does not have.
    Raises `ConfigError`.
    """
    embedding = settings.embedding
    common = {
        "model": embedding.model,
        "url": embedding.url,
        "runtime": embedding.runtime,
        "dimensions": embedding.dimensions,
    }
    config: dict[str, Any] = {name: value for name, value in common.items() if value is not None}
    if embedding.embedder is None:
        if config:
            raise ConfigError(
                f"embedding.{next(iter(config))} is set, but no embedding.embedder; name one, such as minilm"
            )
        return None
    if embedding.key_env is not None:
        config["api_key"] = parts.secrets.require(embedding.key_env, what="the embedder's key")
    config |= settings.embedder.get(embedding.embedder, {})
    embedder: Embedder | RemoteEmbedder = registry.make("embedder", embedding.embedder, config, parts)
    return embedder


class SourceStates:
    """Records the last state of every source and its moment, and passes each change to `report`. `clock`: seconds since the
    epoch."""

    def __init__(self, report: Callable[[SourceStatus], None], *, clock: Callable[[], float] = time.time) -> None:
        self._report = report
        self._clock = clock
        self._last: dict[str, SourceStatus] = {}
        self._moments: dict[str, float] = {}

    def __call__(self, status: SourceStatus) -> None:
        self._last[status.source] = status
        self._moments[status.source] = self._clock()
        self._report(status)

    def states(self) -> list[SourceStatus]:
        return list(self._last.values())

    def moments(self) -> Mapping[str, float]:
        """Returns the moment of the last change of each source."""
        return dict(self._moments)
