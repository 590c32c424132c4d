"""Advice for a client that requests a path which the gateway does not have. Usually such a client uses another API, or its base
address is wrong. `router` adds the advice to the error 404."""

from __future__ import annotations

_CHAT = "/chat/completions"
_BASE = "set its base address to this server's, with /v1 at the end"

_WIRES = (
    (
        ("/responses",),
        "the Responses API is not served here; let the client use chat completions: OpenAI Agents "
        "set_default_openai_api('chat_completions') or OpenAIChatCompletionsModel, AI SDK openai.chat(...) or "
        "@ai-sdk/openai-compatible, LangChain use_responses_api=False, Pydantic AI OpenAIChatModel, "
        "openai client.chat.completions",
    ),
    (
        ("/messages",),
        "Anthropic's API is not served here; let the client speak OpenAI's chat completions and "
        f"{_BASE}. Anthropic's models can answer there too: toolcaddie serve --model anthropic:...",
    ),
    (
        (":generateContent", ":streamGenerateContent"),
        f"Gemini's API is not served here; let the client speak OpenAI's chat completions and {_BASE}",
    ),
    (("/api/chat", "/api/generate"), f"Ollama's API is not served here; let the client speak OpenAI's and {_BASE}"),
    (("/completions",), "old completions are not served here; use chat completions"),
    (("/embeddings",), "embeddings are not served here; ask the provider itself"),
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
    return "chat completions are at /v1/chat/completions"
