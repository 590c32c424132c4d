"""A client of OpenAI's chat completions, and of the many other servers with this API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from toolcaddie.parts import Parts, Variable
from toolcaddie.providers.access import access_to
from toolcaddie.providers.client import Client, ClientOptions, ConnectionOptions
from toolcaddie.providers.vendors import OPENAI, Vendor
from toolcaddie.wires.chat import ChatWire


class OpenAIChat(Client):
    """A provider at `base_url` (with `/v1`, as the official package takes it). Implements `ports.Provider`.

    `api_key` None: the server takes none. `stream_usage=False` is for servers that refuse `stream_options`; then the
    usage of streams is unknown. `options` are those of every client (`ClientOptions`).

    Raises `ProviderError` and its subclasses, never with the key in the text.
    """

    def __init__(
        self,
        base_url: str = OPENAI.base_url,
        api_key: str | None = None,
        *,
        name: str = "openai",
        stream_usage: bool = True,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(ChatWire(stream_usage=stream_usage), base_url, api_key, name=name, **options)


@dataclass(frozen=True, slots=True)
class Service:
    """The factory of the providers of one vendor whose API is chat completions."""

    vendor: Vendor

    @property
    def key_env(self) -> str:
        """The environment variable of the key."""
        return self.vendor.key_env

    def __call__(
        self,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        key_env: Variable | None = None,
        model: str | None = None,
        name: str | None = None,
        stream_usage: bool | None = None,
        parts: Parts | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> OpenAIChat:
        """Makes a provider. Raises `ConfigError` if the address or the key is missing."""
        vendor, secrets = self.vendor, (parts or Parts()).secrets
        access = access_to(vendor, base_url=base_url, api_key=api_key, key_env=key_env, secrets=secrets)
        options.setdefault("key_header", vendor.key_header)
        options.setdefault("key_prefix", vendor.key_prefix)
        return OpenAIChat(
            access.base_url,
            access.api_key,
            name=name or vendor.name,
            default_model=model or "",
            stream_usage=vendor.stream_usage if stream_usage is None else stream_usage,
            **options,
        )


from_settings = Service(OPENAI)
