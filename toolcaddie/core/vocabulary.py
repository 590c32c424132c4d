"""The wires (formats of providers' APIs), the mechanisms with which each wire controls a tool array, and the header of its API
key.

A model may support a mechanism that the wire in front of it cannot express. Claude behind a chat-completions router is the same
model, but later tools cannot be announced between two messages there. `core.capabilities` therefore drops the mechanisms that
`VOCABULARY` does not list for a wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

WireName = Literal["chat", "responses", "messages", "gemini"]
"""OpenAI's chat completions and Responses, Anthropic's Messages, Gemini's generateContent."""

Mask = Literal["", "allowed_tools", "allowed_function_names"]
"""Mechanism that restricts the callable tools without changing the tool array; empty: none."""

Deferral = Literal["", "references", "additions"]
"""Mechanism by which tools join after the cached prefix; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The mechanisms that a wire can express."""

    masks: frozenset[Mask] = frozenset()
    deferrals: frozenset[Deferral] = frozenset()
    cache_key: bool = False
    breakpoints: bool = False
    """True: a request can mark the prefixes that the provider should cache."""


VOCABULARY: Mapping[WireName, Vocabulary] = {
    "chat": Vocabulary(masks=frozenset({"allowed_tools"}), cache_key=True),
    "responses": Vocabulary(masks=frozenset({"allowed_tools"}), deferrals=frozenset({"additions"}), cache_key=True),
    "messages": Vocabulary(deferrals=frozenset({"references", "additions"}), breakpoints=True),
    "gemini": Vocabulary(masks=frozenset({"allowed_function_names"})),
}

KEY_HEADERS: Mapping[WireName, str] = {
    "chat": "authorization",
    "responses": "authorization",
    "messages": "x-api-key",
    "gemini": "x-goog-api-key",
}
"""Header in which clients of a wire send their API key, in lower case. In `authorization` it follows `Bearer`; the other wires
accept a token there as well."""

_WIRE_OF: Mapping[str, WireName] = {
    "anthropic": "messages",
    "gemini": "gemini",
    "openai-responses": "responses",
}


def wire_named(provider: str) -> WireName:
    """Returns the default wire of a provider with that name; chat completions for unknown names."""
    return _WIRE_OF.get(provider, "chat")
