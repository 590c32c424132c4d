"""Sources, provider and runtime of the settings, without opening anything: no database, no connection, no file.

Apart from `assemble`, because commands that only select or list must start fast, and a database is slow to load.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence

from toolcaddie.app.models import OPENAI, PRACTICE, asked_of, served_by
from toolcaddie.app.settings import FallbackSettings, Settings, effective_preset
from toolcaddie.app.unasked import Unasked
from toolcaddie.control.bots import Bot, Bots, Role
from toolcaddie.core.bounds import Bounds
from toolcaddie.core.capabilities import CAPABILITIES, Capabilities, row_of
from toolcaddie.core.catalog import Catalog
from toolcaddie.core.errors import ConfigError, ProviderAuthError
from toolcaddie.core.tool_config import ToolConfig
from toolcaddie.learning import Experience, LearningSettings
from toolcaddie.ports import (
    Classifier,
    Embedder,
    EventSink,
    Provider,
    RankerFactory,
    RemoteEmbedder,
    Store,
    ToolSource,
)
from toolcaddie.providers.named import split_model
from toolcaddie.providers.wrapping import Entry
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.runtime.models import KEYS, provider_named
from toolcaddie.selection.classifier import ModelClassifier
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.named import load_catalog
from toolcaddie.storage.cache import StoreCache
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

ATTEMPTS = 3
"""Requests to a model until it answers, where `upstream.attempts` says nothing."""

CLASSIFY_HINT = 'set selection.classify = "needed" or "always"'

_BUILT_IN_RANKERS = frozenset({"categories", "bm25"})
"""The selector brings these itself; only for others is it worth looking at what is installed."""


def offline(settings: Settings) -> Runtime:
    """A runtime that selects, explains and prices for the settings' model: nobody asks it, so that it needs no key, and no
    database is opened, but where an embedder is set: then vectors are asked of it, and kept there for the next command. Where
    learning is on, the runtime has learned from the log and the recorded runs. Raises `ConfigError`, `StorageError`."""
    documents: Store | None = None
    if settings.embedding.embedder is not None:  # imported only then: a database is slow to load
        documents = importlib.import_module("toolcaddie.app.vectors_kept").StoreOnDemand(settings.database_url)
    sources = sources_of(settings, needed=True)
    runtime = runtime_of(settings, sources, Unasked(asked_of(settings)[0]), documents=documents, asks=False)
    if settings.learning.enabled:
        importlib.import_module("toolcaddie.app.taught").teach(runtime, settings)
    return runtime


def catalog_of(settings: Settings) -> Catalog:
    """The enabled tools of the settings' catalogs. Raises `ConfigError` if none is named or one cannot be used."""
    sources, enabled = sources_of(settings, needed=True), settings.catalog.categories
    catalog = CombinedSource(sources, replace_reserved=settings.catalog.replace_reserved).snapshot()
    if enabled is None:
        return catalog
    Bots(categories=enabled).check(catalog)
    categories = (category for category in catalog.categories if category.name in enabled)
    return Catalog.of((tool for tool in catalog if tool.category in enabled), categories, check_schemas=False)


def sources_of(settings: Settings, *, needed: bool = False) -> Sequence[ToolSource]:
    """The catalogs of the settings, loaded. `needed`: raise `ConfigError` if there are none."""
    if needed and not settings.catalogs:
        raise ConfigError(
            "no catalog is named; add --catalog SPEC (gym, a .jsonl file, python:module) or set catalogs in toolcaddie.toml"
        )
    return [load_catalog(spec) for spec in settings.catalogs]


def provider_of(settings: Settings) -> Provider:
    """The model's API that the settings name. Raises `ConfigError` where it lacks a key or an address."""
    name, model = served_by(settings)
    key, variable = key_of(settings), settings.upstream.key_env
    if key is None and variable is not None:
        raise ConfigError(
            f"the environment variable {variable} is not set; put the upstream's key into it, or leave "
            "--upstream-key-env (upstream.key_env) away"
        )
    return provider_named(
        f"{name}:{model}", api_key=key, base_url=settings.upstream.url, bounds=settings.bounds
    ).provider


def fallbacks_of(settings: Settings) -> Sequence[Entry]:
    """Who is asked where that one fails. Raises `ConfigError` saying which of them lacks what."""
    found = []
    for number, wanted in enumerate(settings.fallback, start=1):
        try:
            found.append(_fallback(wanted, settings.bounds))
        except ConfigError as error:
            raise ConfigError(f"fallback.{number}: {error}") from error
    return found


def _fallback(wanted: FallbackSettings, bounds: Bounds) -> Entry:
    key = None if wanted.key_env is None else os.environ.get(wanted.key_env)
    if wanted.key_env is not None and not key:
        raise ConfigError(
            f"the environment variable {wanted.key_env} is not set; put the key of {wanted.model} into it"
        )
    return provider_named(wanted.model, api_key=key, base_url=wanted.url, bounds=bounds)


def key_variable(settings: Settings) -> str | None:
    """The environment variable of the upstream's key; None: it takes none that we know of. A provider of an entry point says by
    an attribute `key_env` which is its own."""
    if settings.upstream.key_env is not None:
        return settings.upstream.key_env
    name, _ = asked_of(settings)
    return KEYS.get(name) or getattr(Registry().factory("provider", name), "key_env", None)


def key_advice(error: ProviderAuthError, settings: Settings) -> str:
    """What to do where a provider refuses its key: the variable it was taken from, if we know it."""
    own = asked_of(settings)[0]
    who = error.attempts[-1].provider if error.attempts else own
    variable = key_variable(settings) if who == own else _variable_of_fallback(settings, who)
    if variable is None:
        return f"the key of {who} was refused"
    if not os.environ.get(variable):
        return f"no key was sent: put it into {variable}, or name another variable with --upstream-key-env"
    return f"the key in {variable} was refused; correct it, or name another variable with --upstream-key-env"


def _variable_of_fallback(settings: Settings, name: str) -> str | None:
    named = (each.key_env for each in settings.fallback if split_model(each.model, (name,))[0] is not None)
    return next((variable for variable in named if variable), None) or KEYS.get(name)


def key_of(settings: Settings) -> str | None:
    """The upstream's key, from the environment."""
    variable = key_variable(settings)
    return None if variable is None else os.environ.get(variable) or None


def has_own_key(settings: Settings) -> bool:
    """Whether the upstream is asked with a key of ours, so that no client's is passed on. A provider whose variable we do not
    know sees to its key itself."""
    return key_variable(settings) is None or key_of(settings) is not None


def is_never_asked(settings: Settings) -> bool:
    """Whether a classifier is set that the preset never asks."""
    return settings.classifier.model is not None and effective_preset(settings).selection.classify == "never"


def classifier_of(settings: Settings, provider: Provider) -> Classifier | None:
    """The first stage of the settings, None where no model is named for it; it asks `provider` unless it has its own address.

    Raises `ConfigError` where its key is missing: a key goes to the address it was given for and to no other.
    """
    chosen = settings.classifier
    if chosen.model is None:
        return None
    if is_never_asked(settings):
        log.warning("classifier_never_asked", preset=settings.preset, hint=CLASSIFY_HINT)
    own = chosen.url is not None or chosen.key_env is not None
    return ModelClassifier(
        _classifying_provider(settings) if own else provider,
        model=chosen.model,
        examples=chosen.examples,
        timeout=chosen.timeout,
        most=chosen.most,
        url_category=chosen.url_category,
        owns=own,
    )


def _classifying_provider(settings: Settings) -> Provider:
    chosen = settings.classifier
    key = None if chosen.key_env is None else os.environ.get(chosen.key_env) or None
    if chosen.key_env is not None and key is None:
        raise ConfigError(
            f"the environment variable {chosen.key_env} is not set; put the classifier's key into it, or leave "
            "classifier.key_env away"
        )
    name, url = OPENAI, chosen.url
    if url is None:  # another key at the address of the other model, whose API is spoken there
        name, url = asked_of(settings)[0], settings.upstream.url
    config = {"base_url": url, "api_key": key, "model": chosen.model, "name": "classifier"}
    provider: Provider = Registry().make("provider", OPENAI if name == PRACTICE else name, config)
    return provider


def embedder_of(settings: Settings) -> Embedder | RemoteEmbedder | None:
    """What the settings' vectors come from; None: nothing. Only what was set is handed on, so that an embedder refuses what
    means nothing to it. Raises `ConfigError`."""
    chosen = settings.embedding
    given = {"model": chosen.model, "url": chosen.url, "runtime": chosen.runtime, "dimensions": chosen.dimensions}
    given = {name: value for name, value in given.items() if value is not None}
    if chosen.embedder is None:
        if given:
            raise ConfigError(
                f"embedding.{next(iter(given))} is set, but no embedding.embedder; name one, such as minilm"
            )
        return None
    if chosen.key_env is not None:
        given["api_key"] = os.environ.get(chosen.key_env)
        if not given["api_key"]:
            raise ConfigError(f"the environment variable {chosen.key_env} is not set; put the embedder's key into it")
    embedder: Embedder | RemoteEmbedder = Registry().make("embedder", chosen.embedder, given)
    return embedder


def runtime_of(
    settings: Settings,
    sources: Sequence[ToolSource],
    provider: Provider,
    *,
    trail: EventSink | None = None,
    sinks: Sequence[EventSink] = (),
    documents: Store | None = None,
    classifier: Classifier | None = None,
    attempts: int = 1,
    asks: bool = True,
) -> Runtime:
    """A runtime over these parts with everything else as the settings say. `attempts`: requests to a model until it answers.
    `asks`: False where no model is asked, so that nobody who might be needs a key."""
    chosen = effective_preset(settings)
    kept = StoreCache(documents) if documents is not None and settings.cache.keep == "database" else None
    return Runtime(
        provider=provider,
        sources=sources,
        preset=chosen,
        model=asked_of(settings)[1] or (PRACTICE if provider.name == PRACTICE else ""),
        fallbacks=fallbacks_of(settings) if asks else (),
        attempts=attempts,
        tool_config=_tool_config(settings, asks=asks),
        capabilities=_capabilities(settings),
        cache=kept,
        bounds=settings.bounds,
        trail=trail,
        sinks=sinks,
        documents=documents,
        classifier=classifier,
        embedder=embedder_of(settings),
        patience=settings.embedding.patience,
        rankers=_rankers(chosen.selection.rankers),
        experience=experience_of(settings),
        bots={
            name: Bot(
                disabled_tools=bot.disabled_tools,
                categories=bot.categories,
                expandable_categories=bot.expandable_categories,
            )
            for name, bot in settings.bots.items()
        },
        roles={name: Role(expandable_categories=role.expandable_categories) for name, role in settings.roles.items()},
        default_bot=settings.default_bot,
        categories=settings.catalog.categories,
        replace_reserved=settings.catalog.replace_reserved,
    )


def attempts_of(settings: Settings, *, clients_retry: bool) -> int:
    """Requests to a model until it answers. Whoever asks again by themselves is better told at once than waited for: their
    tries would multiply with ours, and the time a provider asks for would be spent twice."""
    return settings.upstream.attempts or (1 if clients_retry else ATTEMPTS)


def _tool_config(settings: Settings, *, asks: bool) -> ToolConfig | None:
    config = None if settings.tool_config is None else ToolConfig.of(settings.tool_config)
    return config if config is None or asks else replace(config, fallback_provider=None)


def _capabilities(settings: Settings) -> Sequence[Capabilities]:
    rows = tuple(map(row_of, settings.capabilities))
    return (*rows, *CAPABILITIES) if rows else CAPABILITIES


def experience_of(settings: Settings) -> Experience | None:
    """The memory that the settings ask for, empty; None: nothing is to be remembered."""
    chosen = settings.learning
    if not chosen.enabled:
        return None
    return Experience(
        LearningSettings(
            scope=chosen.scope,
            most_entries=chosen.most_entries,
            keep_days=None if chosen.keep_days == "off" else chosen.keep_days,
            name_others=chosen.name_others,
        )
    )


def _rankers(names: Sequence[str]) -> Mapping[str, RankerFactory]:
    """The rankers of other packages that the preset asks for; an unknown name is the selector's to refuse, with a list."""
    wanted = set(names) - _BUILT_IN_RANKERS
    if not wanted:
        return {}
    registry = Registry()
    return {name: registry.make("ranker", name) for name in registry.names("ranker") if name in wanted}
