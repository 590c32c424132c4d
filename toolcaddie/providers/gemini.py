"""A client of Gemini's own API."""

from __future__ import annotations

from typing import Unpack

from toolcaddie.parts import Parts, Variable
from toolcaddie.providers.access import access_to
from toolcaddie.providers.client import Client, ClientOptions, ConnectionOptions
from toolcaddie.providers.vendors import GEMINI
from toolcaddie.wires.gemini import GeminiWire


class Gemini(Client):
    """A provider at `base_url` (with the version, `/v1beta`). Implements `ports.Provider`.

    `api_key` is sent in a header and not in the address, because addresses are logged. `models/` before a model's name may
    be omitted. `options` are those of every client (`ClientOptions`).

    Raises `ProviderError` and its subclasses, never with the key in the text, and `RequestError` for a request that the API
    cannot express.
    """

    def __init__(
        self,
        base_url: str = GEMINI.base_url,
        api_key: str | None = None,
        *,
        name: str = "gemini",
        **options: Unpack[ClientOptions],
    ) -> None:
        options.setdefault("key_header", GEMINI.key_header)
        options.setdefault("key_prefix", GEMINI.key_prefix)
        super().__init__(GeminiWire(), base_url, api_key, name=name, **options)


def from_settings(
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    key_env: Variable | None = None,
    model: str | None = None,
    name: str = GEMINI.name,
    parts: Parts | None = None,
    **options: Unpack[ConnectionOptions],
) -> Gemini:
    """Makes a provider. Raises `ConfigError` if the key is missing."""
    secrets = (parts or Parts()).secrets
    access = access_to(GEMINI, base_url=base_url, api_key=api_key, key_env=key_env, secrets=secrets)
    return Gemini(
        access.base_url,
        access.api_key,
        name=name,
        default_model=model or "",
        **options,
    )
