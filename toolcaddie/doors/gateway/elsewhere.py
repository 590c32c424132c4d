"""Advice for a client that requests a path which the gateway does not have. Usually such a client uses another API, or its base
address is wrong. `router` adds the advice to the error 404."""

from __future__ import annotations

PASSED = (
    "other requests below /v1 are passed on only with the client's own key for the upstream, or if the setting "
    "gateway.passed lists them"
)
_CHAT = "/chat/completions"
_BASE = "set its base address to this server's, with /v1 at the end"

_WIRES = (
    (("/responses",), f"the Responses API is at /v1/responses: {_BASE}"),
    (
        ("/messages", "/messages/count_tokens"),
        "Anthropic's API is at /v1/messages: set the client's base address to this server's, without /v1",
    ),
    (
        (":generateContent", ":streamGenerateContent"),
        f"Gemini's API is not served here; let the client speak OpenAI's chat completions and {_BASE}",
    ),
    (("/api/chat", "/api/generate"), f"Ollama's API is not served here; let the client speak OpenAI's and {_BASE}"),
    (("/completions",), f"old completions are at /v1/completions: {_BASE}"),
    (("/embeddings",), f"embeddings are at /v1/embeddings: {_BASE}"),
)
"""Endings of a path with the advice for them. The first entry that fits is used."""


def advice(path: str) -> str:
    """Returns advice on a request to this path."""
    path = path.rstrip("/")
    if path.endswith(_CHAT):
        return f"chat completions are at /v1{_CHAT}: {_BASE}"
    if path.endswith("/models"):
        return f"the models are listed at /v1/models: {_BASE}"
    for ends, sentence in _WIRES:
        if path.endswith(ends):
            return sentence
    if path.startswith("/v1/"):
        return f"{PASSED}; chat completions are at /v1/chat/completions"
    return "chat completions are at /v1/chat/completions"
