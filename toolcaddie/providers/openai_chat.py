"""Any server that speaks OpenAI's chat completions, over one pooled connection: whole, streamed, or passed through raw."""

from __future__ import annotations

from typing import Unpack

from toolcaddie.providers.client import Client, ClientOptions
from toolcaddie.providers.vendor import Vendor
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


from_settings = Vendor(
    name="openai",
    client=OpenAIChat,
    key_env="OPENAI_API_KEY",
    base_url=OPENAI_URL,
    default_model="gpt-5-mini",
    families=("chatgpt-", "gpt-", "o1", "o3", "o4"),
    output_limit="max_completion_tokens",
)
