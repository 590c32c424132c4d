"""Makes providers from names, and wraps the provider of a runtime so that failed requests are repeated and fallbacks are asked.

provider_named("anthropic:claude-sonnet-5-5")      # the key from ANTHROPIC_API_KEY
provider_named("ollama:qwen3:8b", base_url="http://gpu-box:11434/v1")
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.bounds import DEFAULT
from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import Preset
from toolcaddie.core.tool_config import FallbackProvider
from toolcaddie.parts import Parts
from toolcaddie.ports import Provider
from toolcaddie.providers.fallback import Fallback
from toolcaddie.providers.forced import Forced
from toolcaddie.providers.named import split_model
from toolcaddie.providers.retry import Retry
from toolcaddie.providers.step_statistics import StepStatistics
from toolcaddie.providers.vendors import VENDORS
from toolcaddie.providers.wrapping import Entry, capabilities_for
from toolcaddie.registry import Registry
from toolcaddie.util.suggest import close_names

DEFAULT_MODELS: Mapping[str, str] = {
    name: vendor.default_model for name, vendor in sorted(VENDORS.items()) if vendor.default_model
}
"""The models of fallbacks that name only a provider, by provider. Providers that are absent here have no default model."""

_PRACTICE = "practice"
"""Name of the provider that follows rules instead of a model, and so needs no model name."""
_MEMBERS = ("name", "complete", "stream", "models", "close")
"""The members that an object must have to be a provider."""


def provider_names() -> list[str]:
    """Returns the names of the installed providers, those of Toolcaddie and those of other packages."""
    return Registry().names("provider")


def provider_named(
    text: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    config: Mapping[str, Any] | None = None,
    registry: Registry | None = None,
    parts: Parts | None = None,
) -> Entry:
    """Returns the provider and the model that the text `provider:model` names.

    The key is `api_key`, or the value of the provider's own environment variable. The variable is read only for the provider's
    own address, so that a key is never sent to another address. `config` has further settings for the provider's factory.
    `registry` finds the factory, which gets the services in `parts`.

    Raises `ConfigError` if no such provider is installed, or if its key or address is missing.
    """
    registry = registry or Registry()
    names = registry.names("provider")
    name, model = split_model(text, names)
    if name is None:
        if text in names:
            name, model = text, ""
        else:
            head, _, rest = text.partition(":")
            close = close_names(head, names, limit=1) if rest else []
            form = f"did you mean '{close[0]}:{rest}'?" if close else "write provider:model, such as openai:gpt-5-mini."
            raise ConfigError(f"{text!r} names no provider; {form} There are {', '.join(names)}")
    parts = parts or Parts()
    arguments = {"base_url": base_url, "api_key": api_key, "model": model}
    more = (
        {} if parts.bounds == DEFAULT else {"bounds": parts.bounds}
    )  # a factory that has no such parameter still works
    settings = {
        **dict.fromkeys(arguments),
        **(config or {}),
        **{key: value for key, value in arguments.items() if value},
    }
    provider: Provider = registry.make("provider", name, {**settings, **more}, parts)
    if parts.breakers is not None and (break_with := getattr(provider, "break_with", None)) is not None:
        break_with(parts.breakers)
    return Entry(provider=provider, model=model)


def entry_from(provider: Provider | str | Entry) -> Entry:
    """Returns the provider to ask, with its model. Raises `ConfigError` for an object that is no provider, before any request is
    made."""
    if isinstance(provider, str):
        provider = provider_named(provider)
    entry = provider if isinstance(provider, Entry) else Entry(provider=provider)
    if wrong := _wrong_with(entry.provider):
        raise ConfigError(f"{wrong}; see ports.Provider, or name one as provider:model")
    return entry


def _wrong_with(provider: Any) -> str:
    """Returns the reason why an object is no provider; empty: it has every member that a provider needs."""
    if isinstance(provider, type):
        return f"{provider.__name__} is a class: give an instance, {provider.__name__}()"
    kind = type(provider).__name__
    missing = [name for name in _MEMBERS if not hasattr(provider, name)]
    if missing:
        return f"{kind} is not a provider: it lacks {', '.join(missing)}"
    if inspect.iscoroutinefunction(provider.stream):
        return f"{kind}.stream must give an async iterator: `async def` with a `yield`, or a plain `def`"
    return "" if isinstance(provider.name, str) and provider.name else f"{kind}.name must be a non-empty string"


def params_of(fallback: FallbackProvider) -> dict[str, Any]:
    """Returns the request parameters of a fallback, with their names in the chat completions API."""
    vendor = VENDORS.get(fallback.provider)
    limit = "max_tokens" if vendor is None else vendor.output_limit
    params = {"temperature": fallback.temperature, limit: fallback.max_tokens}
    return {name: value for name, value in params.items() if value is not None}


def entry_of(fallback: FallbackProvider) -> Entry:
    """Returns the fallback that a `ToolConfig` names. Raises `ConfigError` if it cannot be made, for example because it names no
    model and its provider has no default model."""
    entry = provider_named(
        f"{fallback.provider}:{fallback.model}",
        api_key=fallback.api_key,
        base_url=fallback.base_url,
        config=fallback.config,
    )
    own = str(getattr(entry.provider, "default_model", ""))
    model = fallback.model or own or DEFAULT_MODELS.get(fallback.provider, "")
    if not model and fallback.provider != _PRACTICE:
        raise ConfigError(
            f'toolConfig.fallbackProvider: {fallback.provider!r} has no default model; name one, "model": "...". '
            f"There are defaults of {', '.join(DEFAULT_MODELS)}"
        )
    return Entry(provider=entry.provider, model=model, params=params_of(fallback))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSide:
    """The provider to ask, its fallbacks, and the number of attempts."""

    provider: Provider
    attempts: int = 1
    """The largest number of requests to one provider for one answer; 1: an error is not retried."""
    fallbacks: tuple[Entry, ...] = ()
    """The providers to ask in this order if those before them fail, or cannot call tools."""
    forced_fallback: Entry | None = None
    """The provider to ask if the first one must call a tool and answers without a tool call."""
    capabilities: Sequence[Capabilities]
    step_statistics: StepStatistics

    def __post_init__(self) -> None:
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int) or self.attempts < 1:
            raise ConfigError(f"attempts must be a whole number from 1, not {self.attempts!r}")
        strangers = [row for row in self.capabilities if not isinstance(row, Capabilities)]
        if strangers:
            kind = type(strangers[0]).__name__
            raise ConfigError(f"capabilities must be rows, not {kind}; make one by capabilities_from({{...}})")

    @property
    def others(self) -> Sequence[Entry]:
        """The providers that may answer in the place of the first one."""
        return self.fallbacks if self.forced_fallback is None else (*self.fallbacks, self.forced_fallback)

    def write_programs(self, first: Capabilities) -> bool:
        """Returns True if the first model, with these capabilities, and all others that may answer in its place can write
        programs: they get the same tools."""
        return first.programs and all(capabilities_for(entry, self.capabilities).programs for entry in self.others)

    def plain(self) -> Provider:
        """Returns the provider with its retries and fallbacks."""
        first = self._retried(self.provider)
        if not self.fallbacks:
            return first
        rest = [_with_provider(entry, self._retried(entry.provider)) for entry in self.fallbacks]
        return Fallback([Entry(provider=first), *rest], capabilities=self.capabilities)

    def forcing(self, preset: Preset) -> Provider:
        """Returns the provider for requests that must call a tool: the provider of `plain`, which is asked again until it calls a
        tool, and then `forced_fallback`."""
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
        for provider in (self.provider, *(entry.provider for entry in self.others)):
            await provider.close()

    def _retried(self, provider: Provider) -> Provider:
        return provider if self.attempts == 1 else Retry(provider, attempts=self.attempts)


def _with_provider(entry: Entry, provider: Provider) -> Entry:
    return Entry(provider=provider, model=entry.model, params=entry.params, attempts=entry.attempts)
