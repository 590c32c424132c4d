"""Any server that speaks OpenAI's chat completions, over one pooled connection: whole, streamed, or passed through raw."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

import aiohttp

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import ConfigError, ProviderProtocolError
from toolcaddie.core.message import ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.vocabulary import Wire
from toolcaddie.providers.chat_wire import Gathering, asks_for_usage, reply_from_wire, request_body
from toolcaddie.providers.http import HttpServer, decoded

OPENAI_URL = "https://api.openai.com/v1"

_PATH = "/chat/completions"


class OpenAIChat:
    """A provider at `base_url` (with `/v1`, as the official package takes it). Implements `ports.Provider`.

    `api_key` None sends no key, for servers of one's own. `default_model` is asked where a request names none. `timeout`
    bounds a whole answer in seconds. `headers` go with every request. `stream_usage=False` is for servers that do not know
    `stream_options`; their streams then cost unknown tokens. A `session` given is used and not closed; otherwise one is made
    at first use, inside the running loop, and made anew after `close`. `key_header` and `key_prefix` say how the key is sent.

    Raises `ProviderError` and its kinds, never with the key in it.
    """

    def __init__(
        self,
        base_url: str = OPENAI_URL,
        api_key: str | None = None,
        *,
        name: str = "openai",
        default_model: str = "",
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        session: aiohttp.ClientSession | None = None,
        stream_usage: bool = True,
        key_header: str = "authorization",
        key_prefix: str = "Bearer ",
        bounds: Bounds = DEFAULT,
    ) -> None:
        self.name = name
        self.wire: Wire = "chat"
        self.default_model = default_model
        self._server = HttpServer(
            base_url,
            api_key,
            name=name,
            timeout=timeout,
            headers=headers,
            session=session,
            key_header=key_header,
            key_prefix=key_prefix,
            bounds=bounds,
        )
        self._stream_usage = stream_usage

    def __repr__(self) -> str:
        return f"OpenAIChat(name={self.name!r}, host={self._server.host!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        model = request.model or self.default_model
        body = request_body(request, model=model, stream=False, author=self._author(model))
        read = partial(reply_from_wire, who=self.name, author=self._author(model))
        return await self._server.whole("POST", _PATH, body, read, headers=request.headers, timeout=request.timeout)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        """Deltas as they come, then the reply. Closing the iterator closes the connection to the provider.

        Usage is always asked for, so that the reply knows it; `raw` of a delta shows it only to a caller who asked.
        """
        shows, model = asks_for_usage(request), request.model or self.default_model
        usage = self._stream_usage or shows
        body = request_body(request, model=model, stream=True, usage=usage, author=self._author(model))
        gathering = Gathering(who=self.name, show_usage=shows, author=self._author(model))
        return self._server.streamed(_PATH, body, gathering, headers=request.headers, timeout=request.timeout)

    async def models(self) -> Sequence[JsonObject]:
        return await self._server.whole("GET", "/models", None, self._listed)

    def _listed(self, answer: bytes) -> Sequence[JsonObject]:
        listed = decoded(answer, who=self.name).get("data")
        if not isinstance(listed, list) or not all(isinstance(model, dict) for model in listed):
            raise ProviderProtocolError(f"{self.name} answered without a list of models")
        return listed

    async def forward(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> aiohttp.ClientResponse:
        """The raw answer to a raw request, as `HttpServer.raw` gives it."""
        return await self._server.raw(method, path, body, headers=headers, timeout=timeout)

    async def close(self) -> None:
        await self._server.close()

    def _author(self, model: str) -> str:
        return f"{self.name}:{model}"


def from_settings(
    *, base_url: str | None = None, api_key: str | None = None, model: str | None = None, **more: Any
) -> OpenAIChat:
    """The provider that settings describe; `more` goes to `OpenAIChat`. Raises `ConfigError` where nothing would work."""
    if base_url is None and not api_key:
        raise ConfigError("the provider 'openai' needs an api_key, or the base_url of a server that takes none")
    return OpenAIChat(base_url or OPENAI_URL, api_key, default_model=model or "", **more)
