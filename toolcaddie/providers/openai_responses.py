"""OpenAI's Responses API, over one pooled connection: whole or streamed. Nothing is stored on the provider's side."""

from __future__ import annotations

from typing import Any, Unpack

from toolcaddie.core.errors import ConfigError
from toolcaddie.providers.client import Client, ClientOptions
from toolcaddie.providers.openai_chat import OPENAI_URL
from toolcaddie.wires.responses import ResponsesWire


class OpenAIResponses(Client):
    """A provider at `base_url` (with `/v1`, as the official package takes it). Implements `ports.Provider`.

    `api_key` None sends no key, for servers of one's own. `options` are those of every client (`ClientOptions`).

    Raises `ProviderError` and its kinds, never with the key in it, and `RequestError` for what this API cannot be asked.
    """

    def __init__(
        self,
        base_url: str = OPENAI_URL,
        api_key: str | None = None,
        *,
        name: str = "openai-responses",
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(ResponsesWire(), base_url, api_key, name=name, **options)


def from_settings(
    *, base_url: str | None = None, api_key: str | None = None, model: str | None = None, **more: Any
) -> OpenAIResponses:
    """The provider that settings describe; `more` goes to `OpenAIResponses`. Raises `ConfigError` where nothing would work."""
    if base_url is None and not api_key:
        raise ConfigError(
            "the provider 'openai-responses' needs an api_key, or the base_url of a server that takes none"
        )
    return OpenAIResponses(base_url or OPENAI_URL, api_key, default_model=model or "", **more)
