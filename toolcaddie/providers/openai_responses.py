"""OpenAI's Responses API, over one pooled connection: whole or streamed. Nothing is stored on the provider's side."""

from __future__ import annotations

from typing import Unpack

from toolcaddie.providers.client import Client, ClientOptions
from toolcaddie.providers.openai_chat import OPENAI_URL
from toolcaddie.providers.vendor import Vendor
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


from_settings = Vendor(
    name="openai-responses",
    client=OpenAIResponses,
    key_env="OPENAI_API_KEY",
    base_url=OPENAI_URL,
    default_model="gpt-5-mini",
    output_limit="max_completion_tokens",
)
