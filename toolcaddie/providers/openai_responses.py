"""OpenAI's Responses API, over one pooled connection: whole or streamed. Nothing is stored on the provider's side."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

import aiohttp

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import ConfigError, ProviderProtocolError
from toolcaddie.core.message import ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.vocabulary import WireName
from toolcaddie.providers.http import HttpServer
from toolcaddie.providers.openai_chat import OPENAI_URL
from toolcaddie.providers.responses_reply import Gathering, reply_from_wire
from toolcaddie.providers.responses_wire import ToolForms, request_body
from toolcaddie.wires.bodies import decoded

_PATH = "/responses"


class OpenAIResponses:
    """A provider at `base_url` (with `/v1`, as the official package takes it). Implements `ports.Provider`.

    `api_key` None sends no key, for servers of one's own. `default_model` is asked where a request names none. `timeout`
    bounds a whole answer in seconds. `headers` go with every request. A `session` given is used and not closed; otherwise one
    is made at first use, inside the running loop, and made anew after `close`. `key_header` and `key_prefix` say how the key
    is sent.

    Reasoning of an earlier answer goes back to its author in every request, encrypted as it came. The parameters `store` and
    `include` of a request stand above ours.

    Raises `ProviderError` and its kinds, never with the key in it, and `RequestError` for what this API cannot be asked.
    """

    def __init__(
        self,
        base_url: str = OPENAI_URL,
        api_key: str | None = None,
        *,
        name: str = "openai-responses",
        default_model: str = "",
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        session: aiohttp.ClientSession | None = None,
        key_header: str = "authorization",
        key_prefix: str = "Bearer ",
        bounds: Bounds = DEFAULT,
    ) -> None:
        self.name = name
        self.wire: WireName = "responses"
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
        self._tools = ToolForms()

    def __repr__(self) -> str:
        return f"OpenAIResponses(name={self.name!r}, host={self._server.host!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        body, author = self._asked(request, stream=False)
        read = partial(reply_from_wire, who=self.name, author=author)
        return await self._server.whole("POST", _PATH, body, read, headers=request.headers, timeout=request.timeout)

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        """Deltas as they come, then the reply. Closing the iterator closes the connection to the provider."""
        body, author = self._asked(request, stream=True)
        gathering = Gathering(who=self.name, author=author)
        return self._server.streamed(_PATH, body, gathering, headers=request.headers, timeout=request.timeout)

    async def models(self) -> Sequence[JsonObject]:
        return await self._server.whole("GET", "/models", None, self._listed)

    def _listed(self, answer: bytes) -> Sequence[JsonObject]:
        listed = decoded(answer, who=self.name).get("data")
        if not isinstance(listed, list) or not all(isinstance(model, dict) for model in listed):
            raise ProviderProtocolError(f"{self.name} answered without a list of models")
        return listed

    async def close(self) -> None:
        await self._server.close()

    def _asked(self, request: ModelRequest, *, stream: bool) -> tuple[bytes, str]:
        """The body of a request, and who is to answer it."""
        model = request.model or self.default_model
        author = f"{self.name}:{model}"
        return request_body(request, model=model, stream=stream, author=author, tools=self._tools), author


def from_settings(
    *, base_url: str | None = None, api_key: str | None = None, model: str | None = None, **more: Any
) -> OpenAIResponses:
    """The provider that settings describe; `more` goes to `OpenAIResponses`. Raises `ConfigError` where nothing would work."""
    if base_url is None and not api_key:
        raise ConfigError(
            "the provider 'openai-responses' needs an api_key, or the base_url of a server that takes none"
        )
    return OpenAIResponses(base_url or OPENAI_URL, api_key, default_model=model or "", **more)
