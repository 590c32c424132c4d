"""The model that the settings name: its provider and key, or why none can be asked.

`asked_of` is for whoever only selects and prices; `served_by` for whoever will ask, and refuses what nobody could answer.
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
"""The one word that OpenAI's own models have in front of a colon."""


def asked_of(settings: Settings) -> tuple[str, str]:
    """The provider's name and the model, as the settings name them; the model is empty where the provider is to choose.

    With `upstream.provider` the model is that one's own, whatever colons are in its name (`mistral:7b` of Ollama); otherwise
    a provider in front of the model counts, or one that is named alone. Where nothing was named it is openai, if there is an
    address or a key, else the practice model. A name that is no installed provider's stands as it is, so that its model is
    priced by what is known of it and never as somebody else's. Raises `ConfigError` for a slip in a provider's name.
    """
    names, model = provider_names(), settings.model or ""
    configured = settings.upstream.provider
    prefix, rest = split_model(model, names)
    if configured is not None:
        if configured not in names:
            raise ConfigError(f"upstream.provider: no provider {configured!r}; {did_you_mean(configured, names)}")
        return configured, rest if prefix == configured else model
    if prefix is not None:
        return prefix, rest
    if settings.upstream.url is not None:  # a server of one's own may have any names: llama:7b
        return OPENAI, model
    if model in names:
        return model, ""
    _refuse_slip(model, names)
    before, colon, rest = model.partition(":")
    if colon and before != _TUNED:
        return before, rest
    if _has_key(settings):
        return OPENAI, model
    return (likely_provider(model) or OPENAI, model) if model else (PRACTICE, "")


def served_by(settings: Settings) -> tuple[str, str]:
    """As `asked_of`, for whoever is going to ask. Raises `ConfigError` where a model is named that nobody can be asked for: the
    practice model runs tools, and answers only where it or nothing was named."""
    name, model = asked_of(settings)
    named = (settings.model or "").strip()
    if name == PRACTICE and model not in ("", PRACTICE):
        raise ConfigError(f"model {named!r}: the practice model is one, without names; write {PRACTICE} alone")
    if settings.upstream.provider is not None or settings.upstream.url is not None or name == PRACTICE:
        return name, model
    names = provider_names()
    if name not in names:
        raise ConfigError(f"model {named!r}: there is no provider {name!r}; {_meant(named, names)}")
    if not named or named == name or named.startswith(f"{name}:") or _has_key(settings):
        return name, model
    missing = "" if os.environ.get(KEYS.get(name, "")) else " and no key is set"
    raise ConfigError(f"{named!r} names no provider{missing}; {_meant(named, names)}")


def likely_provider(model: str) -> str | None:
    """Who serves models of such a name; None: nobody we know of."""
    known = model.lower().removeprefix(f"{_TUNED}:")
    return vendor_of_model(known)


def _has_key(settings: Settings) -> bool:
    """Whether there is a key that a model without a provider is asked with."""
    return bool(os.environ.get(settings.upstream.key_env or KEYS[OPENAI]))


def _meant(named: str, names: Sequence[str]) -> str:
    """What to write instead."""
    model = named if likely_provider(named) else named.partition(":")[2]  # a tag stands behind a colon too: gpt-oss:20b
    likely = likely_provider(model)
    if likely is None:
        return f"write provider:model. There are {', '.join(names)}"
    variable = f", with its key in {KEYS[likely]}" if likely in KEYS and not os.environ.get(KEYS[likely]) else ""
    return f"did you mean {likely}:{model}{variable}?"


def _refuse_slip(model: str, names: Sequence[str]) -> None:
    """`anthropc:claude-...` would otherwise be taken for a provider of another package that is not here."""
    prefix, colon, _ = model.partition(":")
    if colon and close_names(prefix, names, limit=1):
        raise ConfigError(f"model {model!r}: no provider {prefix!r}; {did_you_mean(prefix, names)}")


def provider_of(settings: Settings) -> Provider:
    """Returns the model's API that the settings name. Raises `ConfigError` where it lacks a key or an address."""
    name, model = served_by(settings)
    variable = settings.upstream.key_env
    key = key_of(settings)
    if variable is not None:
        key = SECRETS.require(variable, what="the upstream's key", instead=_LEAVE_OUT)
    return provider_named(
        f"{name}:{model}", api_key=key, base_url=settings.upstream.url, bounds=settings.bounds
    ).provider


def fallbacks_of(settings: Settings) -> Sequence[Entry]:
    """Returns who is asked where that one fails. Raises `ConfigError` saying which of them lacks what."""
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
    """Returns the environment variable of the upstream's key; None: it takes none that we know of.

    A provider of another package names its own by an attribute `key_env`."""
    if settings.upstream.key_env is not None:
        return settings.upstream.key_env
    name, _ = asked_of(settings)
    return KEYS.get(name) or getattr(Registry().factory("provider", name), "key_env", None)


def key_advice(error: ProviderAuthError, settings: Settings) -> str:
    """Returns what to do where a provider refuses its key: the variable it was taken from, if we know it."""
    own = asked_of(settings)[0]
    who = error.attempts[-1].provider if error.attempts else own
    variable = key_variable(settings) if who == own else _variable_of_fallback(settings, who)
    if variable is None:
        return f"the key of {who} was refused"
    if SECRETS.get(variable) is None:
        return f"no key was sent: put it into {variable}, or name another variable with --upstream-key-env"
    return f"the key in {variable} was refused; correct it, or name another variable with --upstream-key-env"


def _variable_of_fallback(settings: Settings, name: str) -> str | None:
    named = (each.key_env for each in settings.fallback if split_model(each.model, (name,))[0] is not None)
    return next((variable for variable in named if variable), None) or KEYS.get(name)


def key_of(settings: Settings) -> str | None:
    """Returns the upstream's key, from the environment."""
    return SECRETS.get(key_variable(settings))


def has_own_key(settings: Settings) -> bool:
    """Returns whether the upstream is asked with a key of ours, so that no client's is passed on.

    A provider whose variable we do not know sees to its key itself."""
    return key_variable(settings) is None or key_of(settings) is not None
