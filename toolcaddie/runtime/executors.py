"""Makes the executor of each preset: the layers of middleware around every call of a tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolcaddie.control.results.cache import DEFAULT_TTL, Cache, CacheStatistics
from toolcaddie.control.results.held import HeldResults
from toolcaddie.control.results.result_check import ResultCheck
from toolcaddie.control.results.retry import Retry
from toolcaddie.control.results.timeout import Timeout
from toolcaddie.control.results.truncate import Truncate
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.presets import Preset
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.engine.executor import Executor
from toolcaddie.ports import CacheStore, Middleware, ToolSource


class Executors:
    """Makes the executor of each preset. Presets with the same rules for cached results share a cache."""

    def __init__(
        self,
        *,
        source_of: Callable[[str], ToolSource],
        middleware: Sequence[Middleware],
        config: ToolConfig | None,
        cache_store: CacheStore,
        held: HeldResults,
        bounds: Bounds,
    ) -> None:
        self._source_of = source_of
        self._middleware = tuple(middleware)
        self._config = config
        self._cache_store = cache_store
        self._held = held
        self._bounds = bounds
        self._caches: dict[tuple[bool, bool, float], Cache] = {}

    @property
    def cache_statistics(self) -> Sequence[CacheStatistics]:
        return [cache.statistics for cache in self._caches.values()]

    def of(self, preset: Preset) -> Executor:
        """Returns the executor of a preset. Its layers, the outermost first, are in this order because:

        - a cut result names a handle that only one caller may use, so whole results are cached, and each use is cut again;
        - only final, checked results are cached;
        - a result that does not fit its output schema is a failure that may be retried;
        - each try has its own timeout.
        """
        config, limits = self._config, preset.limits
        return Executor(
            source_of=self._source_of,
            middleware=(
                Truncate(limits.result_bytes, media_bytes=limits.result_media_bytes, held=self._held),
                *self._middleware,
                *self._caching(preset),
                *((Retry(limits.tool_retries),) if limits.tool_retries else ()),
                *((ResultCheck(self._bounds),) if config is not None and config.validate_tool_response else ()),
                Timeout(most=limits.tool_seconds_most),
            ),
        )

    def _caching(self, preset: Preset) -> Sequence[Middleware]:
        """Returns the middleware that caches results, by the preset or by the agent's own configuration; empty: none."""
        rule = None if self._config is None else self._config.cache_results
        if rule is None:
            everything, unmarked, ttl, key = preset.cache == "everything", False, DEFAULT_TTL, None
        else:
            everything, unmarked, ttl, key = rule.enabled, rule.enabled, rule.ttl, rule.key
        if (preset.cache == "off" and rule is None) or ttl <= 0:
            return ()
        if (everything, unmarked, ttl) not in self._caches:
            more = {} if key is None else {"key": key}
            self._caches[everything, unmarked, ttl] = Cache(
                self._cache_store, everything=everything, unmarked=unmarked, ttl=ttl, **more
            )
        return (self._caches[everything, unmarked, ttl],)
