"""Reads the texts that name a model: `provider:model`, or only `model` for the configured provider."""

from __future__ import annotations

from collections.abc import Collection


def split_model(text: str, providers: Collection[str]) -> tuple[str | None, str]:
    """Returns the provider and the model that `text` names. Provider None: the configured provider.

    The names of models may have colons (`ollama:qwen3:8b`, `ft:gpt-4o:acme`), so only a name in `providers` counts as a
    prefix. An empty model, as in `ollama:`, stands for the provider's default.
    """
    prefix, colon, model = text.strip().partition(":")
    return (prefix, model) if colon and prefix in providers else (None, text.strip())
