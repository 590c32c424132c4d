"""Whom the settings name to be asked: the provider and its model, or why nobody can be.

`asked_of` is for whoever only selects and prices; `served_by` for whoever will ask, and refuses what nobody could answer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from toolcaddie.app.settings import Settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.providers.named import split_model
from toolcaddie.runtime.models import KEYS, provider_names
from toolcaddie.util.suggest import close_names

PRACTICE = "practice"

OPENAI = "openai"

_FAMILIES: Mapping[str, str] = {
    "chatgpt-": "openai",
    "claude": "anthropic",
    "codestral": "mistral",
    "deepseek": "deepseek",
    "gemini": "gemini",
    "gpt-oss": "ollama",
    "gpt-": "openai",
    "grok": "xai",
    "llama": "ollama",
    "ministral": "mistral",
    "mistral": "mistral",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "qwen": "ollama",
}
"""How the names of models begin, and who serves them; what begins longer stands first."""

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
            raise ConfigError(f"upstream.provider: no provider {configured!r}; {_choices(configured, names)}")
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
    return next((provider for start, provider in _FAMILIES.items() if known.startswith(start)), None)


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
        raise ConfigError(f"model {model!r}: no provider {prefix!r}; {_choices(prefix, names)}")


def _choices(name: str, names: Sequence[str]) -> str:
    close = close_names(name, names, limit=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}there are {', '.join(names)}"
