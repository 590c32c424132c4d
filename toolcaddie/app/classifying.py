"""Makes the classifier of the settings: a model or a plugin that names the categories of a request before tools are selected."""

from __future__ import annotations

from toolcaddie.app.models import OPENAI, PRACTICE, asked_of, provider_config
from toolcaddie.app.settings import Settings, effective_preset
from toolcaddie.parts import Parts
from toolcaddie.ports import Classifier, Provider
from toolcaddie.registry import Registry
from toolcaddie.selection.classifier import ModelClassifier
from toolcaddie.util.log import Logger

log = Logger(__name__)

CLASSIFY_HINT = 'set selection.classify = "needed" or "always"'


def is_never_asked(settings: Settings) -> bool:
    """Returns True if the settings name a classifying model, but their preset never asks it."""
    return settings.classifier.model is not None and effective_preset(settings).selection.classify == "never"


def classifier_of(settings: Settings, provider: Provider, registry: Registry, parts: Parts) -> Classifier | None:
    """Returns the classifier of the settings, or None if they name none. A classifying model is asked through `provider`, unless
    the settings give it another address or key.

    Raises `ConfigError` if the key of the classifier is missing.
    """
    stage = settings.classifier
    if stage.type is not None:
        classifier: Classifier = registry.make("classifier", stage.type, stage.options, parts)
        return classifier
    if stage.model is None:
        return None
    if is_never_asked(settings):
        log.warning("classifier_never_asked", preset=settings.preset, hint=CLASSIFY_HINT)
    own = stage.url is not None or stage.key_env is not None
    return ModelClassifier(
        _classifying_provider(settings, registry, parts) if own else provider,
        model=stage.model,
        examples=stage.examples,
        timeout=stage.timeout,
        most=stage.most,
        url_category=stage.url_category,
        owns=own,
    )


def _classifying_provider(settings: Settings, registry: Registry, parts: Parts) -> Provider:
    """Returns the provider of the classifying model, with its own key. Without an address of its own, it has the address and API
    of the model that answers requests."""
    stage = settings.classifier
    variable, instead = stage.key_env, "omit classifier.key_env"
    key = None if variable is None else parts.secrets.require(variable, what="the classifier's key", instead=instead)
    name, url = OPENAI, stage.url
    if url is None:  # its own key, but the address and the API of the model that answers requests
        name, url = asked_of(settings)[0], settings.upstream.url
    name = OPENAI if name == PRACTICE else name
    config = dict(provider_config(settings, name, url=url))
    config |= {"api_key": key, "model": stage.model, "name": "classifier"}
    config.setdefault("base_url", url)
    provider: Provider = registry.make("provider", name, config, parts)
    return provider
