"""A client of OpenAI's Responses API. It asks the server to store nothing."""

from __future__ import annotations

from typing import Unpack

from toolcaddie.parts import Parts, Variable
from toolcaddie.providers.access import access_to
from toolcaddie.providers.client import Client, ClientOptions, ConnectionOptions
from toolcaddie.providers.vendors import OPENAI_RESPONSES
from toolcaddie.wires.responses import ResponsesWire


class OpenAIResponses(Client):
    """A provider at `base_url` (with `/v1`, as the official package takes it). Implements `ports.Provider`.

    `api_key` None: the server takes none. `options` are those of every client (`ClientOptions`).

    Raises `ProviderError` and its subclasses, never with the key in the text, and `RequestError` for a request that the API
    cannot express.
    """

    def __init__(
        self,
        base_url: str = OPENAI_RESPONSES.base_url,
        api_key: str | None = None,
        *,
        name: str = "openai-responses",
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(ResponsesWire(), base_url, api_key, name=name, **options)


def from_settings(
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    key_env: Variable | None = None,
    model: str | None = None,
    name: str = OPENAI_RESPONSES.name,
    parts: Parts | None = None,
    **options: Unpack[ConnectionOptions],
) -> OpenAIResponses:
    """Makes a provider. Raises `ConfigError` if the key is missing."""
    secrets = (parts or Parts()).secrets
    access = access_to(OPENAI_RESPONSES, base_url=base_url, api_key=api_key, key_env=key_env, secrets=secrets)
    return OpenAIResponses(
        access.base_url,
        access.api_key,
        name=name,
        default_model=model or "",
        **options,
    )
