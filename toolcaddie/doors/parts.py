"""Sources, provider and runtime of the settings, without opening anything: no database, no connection, no file.

Apart from `assemble`, because commands that only select or list must start fast, and a database is slow to load.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Mapping, Sequence

import structlog

from toolcaddie.catalog import Catalog
from toolcaddie.errors import ConfigError
from toolcaddie.functions import FunctionSource
from toolcaddie.plugins import EMBEDDERS, PROVIDERS, RANKERS, discover, load, load_catalog
from toolcaddie.ports import (
    Classifier,
    Documents,
    Embedder,
    EventSink,
    Provider,
    RankerFactory,
    RemoteEmbedder,
    ToolSource,
)
from toolcaddie.runtime import Bot, Runtime
from toolcaddie.selection.classifier import ModelClassifier
from toolcaddie.selection.learned import Experience, LearningSettings
from toolcaddie.settings import Settings, Upstream, effective_preset
from toolcaddie.sources.combined import CombinedSource

log = structlog.get_logger(__name__)

PRACTICE = "practice"

_DEFAULT_KEY = Upstream().key_env
_BUILT_IN_RANKERS = frozenset({"categories", "bm25"})
"""The selector brings these itself; only for others is it worth looking at what is installed."""


def offline(settings: Settings) -> Runtime:
    """A runtime that selects and explains: no model answers and no database is opened, but where an embedder is set. Then
    vectors are asked of it, and kept in the database, for the next command."""
    documents: Documents | None = None
    if settings.embedding.embedder is not None:  # imported only then: a database is slow to load
        documents = importlib.import_module("toolcaddie.doors.vectors_kept").DocumentsOnDemand(settings.database_url)
    sources = sources_of(settings, needed=True)
    return runtime_of(settings, sources, _load_provider(PRACTICE, settings), documents=documents)


def catalog_of(settings: Settings) -> Catalog:
    """The tools of the settings' catalogs. Raises `ConfigError` if none is named or one cannot be used."""
    return CombinedSource(sources_of(settings, needed=True)).snapshot()


def sources_of(settings: Settings, *, needed: bool = False) -> Sequence[ToolSource]:
    """The catalogs of the settings, loaded. `needed`: raise `ConfigError` if there are none."""
    if needed and not settings.catalogs:
        raise ConfigError(
            "no catalog is named; add --catalog SPEC (gym, a .jsonl file, python:module) or set catalogs in toolcaddie.toml"
        )
    return [load_catalog(spec, wrap_functions=FunctionSource) for spec in settings.catalogs]


def provider_of(settings: Settings) -> Provider:
    """The model's API that was named or for which there is a key; else the practice model."""
    key = key_of(settings)
    if key is None and settings.upstream.key_env != _DEFAULT_KEY:
        raise ConfigError(
            f"the environment variable {settings.upstream.key_env} is not set; put the upstream's key into it, or leave "
            "--upstream-key-env (upstream.key_env) away"
        )
    named = settings.upstream.url is not None or key is not None
    return _load_provider("openai" if named else PRACTICE, settings)


def _load_provider(name: str, settings: Settings) -> Provider:
    make = load(PROVIDERS, name)
    provider: Provider = make(base_url=settings.upstream.url, api_key=key_of(settings), model=settings.model)
    return provider


def classifier_of(settings: Settings, provider: Provider) -> Classifier | None:
    """The first stage of the settings, None where no model is named for it; it asks `provider` unless it has its own address.

    Raises `ConfigError` where its key is missing: a key goes to the address it was given for and to no other.
    """
    chosen = settings.classifier
    if chosen.model is None:
        return None
    if effective_preset(settings).selection.classify == "never":
        log.warning(
            "classifier_never_asked", preset=settings.preset, hint='set selection.classify = "needed" or "always"'
        )
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
    make = load(PROVIDERS, "openai")
    url = chosen.url or settings.upstream.url
    provider: Provider = make(base_url=url, api_key=key, model=chosen.model, name="classifier")
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
    make = load(EMBEDDERS, chosen.embedder)
    try:
        inspect.signature(make).bind(**given)
    except TypeError as error:
        raise ConfigError(
            f"the embedder {chosen.embedder!r} does not take what is set under embedding: {error}"
        ) from error
    made: Embedder | RemoteEmbedder = make(**given)
    return made


def key_of(settings: Settings) -> str | None:
    """The upstream's key, from the environment."""
    return os.environ.get(settings.upstream.key_env) or None


def runtime_of(
    settings: Settings,
    sources: Sequence[ToolSource],
    provider: Provider,
    *,
    trail: EventSink | None = None,
    sinks: Sequence[EventSink] = (),
    documents: Documents | None = None,
    classifier: Classifier | None = None,
) -> Runtime:
    """A runtime over these parts with everything else as the settings say."""
    chosen = effective_preset(settings)
    return Runtime(
        provider=provider,
        sources=sources,
        preset=chosen,
        model=settings.model or (PRACTICE if provider.name == PRACTICE else ""),
        trail=trail,
        sinks=sinks,
        documents=documents,
        classifier=classifier,
        embedder=embedder_of(settings),
        patience=settings.embedding.patience,
        rankers=_rankers(chosen.selection.rankers),
        experience=experience_of(settings),
        bots={
            name: Bot(disabled_tools=bot.disabled_tools, categories=bot.categories)
            for name, bot in settings.bots.items()
        },
    )


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
    return {plugin.name: load(RANKERS, plugin.name) for plugin in discover(RANKERS) if plugin.name in wanted}
