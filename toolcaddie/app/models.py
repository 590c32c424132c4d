"""The model that the settings name: its provider, its key and its fallbacks.

`asked_of` is for commands that only select and price; `served_by` for those that send requests: it refuses models that no
provider serves.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from toolcaddie.app.settings import FallbackSettings, Settings
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.errors import ConfigError, ProviderAuthError
from toolcaddie.parts import Secrets
from toolcaddie.ports import Provider
from toolcaddie.providers.named import split_model
from toolcaddie.providers.vendors import vendor_of_model
from toolcaddie.providers.wrapping import Entry
from toolcaddie.registry import Registry
from toolcaddie.runtime.models import KEYS, provider_named, provider_names
from toolcaddie.util.suggest import close_names, did_you_mean

PRACTICE = "practice"

OPENAI = "openai"

SECRETS = Secrets()

_LEAVE_OUT = "leave out --upstream-key-env (upstream.key_env)"

_TUNED = "ft"
"""The only prefix with a colon in the names of OpenAI's own models."""


def asked_of(settings: Settings) -> tuple[str, str]:
    """Returns the provider's name and the model that the settings name; the model is empty if the provider is to choose.

    With `upstream.provider` the model is one of that provider, whatever colons its name has (`mistral:7b` of Ollama); otherwise
    a provider in front of the model counts, or one that is named alone. If nothing is named it is openai, provided there is an
    address or a key, else the practice model. The name of a provider that is not installed is returned unchanged, so that its
    model is never priced as another provider's. Raises `ConfigError` for a slip in a provider's name.
    """
    names, model = provider_names(), settings.model or ""
    configured = settings.upstream.provider
    prefix, bare_model = split_model(model, names)
    if configured is not None:
        if configured not in names:
            raise ConfigError(f"upstream.provider: no provider {configured!r}; {did_you_mean(configured, names)}")
        return configured, bare_model if prefix == configured else model
    if prefix is not None:
        return prefix, bare_model
    if settings.upstream.url is not None:  # a server of one's own may have any names: llama:7b
        return OPENAI, model
    if model in names:
        return model, ""
    _refuse_slip(model, names)
    before, colon, bare_model = model.partition(":")
    if colon and before != _TUNED:
        return before, bare_model
    if _has_key(settings):
        return OPENAI, model
    return (likely_provider(model) or OPENAI, model) if model else (PRACTICE, "")


def served_by(settings: Settings) -> tuple[str, str]:
    """Returns the same as `asked_of`, for commands that send requests. Raises `ConfigError` for a model that no provider
    serves. The practice model calls tools, so it answers only if it is named, or if no model is named."""
    name, model = asked_of(settings)
    text = (settings.model or "").strip()
    if name == PRACTICE and model not in ("", PRACTICE):
        raise ConfigError(f"model {text!r}: the practice model is one, without names; write {PRACTICE} alone")
    if settings.upstream.provider is not None or settings.upstream.url is not None or name == PRACTICE:
        return name, model
    names = provider_names()
    if name not in names:
        raise ConfigError(f"model {text!r}: there is no provider {name!r}; {_advice(text, names)}")
    if not text or text == name or text.startswith(f"{name}:") or _has_key(settings):
        return name, model
    missing = "" if os.environ.get(KEYS.get(name, "")) else " and no key is set"
    raise ConfigError(f"{text!r} names no provider{missing}; {_advice(text, names)}")


def likely_provider(model: str) -> str | None:
    """Returns the vendor that serves models with such a name; None: unknown."""
    base_model = model.lower().removeprefix(f"{_TUNED}:")
    return vendor_of_model(base_model)


def _has_key(settings: Settings) -> bool:
    """Returns True if there is a key for a model that is named without a provider."""
    return bool(os.environ.get(settings.upstream.key_env or KEYS[OPENAI]))


def _advice(text: str, names: Sequence[str]) -> str:
    """Returns the advice for a text that names no provider."""
    model = text if likely_provider(text) else text.partition(":")[2]  # a tag follows a colon too: gpt-oss:20b
    likely = likely_provider(model)
    if likely is None:
        return f"write provider:model. There are {', '.join(names)}"
    variable = f", with its key in {KEYS[likely]}" if likely in KEYS and not os.environ.get(KEYS[likely]) else ""
    return f"did you mean {likely}:{model}{variable}?"


def _refuse_slip(model: str, names: Sequence[str]) -> None:
    """Raises `ConfigError` for a misspelt provider: `anthropc:claude-...` would otherwise pass as one of a package that is not
    installed."""
    prefix, colon, _ = model.partition(":")
    if colon and close_names(prefix, names, limit=1):
        raise ConfigError(f"model {model!r}: no provider {prefix!r}; {did_you_mean(prefix, names)}")


def provider_of(settings: Settings) -> Provider:
    """Returns the provider that the settings name. Raises `ConfigError` if it lacks a key or an address."""
    name, model = served_by(settings)
    variable = settings.upstream.key_env
    key = key_of(settings)
    if variable is not None:
        key = SECRETS.require(variable, what="the upstream's key", instead=_LEAVE_OUT)
    return provider_named(
        f"{name}:{model}", api_key=key, base_url=settings.upstream.url, bounds=settings.bounds
    ).provider


def fallbacks_of(settings: Settings) -> Sequence[Entry]:
    """Returns the fallbacks of that provider, in order. Raises `ConfigError` naming the one that lacks a key or an address."""
    entries = []
    for number, fallback in enumerate(settings.fallback, start=1):
        try:
            entries.append(_fallback(fallback, settings.bounds))
        except ConfigError as error:
            raise ConfigError(f"fallback.{number}: {error}") from error
    return entries


def _fallback(fallback: FallbackSettings, bounds: Bounds) -> Entry:
    variable = fallback.key_env
    key = None if variable is None else SECRETS.require(variable, what=f"the key of {fallback.model}")
    return provider_named(fallback.model, api_key=key, base_url=fallback.url, bounds=bounds)


def key_variable(settings: Settings) -> str | None:
    """Returns the environment variable of the upstream's key; None: no such variable is known.

    A provider of another package names its variable in an attribute `key_env`.
    """
    if settings.upstream.key_env is not None:
        return settings.upstream.key_env
    name, _ = asked_of(settings)
    return KEYS.get(name) or getattr(Registry().factory("provider", name), "key_env", None)


def key_advice(error: ProviderAuthError, settings: Settings) -> str:
    """Returns the advice for a key that a provider refused: the variable that holds it, if it is known."""
    upstream = asked_of(settings)[0]
    provider = error.attempts[-1].provider if error.attempts else upstream
    variable = key_variable(settings) if provider == upstream else _variable_of_fallback(settings, provider)
    if variable is None:
        return f"the key of {provider} was refused"
    if SECRETS.get(variable) is None:
        return f"no key was sent: put it into {variable}, or name another variable with --upstream-key-env"
    return f"the key in {variable} was refused; correct it, or name another variable with --upstream-key-env"


def _variable_of_fallback(settings: Settings, name: str) -> str | None:
    variables = (each.key_env for each in settings.fallback if split_model(each.model, (name,))[0] is not None)
    return next((variable for variable in variables if variable), None) or KEYS.get(name)


def key_of(settings: Settings) -> str | None:
    """Returns the upstream's key, from the environment."""
    return SECRETS.get(key_variable(settings))


def has_own_key(settings: Settings) -> bool:
    """Returns True if the upstream is asked with a key of ours, so that no client's key is forwarded.

    A provider whose variable is unknown here finds its key itself.
    """
    return key_variable(settings) is None or key_of(settings) is not None
