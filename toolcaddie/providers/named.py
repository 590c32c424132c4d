"""Model strings: `provider:model`, or a model of the configured provider."""

from __future__ import annotations

from collections.abc import Collection


def split_model(text: str, providers: Collection[str]) -> tuple[str | None, str]:
    """The provider and the model that `text` names; no provider: the configured one is meant.

    Models hold colons of their own (`ollama:qwen3:8b`, `ft:gpt-4o:acme`), so only one of `providers` counts as a prefix.
    A provider alone, `ollama:`, means its own choice of model.
    """
    prefix, colon, model = text.strip().partition(":")
    return (prefix, model) if colon and prefix in providers else (None, text.strip())
