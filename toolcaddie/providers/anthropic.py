"""Anthropic's Messages API, or any server that speaks it, over one pooled connection: whole or streamed."""

from __future__ import annotations

from typing import Unpack

from toolcaddie.providers.client import Client, ClientOptions
from toolcaddie.providers.vendor import Vendor
from toolcaddie.wires.messages import MAX_TOKENS, MessagesWire

ANTHROPIC_URL = "https://api.anthropic.com"

_VERSION = "2023-06-01"
_BETA = "anthropic-beta"


class Anthropic(Client):
    """A provider at `base_url` (with or without `/v1`). Implements `ports.Provider`.

    `api_key` None sends no key, for servers of one's own. `max_tokens` bounds an answer where a request has no bound,
    because the API wants one. `mid_system`: the models take system messages within the conversation, otherwise they go
    into the user's turn, marked as notes; None: as the capability table says of a model. `options` are those of every
    client (`ClientOptions`); an `anthropic-beta` among their headers is joined with what a request needs.

    Raises `ProviderError` and its kinds, never with the key in it, and `RequestError` for what the API has no word for.
    """

    def __init__(
        self,
        base_url: str = ANTHROPIC_URL,
        api_key: str | None = None,
        *,
        name: str = "anthropic",
        max_tokens: int = MAX_TOKENS,
        mid_system: bool | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        headers = {key.lower(): value for key, value in (options.pop("headers", None) or {}).items()}
        wire = MessagesWire(max_tokens=max_tokens, mid_system=mid_system, beta=headers.pop(_BETA, ""))
        options["headers"] = {"anthropic-version": _VERSION, **headers}
        options.setdefault("key_header", "x-api-key")
        options.setdefault("key_prefix", "")
        super().__init__(wire, base_url.strip().rstrip("/").removesuffix("/v1"), api_key, name=name, **options)


from_settings = Vendor(
    name="anthropic",
    client=Anthropic,
    key_env="ANTHROPIC_API_KEY",
    base_url=ANTHROPIC_URL,
    default_model="claude-sonnet-5-5",
    families=("claude",),
)
