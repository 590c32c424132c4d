"""Model strings."""

from __future__ import annotations

import pytest

from toolcaddie.providers.named import split_model

KNOWN = {"openai", "ollama", "anthropic"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("openai:gpt-5-mini", ("openai", "gpt-5-mini")),
        ("ollama:qwen3:8b", ("ollama", "qwen3:8b")),
        ("gpt-5-mini", (None, "gpt-5-mini")),
        ("ft:gpt-4o:acme", (None, "ft:gpt-4o:acme")),
        ("openai:ft:gpt-4o:acme", ("openai", "ft:gpt-4o:acme")),
        ("meta-llama/llama-4:free", (None, "meta-llama/llama-4:free")),
        ("ollama:", ("ollama", "")),
        (" anthropic:claude-opus-5 ", ("anthropic", "claude-opus-5")),
        ("", (None, "")),
    ],
)
def test_only_the_name_of_a_provider_is_a_prefix(text: str, expected: tuple[str | None, str]) -> None:
    assert split_model(text, KNOWN) == expected
