"""The wires there are, and what each can say of a tool array beyond its definitions.

A model family may know a means that the wire in front of it has no words for: Claude behind a chat-completions router is the
same model, and cannot be told of later tools between two messages. Whatever is planned for a model is held against this page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

WireName = Literal["chat", "responses", "messages", "gemini"]
"""OpenAI's chat completions and Responses, Anthropic's Messages, Gemini's generateContent."""
Mask = Literal["", "allowed_tools", "allowed_function_names"]
Deferral = Literal["", "references", "additions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What one wire can say."""

    masks: frozenset[Mask] = frozenset()
    deferrals: frozenset[Deferral] = frozenset()
    cache_key: bool = False
    breakpoints: bool = False
    """A request can mark how far the provider's cache shall keep it."""


VOCABULARY: Mapping[WireName, Vocabulary] = {
    "chat": Vocabulary(masks=frozenset({"allowed_tools"}), cache_key=True),
    "responses": Vocabulary(masks=frozenset({"allowed_tools"}), deferrals=frozenset({"additions"}), cache_key=True),
    "messages": Vocabulary(deferrals=frozenset({"references", "additions"}), breakpoints=True),
    "gemini": Vocabulary(masks=frozenset({"allowed_function_names"})),
}

_OF_PROVIDERS: Mapping[str, WireName] = {
    "anthropic": "messages",
    "gemini": "gemini",
    "openai-responses": "responses",
}


def wire_named(provider: str) -> WireName:
    """Returns the wire of a provider that does not name its own: that of the provider so called, else chat completions."""
    return _OF_PROVIDERS.get(provider, "chat")
