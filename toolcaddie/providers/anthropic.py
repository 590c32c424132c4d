"""A client of Anthropic's Messages API, and of other servers with this API."""

from __future__ import annotations

from typing import Unpack

from toolcaddie.parts import Parts, Variable
from toolcaddie.providers.access import access_to
from toolcaddie.providers.client import Client, ClientOptions, ConnectionOptions
from toolcaddie.providers.vendors import ANTHROPIC
from toolcaddie.wires.messages import MAX_TOKENS, MessagesWire

_VERSION = "2023-06-01"
_BETA = "anthropic-beta"


class Anthropic(Client):
    """A provider at `base_url` (with or without `/v1`). Implements `ports.Provider`.

    `api_key` None: the server takes none. `max_tokens` bounds an answer if the request has no bound, because the API requires
    one. `mid_system` True: the models take system messages within the conversation; False: such messages become notes in the
    user's turn; None: the capability table decides. `options` are those of every client (`ClientOptions`); an `anthropic-beta`
    among their headers is merged with the betas that a request needs.

    Raises `ProviderError` and its subclasses, never with the key in the text, and `RequestError` for a request that the API
    cannot express.
    """

    def __init__(
        self,
        base_url: str = ANTHROPIC.base_url,
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
        options.setdefault("key_header", ANTHROPIC.key_header)
        options.setdefault("key_prefix", ANTHROPIC.key_prefix)
        super().__init__(wire, base_url.strip().rstrip("/").removesuffix("/v1"), api_key, name=name, **options)


def from_settings(
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    key_env: Variable | None = None,
    model: str | None = None,
    name: str = ANTHROPIC.name,
    max_tokens: int = MAX_TOKENS,
    mid_system: bool | None = None,
    parts: Parts | None = None,
    **options: Unpack[ConnectionOptions],
) -> Anthropic:
    """Makes a provider. Raises `ConfigError` if the key is missing."""
    secrets = (parts or Parts()).secrets
    access = access_to(ANTHROPIC, base_url=base_url, api_key=api_key, key_env=key_env, secrets=secrets)
    return Anthropic(
        access.base_url,
        access.api_key,
        name=name,
        default_model=model or "",
        max_tokens=max_tokens,
        mid_system=mid_system,
        **options,
    )
