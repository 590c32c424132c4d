"""`toolConfig` of an agent, as source 003 words it: whether tools must be used, and what happens when they are not.

    ToolConfig.of({"forceToolUse": True, "maxRetries": 3})
    ToolConfig.of({"force_tool_use": True, "tool_timeout": 5.0, "cache_results": {"ttl": 60}})

Keys in camelCase are the source's: their times are milliseconds. Keys in snake_case are ours, in seconds; so is what stands
inside `cache_results`, while inside `cacheResults` it is milliseconds.
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
    """Who answers where the agent's own provider calls no tool."""

    provider: str
    model: str = ""
    """Empty: the provider's default, where it has one."""
    api_key: str | None = field(default=None, repr=False)
    """None: the provider's own variable, and none where a `base_url` is given."""
    base_url: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheResults:
    """Results of equal calls are kept."""

    enabled: bool = True
    ttl: float = 300.0
    """Seconds; 0: nothing is kept."""
    key: CacheKey | None = None
    """Of a tool's name and arguments; None: the name, a colon and the canonical JSON of the arguments."""
    max_size: int = 100
    """Entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConfig:
    """Times are seconds. Without one, an agent calls tools when its model wants to."""

    force_tool_use: bool = False
    on_tool_not_called: OnToolNotCalled = "retry"
    """After all attempts and the fallback: an error, or the last answer, with a warning or without (`allow`, `retry`)."""
    max_retries: int = 3
    """Attempts in all, the first included; 0 and 1 are both a single one."""
    tool_timeout: float | None = None
    """An upper bound for every tool; None: each tool's own, or the general one."""
    fallback_provider: FallbackProvider | None = None
    validate_tool_response: bool = False
    """A tool's result is held against its output schema."""
    cache_results: CacheResults | None = None
    """None: nothing is cached but what a tool itself says may be."""

    @staticmethod
    def of(mapping: Mapping[str, Any]) -> ToolConfig:
        """Read plain data. Raises `ConfigError` naming the key that is wrong, and what may stand there."""
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
        """Requests to the agent's own provider, at most."""
        return max(1, self.max_retries)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed and probably not meant."""
        found = []
        if self.max_retries > _MANY_RETRIES:
            found.append(
                f"maxRetries is {self.max_retries}: more than {_MANY_RETRIES} attempts cost much and help little"
            )
        if self.tool_timeout is not None and self.tool_timeout < _SHORT_TIMEOUT:
            found.append(f"toolTimeout is {self.tool_timeout * _MILLISECONDS:g} ms: most tools need more than a second")
        if self.cache_results is not None and self.cache_results.enabled and self.cache_results.ttl == 0:
            found.append("cacheResults.ttl is 0: nothing is cached")
        return tuple(found)


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


def _fallback(given: Mapping[str, Any] | None) -> FallbackProvider | None:
    if given is None:
        return None
    table = _Table(given, "toolConfig.fallbackProvider", _FALLBACK_KEYS)
    return FallbackProvider(
        provider=table.required("provider"),
        model=table.text("model") or "",
        api_key=table.text("apiKey"),
        base_url=table.text("baseUrl"),
        temperature=table.number("temperature", least=0.0)[0],
        max_tokens=table.count("maxTokens", None, least=1),
    )


def _cache(given: Mapping[str, Any] | None, unit: float) -> CacheResults | None:
    if given is None:
        return None
    table = _Table(given, "toolConfig.cacheResults", _CACHE_KEYS)
    ttl = table.number("ttl", least=0.0)[0]
    return CacheResults(
        enabled=table.flag("enabled", True),
        ttl=300.0 if ttl is None else ttl / unit,
        key=table.function("key"),
        max_size=table.count("maxSize", 100, least=1),
    )


class _Table:
    """A table under both spellings of its keys. A value of None is as if the key were not there."""

    def __init__(self, given: Any, name: str, keys: tuple[str, ...]) -> None:
        if not isinstance(given, Mapping):
            raise ConfigError(f"{name} must be a table, not {type(given).__name__}")
        self._name = name
        self._values: dict[str, Any] = {}
        self._spelled: dict[str, str] = {}
        by_spelling = {spelling: key for key in keys for spelling in (key, _snake(key))}
        for spelling, value in given.items():
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
        for known in _POLICIES:
            if value == known:
                return known
        raise self._wrong(key, f"one of {', '.join(_POLICIES)}")

    def count(self, key: str, default: Any, *, least: int) -> Any:
        value = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():  # JSON of other languages knows no other numbers
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self._wrong(key, f"a whole number from {least}")
        return value

    def number(self, key: str, *, least: float | None = None, above: float | None = None) -> tuple[float | None, float]:
        """The number, and how many of its unit are a second."""
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
        """The inner table, and how many of its unit of time are a second."""
        return self._values.get(key), self._unit(key)

    def _unit(self, key: str) -> float:
        return _MILLISECONDS if self._spelled.get(key) == key else 1.0

    def _wrong(self, key: str, wanted: str) -> ConfigError:
        given = "what is given" if key == "apiKey" else repr(self._values[key])[:_QUOTED]
        return ConfigError(f"{self._name}: {self._spelled[key]!r} must be {wanted}, not {given}")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
