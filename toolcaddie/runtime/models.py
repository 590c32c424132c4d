"""The model side of a runtime: providers by name, and the wrappers around the one that is asked.

provider_named("anthropic:claude-sonnet-5-5")      # the key from ANTHROPIC_API_KEY
provider_named("ollama:qwen3:8b", base_url="http://gpu-box:11434/v1")
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import Preset
from toolcaddie.core.tool_config import FallbackProvider
from toolcaddie.ports import Provider
from toolcaddie.providers.fallback import Fallback
from toolcaddie.providers.forced import Forced
from toolcaddie.providers.named import split_model
from toolcaddie.providers.retry import Retry
from toolcaddie.providers.step_statistics import StepStatistics
from toolcaddie.providers.vendors import VENDORS
from toolcaddie.providers.wrapping import Entry
from toolcaddie.registry import Registry
from toolcaddie.util.suggest import close_names

KEYS: Mapping[str, str] = {name: vendor.key_env for name, vendor in VENDORS.items() if not vendor.finds_key}
"""The variable of a provider's key. Providers that are not listed look for their own."""

DEFAULT_MODELS: Mapping[str, str] = {
    name: vendor.default_model for name, vendor in sorted(VENDORS.items()) if vendor.default_model
}
"""Who is asked of a provider that a fallback names without a model. The others serve whatever was put on them."""

_PRACTICE = "practice"
_MEMBERS = ("name", "complete", "stream", "models", "close")
"""The members of a provider."""


def provider_names() -> list[str]:
    """The providers that are installed, ours and other packages'."""
    return Registry().names("provider")


def provider_named(
    text: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    environ: Mapping[str, str] | None = None,
    bounds: Bounds = DEFAULT,
) -> Entry:
    """The provider and model that `provider:model` names; its key from `api_key` or its own variable. A key goes to the address
    it was given for: where a `base_url` is named, only `api_key` goes there.

    Raises `ConfigError` where no such provider is installed, or it lacks a key or an address.
    """
    names = provider_names()
    name, model = split_model(text, names)
    if name is None:
        if text in names:
            name, model = text, ""
        else:
            head, _, rest = text.partition(":")
            close = close_names(head, names, limit=1) if rest else []
            form = f"did you mean '{close[0]}:{rest}'?" if close else "write provider:model, such as openai:gpt-5-mini."
            raise ConfigError(f"{text!r} names no provider; {form} There are {', '.join(names)}")
    environ = os.environ if environ is None else environ
    key = api_key or (environ.get(KEYS[name]) or None if name in KEYS and base_url is None else None)
    if name in KEYS and key is None and base_url is None:
        raise ConfigError(f"the provider {name!r} needs a key; put it into the environment variable {KEYS[name]}")
    more = {} if bounds == DEFAULT else {"bounds": bounds}  # so that it is asked only of who must know it
    config = {"base_url": base_url, "api_key": key, "model": model or None, **more}
    provider: Provider = Registry().make("provider", name, config)
    return Entry(provider=provider, model=model)


def entry_from(provider: Provider | str | Entry) -> Entry:
    """Returns the provider to ask, and its model. Raises `ConfigError` for what is no provider, before any request is made."""
    if isinstance(provider, str):
        provider = provider_named(provider)
    entry = provider if isinstance(provider, Entry) else Entry(provider=provider)
    if wrong := _wrong_with(entry.provider):
        raise ConfigError(f"{wrong}; see ports.Provider, or name one as provider:model")
    return entry


def _wrong_with(provider: Any) -> str:
    """Returns why this is no provider; empty: it has all that one needs."""
    if isinstance(provider, type):
        return f"{provider.__name__} is a class: give an instance, {provider.__name__}()"
    kind = type(provider).__name__
    missing = [name for name in _MEMBERS if not hasattr(provider, name)]
    if missing:
        return f"{kind} is no provider: it lacks {', '.join(missing)}"
    if inspect.iscoroutinefunction(provider.stream):
        return f"{kind}.stream must give an async iterator: `async def` with a `yield`, or a plain `def`"
    return "" if isinstance(provider.name, str) and provider.name else f"{kind}.name must be a text"


def params_of(wanted: FallbackProvider) -> dict[str, Any]:
    """Returns what a fallback is asked with, in the words of chat completions."""
    vendor = VENDORS.get(wanted.provider)
    limit = "max_tokens" if vendor is None else vendor.output_limit
    params = {"temperature": wanted.temperature, limit: wanted.max_tokens}
    return {name: value for name, value in params.items() if value is not None}


def entry_of(wanted: FallbackProvider) -> Entry:
    """The fallback that a `ToolConfig` names. Raises `ConfigError`, also where neither names a model."""
    named = provider_named(f"{wanted.provider}:{wanted.model}", api_key=wanted.api_key, base_url=wanted.base_url)
    own = str(getattr(named.provider, "default_model", ""))
    model = wanted.model or own or DEFAULT_MODELS.get(wanted.provider, "")
    if not model and wanted.provider != _PRACTICE:
        raise ConfigError(
            f'toolConfig.fallbackProvider: {wanted.provider!r} has no default model; name one, "model": "...". '
            f"There are defaults of {', '.join(DEFAULT_MODELS)}"
        )
    return Entry(provider=named.provider, model=model, params=params_of(wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSide:
    """The provider to ask, its fallbacks, and how often each is tried."""

    provider: Provider
    attempts: int = 1
    """Requests to one provider until it answers; 1: an error is final."""
    fallbacks: tuple[Entry, ...] = ()
    """The providers to try in order if those before them fail, or cannot call tools."""
    forced_fallback: Entry | None = None
    """The provider to try if the first one answers without a tool call although it must call one."""
    capabilities: Sequence[Capabilities]
    step_statistics: StepStatistics

    def __post_init__(self) -> None:
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int) or self.attempts < 1:
            raise ConfigError(f"attempts must be a whole number from 1, not {self.attempts!r}")
        strangers = [row for row in self.capabilities if not isinstance(row, Capabilities)]
        if strangers:
            kind = type(strangers[0]).__name__
            raise ConfigError(f"capabilities must be rows, not {kind}; make one by capabilities_from({{...}})")

    def plain(self) -> Provider:
        """The provider under its retries and fallbacks."""
        first = self._retried(self.provider)
        if not self.fallbacks:
            return first
        rest = [_with_provider(entry, self._retried(entry.provider)) for entry in self.fallbacks]
        return Fallback([Entry(provider=first), *rest], capabilities=self.capabilities)

    def forcing(self, preset: Preset) -> Provider:
        """The same, where a tool must be called."""
        fallback = self.forced_fallback
        return Forced(
            self.plain(),
            fallback=None if fallback is None else _with_provider(fallback, self._retried(fallback.provider)),
            attempts=preset.limits.forced_attempts,
            on_not_called=preset.on_not_called,
            capabilities=self.capabilities,
            statistics=self.step_statistics,
        )

    async def close(self) -> None:
        others = [
            entry.provider for entry in (*self.fallbacks, *([self.forced_fallback] if self.forced_fallback else ()))
        ]
        for provider in (self.provider, *others):
            await provider.close()

    def _retried(self, provider: Provider) -> Provider:
        return provider if self.attempts == 1 else Retry(provider, attempts=self.attempts)


def _with_provider(entry: Entry, provider: Provider) -> Entry:
    return Entry(provider=provider, model=entry.model, params=entry.params, attempts=entry.attempts)
