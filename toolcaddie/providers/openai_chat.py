"""Any server that speaks OpenAI's chat completions, over one pooled connection: whole, streamed, or passed through raw."""

from __future__ import annotations

from typing import Any, Unpack

from toolcaddie.core.errors import ConfigError
from toolcaddie.providers.client import Client, ClientOptions
from toolcaddie.wires.chat import ChatWire

OPENAI_URL = "https://api.openai.com/v1"


class OpenAIChat(Client):
    """A provider at `base_url` (with `/v1`, as the official package takes it). Implements `ports.Provider`.

    `api_key` None sends no key, for servers of one's own. `stream_usage=False` is for servers that do not know
    `stream_options`; their streams then cost unknown tokens. `options` are those of every client (`ClientOptions`).

    Raises `ProviderError` and its kinds, never with the key in it.
    """

    def __init__(
        self,
        base_url: str = OPENAI_URL,
        api_key: str | None = None,
        *,
        name: str = "openai",
        stream_usage: bool = True,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(ChatWire(stream_usage=stream_usage), base_url, api_key, name=name, **options)


def from_settings(
    *, base_url: str | None = None, api_key: str | None = None, model: str | None = None, **more: Any
) -> OpenAIChat:
    """The provider that settings describe; `more` goes to `OpenAIChat`. Raises `ConfigError` where nothing would work."""
    if base_url is None and not api_key:
        raise ConfigError("the provider 'openai' needs an api_key, or the base_url of a server that takes none")
    return OpenAIChat(base_url or OPENAI_URL, api_key, default_model=model or "", **more)
