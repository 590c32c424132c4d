"""The model that the settings name: its provider, its key and its fallbacks.

Commands that only select tools or compute prices use `asked_of`. Commands that send requests use `served_by`, which also refuses
a model that no provider serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from toolcaddie.app.settings import FallbackSettings, Settings
from toolcaddie.core.errors import ConfigError, ProviderAuthError
from toolcaddie.parts import Parts, Secrets
from toolcaddie.ports import Provider
from toolcaddie.providers.named import split_model
from toolcaddie.providers.vendors import VENDORS, vendor_of_model
from toolcaddie.providers.wrapping import Entry
from toolcaddie.registry import Registry
from toolcaddie.runtime.models import provider_named
from toolcaddie.util.suggest import close_names, did_you_mean

PRACTICE = "practice"
"""Name of the provider whose model answers by rules, offline."""

OPENAI = "openai"

SECRETS = Secrets()

_LEAVE_OUT = "omit --upstream-key-env (upstream.key_env)"

_TUNED = "ft"
"""The only prefix with a colon in the names of OpenAI's own models."""


def asked_of(settings: Settings, registry: Registry | None = None) -> tuple[str, str]:
    """Returns the names of the provider and the model to use. The model is empty if the provider chooses it.

    If `upstream.provider` is set, the model belongs to that provider, even if its name contains a colon (`mistral:7b` of Ollama).
    Otherwise the provider is the name in front of the model (`anthropic:claude-...`), or a provider's name that stands alone.
    If there is no such name, the provider is openai, provided that an address or a key is set. Otherwise it is the likely vendor
    of the model, or the practice model if no model is named.

    The name of a provider that is not installed is returned unchanged, so that its model is never priced as a model of another
    provider. Raises `ConfigError` for a misspelt name of a provider.
    """
    names, model = (registry or Registry()).names("provider"), settings.model or ""
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


def served_by(settings: Settings, registry: Registry | None = None) -> tuple[str, str]:
    """Returns the same as `asked_of`, for commands that send requests. Raises `ConfigError` for a model that no provider
    serves. The practice model calls tools, so it answers only if it is named, or if no model is named."""
    registry = registry or Registry()
    name, model = asked_of(settings, registry)
    text = (settings.model or "").strip()
    if name == PRACTICE and model not in ("", PRACTICE):
        raise ConfigError(
            f"model {text!r}: there is only one practice model, and it has no name of its own; write {PRACTICE} alone"
        )
    if settings.upstream.provider is not None or settings.upstream.url is not None or name == PRACTICE:
        return name, model
    names = registry.names("provider")
    if name not in names:
        raise ConfigError(f"model {text!r}: there is no provider {name!r}; {_advice(text, names)}")
    if not text or text == name or text.startswith(f"{name}:") or _has_key(settings):
        return name, model
    missing = "" if _vendor_key(name) else " and no key is set"
    raise ConfigError(f"{text!r} names no provider{missing}; {_advice(text, names)}")


def likely_provider(model: str) -> str | None:
    """Returns the vendor that serves models with such a name; None: unknown."""
    base_model = model.lower().removeprefix(f"{_TUNED}:")
    return vendor_of_model(base_model)


def _has_key(settings: Settings) -> bool:
    """Returns True if there is a key for a model that is named without a provider."""
    upstream = settings.upstream
    variable = (
        upstream.key_env
        or provider_config(settings, OPENAI, url=upstream.url).get("key_env")
        or VENDORS[OPENAI].key_env
    )
    return SECRETS.get(variable) is not None


def _vendor_key(name: str) -> str | None:
    """Returns the key in the variable of a vendor."""
    return SECRETS.get(VENDORS[name].key_env) if name in VENDORS else None


def _advice(text: str, names: Sequence[str]) -> str:
    """Returns the advice for a text that names no provider."""
    model = text if likely_provider(text) else text.partition(":")[2]  # a tag follows a colon too: gpt-oss:20b
    likely = likely_provider(model)
    if likely is None:
        return f"write provider:model. There are {', '.join(names)}"
    vendor = VENDORS[likely]
    lacks_key = vendor.needs_key != "never" and not _vendor_key(likely)
    variable = f", with its key in {vendor.key_env}" if lacks_key else ""
    return f"did you mean {likely}:{model}{variable}?"


def _refuse_slip(model: str, names: Sequence[str]) -> None:
    """Raises `ConfigError` for a misspelt provider: `anthropc` in `anthropc:claude-...` would otherwise be taken for a provider
    of a package that is not installed."""
    prefix, colon, _ = model.partition(":")
    if colon and close_names(prefix, names, limit=1):
        raise ConfigError(f"model {model!r}: no provider {prefix!r}; {did_you_mean(prefix, names)}")


def provider_of(settings: Settings, registry: Registry | None = None, parts: Parts | None = None) -> Provider:
    """Returns the provider that the settings name. Raises `ConfigError` if its key or address is missing."""
    registry, parts = registry or Registry(), parts or Parts(bounds=settings.bounds)
    name, model = served_by(settings, registry)
    upstream = settings.upstream
    if upstream.key_env is not None:
        key: str | None = parts.secrets.require(upstream.key_env, what="the upstream's key", instead=_LEAVE_OUT)
    else:
        key = key_of(settings, registry)
    config = provider_config(settings, name, url=upstream.url)
    entry = provider_named(
        f"{name}:{model}", api_key=key, base_url=upstream.url, config=config, registry=registry, parts=parts
    )
    return entry.provider


def check_bot_models(settings: Settings, registry: Registry | None = None) -> None:
    """Raises `ConfigError` for a bot whose model belongs to another provider than the one that is asked, because it would be
    asked for a model that it does not have."""
    asked = asked_of(settings, registry)[0]
    for name, bot in settings.bots.items():
        if not bot.model:
            continue
        owner = asked_of(replace(settings, model=bot.model), registry)[0]
        if owner != asked:
            raise ConfigError(
                f"bots.{name}.model: {bot.model!r} is a model of {owner}, but this server asks {asked}; name a model of "
                f"{asked}, or change model or upstream.provider"
            )


def fallbacks_of(settings: Settings, registry: Registry | None = None, parts: Parts | None = None) -> Sequence[Entry]:
    """Returns the models that are asked in turn if the first one fails. Raises `ConfigError`, with the number of the fallback, if
    a key or an address is missing."""
    registry, parts = registry or Registry(), parts or Parts(bounds=settings.bounds)
    entries = []
    for number, fallback in enumerate(settings.fallback, start=1):
        try:
            entries.append(_fallback(settings, fallback, registry, parts))
        except ConfigError as error:
            raise ConfigError(f"fallback.{number}: {error}") from error
    return entries


def _fallback(settings: Settings, fallback: FallbackSettings, registry: Registry, parts: Parts) -> Entry:
    """Returns the provider and model of one fallback. Raises `ConfigError` if its key or address is missing."""
    variable = fallback.key_env
    key = None if variable is None else parts.secrets.require(variable, what=f"the key of {fallback.model}")
    name, _ = split_model(fallback.model, registry.names("provider"))
    config = provider_config(settings, name or fallback.model, url=fallback.url)
    return provider_named(
        fallback.model, api_key=key, base_url=fallback.url, config=config, registry=registry, parts=parts
    )


def provider_config(settings: Settings, name: str, *, url: str | None) -> Mapping[str, Any]:
    """Returns the settings in a provider's table `[provider.NAME]`.

    If the settings name another address elsewhere (`url`), the address and the key of the table are omitted, because a key is
    sent only to the address that it belongs to.
    """
    table = settings.provider.get(name, {})
    return table if url is None else {key: value for key, value in table.items() if key not in ("base_url", "key_env")}


def key_variable(settings: Settings, registry: Registry | None = None) -> str | None:
    """Returns the environment variable of the upstream's key; None: no such variable is known.

    A provider of another package names its variable in an attribute `key_env`.
    """
    upstream = settings.upstream
    if upstream.key_env is not None:
        return upstream.key_env
    name, _ = asked_of(settings, registry)
    variable: str | None = provider_config(settings, name, url=upstream.url).get("key_env")
    if variable is None and name in VENDORS:
        return VENDORS[name].key_env
    return variable or getattr((registry or Registry()).factory("provider", name), "key_env", None)


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
    fallbacks = (each for each in settings.fallback if split_model(each.model, (name,))[0] is not None)
    variables = (each.key_env or provider_config(settings, name, url=each.url).get("key_env") for each in fallbacks)
    vendor = VENDORS.get(name)
    return next((variable for variable in variables if variable), None) or (vendor.key_env if vendor else None)


def key_of(settings: Settings, registry: Registry | None = None) -> str | None:
    """Returns the upstream's key from the environment. None: its variable is not set, or the settings give another address
    than the vendor's and name no key for it."""
    if settings.upstream.key_env is None:
        name, _ = asked_of(settings, registry)
        config = provider_config(settings, name, url=settings.upstream.url)
        if "key_env" not in config and name in VENDORS and VENDORS[name].is_elsewhere(config.get("base_url")):
            return None
    return SECRETS.get(key_variable(settings, registry))


def has_own_key(settings: Settings, registry: Registry | None = None) -> bool:
    """Returns True if the upstream is asked with the operator's key, so that no client's key is forwarded.

    It is also True for a provider whose variable is unknown here, because such a provider finds its key itself.
    """
    return key_variable(settings, registry) is None or key_of(settings, registry) is not None
