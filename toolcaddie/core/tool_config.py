"""`toolConfig` of an agent: forced tool use, the fallback provider, timeouts and caching of results.

    ToolConfig.of({"forceToolUse": True, "maxRetries": 3})
    ToolConfig.of({"force_tool_use": True, "tool_timeout": 5.0, "cache_results": {"ttl": 60}})

Times are milliseconds under keys in camelCase, for compatibility, and seconds under keys in snake_case. Inside the cache table
the spelling of its own key decides: milliseconds inside `cacheResults`, seconds inside `cache_results`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from toolcaddie.core.errors import ConfigError
from toolcaddie.util.suggest import did_you_mean

OnToolNotCalled = Literal["retry", "error", "warn", "allow"]
CacheKey = Callable[[str, Mapping[str, Any]], str]

_POLICIES: tuple[OnToolNotCalled, ...] = ("retry", "error", "warn", "allow")
_MANY_RETRIES = 10
_SHORT_TIMEOUT = 1.0
_MILLISECONDS = 1_000.0
_QUOTED = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackProvider:
    """The provider that answers if the agent's own provider calls no tool."""

    provider: str
    model: str = ""
    """Empty: the provider's default, if it has one."""
    api_key: str | None = field(default=None, repr=False)
    """None: the key is read from the provider's environment variable; with a `base_url` there is no key then."""
    base_url: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further settings of the provider's factory, such as the table `[provider.NAME]` of a settings file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheResults:
    """Caching of results for equal calls."""

    enabled: bool = True
    ttl: float = 300.0
    """Seconds; 0: nothing is cached."""
    key: CacheKey | None = None
    """Function that makes the cache key from a tool's name and arguments; None: the key is the name, a colon and the canonical
    JSON of the arguments."""
    max_size: int = 100
    """The largest number of entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConfig:
    """Settings of an agent's tool use. Times are seconds. With the defaults the model itself decides whether it calls a tool."""

    force_tool_use: bool = False
    on_tool_not_called: OnToolNotCalled = "retry"
    """Outcome if all attempts and the fallback called no tool: an error (`error`), the last answer with a warning (`warn`), or
    the last answer without one (`allow`, `retry`)."""
    max_retries: int = 3
    """Number of attempts, including the first; 0 and 1 both mean a single attempt."""
    tool_timeout: float | None = None
    """Upper bound for the timeout of every tool; None: the timeout of the tool or the general one holds."""
    fallback_provider: FallbackProvider | None = None
    validate_tool_response: bool = False
    """True: results are validated against the output schema of their tool."""
    cache_results: CacheResults | None = None
    """None: only results of tools that declare themselves cacheable are cached."""

    @staticmethod
    def of(mapping: Mapping[str, Any]) -> ToolConfig:
        """Reads plain data. Raises `ConfigError` naming the wrong key and the allowed values."""
        table = _Table(mapping, "toolConfig", _KEYS)
        cache, cache_unit = table.nested("cacheResults")
        timeout, timeout_unit = table.number("toolTimeout", above=0.0)
        return ToolConfig(
            force_tool_use=table.flag("forceToolUse", False),
            on_tool_not_called=table.word("onToolNotCalled", "retry"),
            max_retries=table.count("maxRetries", 3, least=0),
            tool_timeout=None if timeout is None else timeout / timeout_unit,
            fallback_provider=_fallback(table.nested("fallbackProvider")[0]),
            validate_tool_response=table.flag("validateToolResponse", False),
            cache_results=_cache(cache, cache_unit),
        )

    @property
    def attempts(self) -> int:
        """The largest number of requests to the agent's own provider."""
        return max(1, self.max_retries)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Settings that are allowed but probably mistakes, as sentences."""
        sentences = []
        if self.max_retries > _MANY_RETRIES:
            sentences.append(
                f"maxRetries is {self.max_retries}: more than {_MANY_RETRIES} attempts cost much and help little"
            )
        if self.tool_timeout is not None and self.tool_timeout < _SHORT_TIMEOUT:
            sentences.append(
                f"toolTimeout is {self.tool_timeout * _MILLISECONDS:g} ms: most tools need more than a second"
            )
        if self.cache_results is not None and self.cache_results.enabled and self.cache_results.ttl == 0:
            sentences.append("cacheResults.ttl is 0: nothing is cached")
        return tuple(sentences)


_KEYS = (
    "forceToolUse",
    "onToolNotCalled",
    "maxRetries",
    "toolTimeout",
    "fallbackProvider",
    "validateToolResponse",
    "cacheResults",
)
_FALLBACK_KEYS = ("provider", "model", "apiKey", "baseUrl", "temperature", "maxTokens")
_CACHE_KEYS = ("enabled", "ttl", "key", "maxSize")


def _fallback(mapping: Mapping[str, Any] | None) -> FallbackProvider | None:
    if mapping is None:
        return None
    table = _Table(mapping, "toolConfig.fallbackProvider", _FALLBACK_KEYS)
    return FallbackProvider(
        provider=table.required("provider"),
        model=table.text("model") or "",
        api_key=table.text("apiKey"),
        base_url=table.text("baseUrl"),
        temperature=table.number("temperature", least=0.0)[0],
        max_tokens=table.count("maxTokens", None, least=1),
    )


def _cache(mapping: Mapping[str, Any] | None, unit: float) -> CacheResults | None:
    if mapping is None:
        return None
    table = _Table(mapping, "toolConfig.cacheResults", _CACHE_KEYS)
    ttl = table.number("ttl", least=0.0)[0]
    return CacheResults(
        enabled=table.flag("enabled", True),
        ttl=300.0 if ttl is None else ttl / unit,
        key=table.function("key"),
        max_size=table.count("maxSize", 100, least=1),
    )


class _Table:
    """A table that accepts both spellings of its keys. A value of None counts as a missing key."""

    def __init__(self, mapping: Any, name: str, keys: tuple[str, ...]) -> None:
        if not isinstance(mapping, Mapping):
            raise ConfigError(f"{name} must be a table, not {type(mapping).__name__}")
        self._name = name
        self._values: dict[str, Any] = {}
        self._spelled: dict[str, str] = {}
        by_spelling = {spelling: key for key in keys for spelling in (key, _snake(key))}
        for spelling, value in mapping.items():
            if spelling not in by_spelling:
                raise ConfigError(f"{name}: unknown key {spelling!r}; {did_you_mean(str(spelling), keys)}")
            key = by_spelling[spelling]
            if key in self._values:
                raise ConfigError(f"{name}: {spelling!r} and {self._spelled[key]!r} are the same key; give one")
            self._spelled[key] = spelling
            self._values[key] = value

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def word(self, key: str, default: OnToolNotCalled) -> OnToolNotCalled:
        value = self._values.get(key)
        if value is None:
            return default
        for policy in _POLICIES:
            if value == policy:
                return policy
        raise self._wrong(key, f"one of {', '.join(_POLICIES)}")

    def count(self, key: str, default: Any, *, least: int) -> Any:
        value = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():  # JavaScript writes every number as a float
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self._wrong(key, f"a whole number from {least}")
        return value

    def number(self, key: str, *, least: float | None = None, above: float | None = None) -> tuple[float | None, float]:
        """Returns the number, and the number of its units of time in a second (1,000 or 1)."""
        value = self._values.get(key)
        unit = self._unit(key)
        if value is None:
            return None, unit
        bad = isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)
        if bad or (least is not None and value < least) or (above is not None and value <= above):
            raise self._wrong(key, f"a number above {above:g}" if above is not None else f"a number from {least:g}")
        return float(value), unit

    def text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self._wrong(key, "a text")
        return value

    def required(self, key: str) -> str:
        value = self.text(key)
        if value is None:
            raise ConfigError(f"{self._name}: {key!r} is missing")
        return value

    def function(self, key: str) -> Any:
        value = self._values.get(key)
        if value is not None and not callable(value):
            raise self._wrong(key, "a function of the tool's name and its arguments")
        return value

    def nested(self, key: str) -> tuple[Any, float]:
        """Returns the inner table, and the number of its units of time in a second (1,000 or 1)."""
        return self._values.get(key), self._unit(key)

    def _unit(self, key: str) -> float:
        return _MILLISECONDS if self._spelled.get(key) == key else 1.0

    def _wrong(self, key: str, expected: str) -> ConfigError:
        value = "the given value" if key == "apiKey" else repr(self._values[key])[:_QUOTED]
        return ConfigError(f"{self._name}: {self._spelled[key]!r} must be {expected}, not {value}")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
