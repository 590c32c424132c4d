"""Gemini models by their own API, over one pooled connection: whole or streamed."""

from __future__ import annotations

from typing import Unpack

from toolcaddie.providers.client import Client, ClientOptions
from toolcaddie.providers.vendor import Vendor
from toolcaddie.wires.gemini import GeminiWire

GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"


class Gemini(Client):
    """A provider at `base_url` (with the version, `/v1beta`). Implements `ports.Provider`.

    `api_key` goes into a header, never into an address, where logs would keep it. `models/` before a model's name may
    be omitted. `options` are those of every client (`ClientOptions`).

    Raises `RequestError` for what this API cannot be asked, `ProviderError` and its kinds for what it answers, never
    with the key in it.
    """

    def __init__(
        self,
        base_url: str = GEMINI_URL,
        api_key: str | None = None,
        *,
        name: str = "gemini",
        **options: Unpack[ClientOptions],
    ) -> None:
        options.setdefault("key_header", "x-goog-api-key")
        options.setdefault("key_prefix", "")
        super().__init__(GeminiWire(), base_url, api_key, name=name, **options)


from_settings = Vendor(
    name="gemini",
    client=Gemini,
    key_env="GEMINI_API_KEY",
    base_url=GEMINI_URL,
    default_model="gemini-3.8-flash",
    families=("gemini",),
)
