"""The client of model servers, for every API.

A wire, the code for one API, writes requests and reads answers; `http` sends and receives them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import TypedDict

import aiohttp

from toolcaddie.core.bounds import DEFAULT, Bounds
from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import WireRequest
from toolcaddie.guards.breakers import Breakers
from toolcaddie.ports.wires import ClientWire, ReadsByRequest
from toolcaddie.providers.http import HttpServer
from toolcaddie.wires.foreign import for_wire

_MOST_PAGES = 20
"""The largest number of pages of a list of models that are read."""


class ConnectionOptions(TypedDict, total=False):
    """The options of every connection to a model server.

    `timeout` bounds a whole answer in seconds. `headers` go with every request. A `session` of the caller is used and not
    closed; without one, the client makes its own at first use, inside the running loop, and again after `close`. `key_header`
    and `key_prefix` say how the key is sent.
    """

    timeout: float
    headers: Mapping[str, str] | None
    session: aiohttp.ClientSession | None
    key_header: str
    key_prefix: str
    bounds: Bounds


class ClientOptions(ConnectionOptions, total=False):
    """The options of every client; `default_model` answers requests that name no model."""

    default_model: str


class Client:
    """A model server at `base_url` that speaks `wire`. Implements `ports.Provider` and `ports.Forwarder`.

    `api_key` None: the server takes none. The other arguments are those of `ClientOptions`.

    Raises `ProviderError` and its subclasses, never with the key in the text, and `RequestError` for a request that the API
    cannot express.
    """

    def __init__(
        self,
        wire: ClientWire,
        base_url: str,
        api_key: str | None,
        *,
        name: str,
        default_model: str = "",
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        session: aiohttp.ClientSession | None = None,
        key_header: str = "authorization",
        key_prefix: str = "Bearer ",
        bounds: Bounds = DEFAULT,
    ) -> None:
        self.name = name
        self.wire: WireName = wire.name
        self.default_model = default_model
        self.key_header, self.key_prefix = key_header.lower(), key_prefix
        self._wire = wire
        self._reads_by_request = wire if isinstance(wire, ReadsByRequest) else None
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
            read_error=wire.read_error,
        )

    def break_with(self, breakers: Breakers) -> None:
        """Sends nothing to the server while its circuit is open."""
        self._server.break_with(breakers.named(f"model:{self.name}@{self._server.host}"))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, host={self._server.host!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        wire_request, author = self._written(request, stream=False)
        read = self._reader(request, author)
        return await self._server.whole(
            "POST", wire_request.path, wire_request.body, read, headers=wire_request.headers, timeout=request.timeout
        )

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        """Yields deltas as they arrive, then the reply. Closing the iterator closes the connection to the provider."""
        wire_request, author = self._written(request, stream=True)
        reader = self._wire.read_stream(request, who=self.name, author=author)
        return self._server.streamed(
            wire_request.path,
            wire_request.body,
            reader,
            headers=wire_request.headers,
            timeout=request.timeout,
            read_whole=self._reader(request, author),
        )

    def _reader(self, request: ModelRequest, author: str) -> Callable[[bytes], ModelReply]:
        """Returns the function that reads a whole answer to the request."""
        if self._reads_by_request is not None:
            return partial(self._reads_by_request.read_reply_to, request, who=self.name, author=author)
        return partial(self._wire.read_reply, who=self.name, author=author)

    async def models(self) -> Sequence[JsonObject]:
        models: list[JsonObject] = []
        path = self._wire.models_path
        read = partial(self._wire.read_models, who=self.name)
        for _ in range(_MOST_PAGES):
            page = await self._server.whole("GET", path, None, read)
            models.extend(page.models)
            if not page.next_path:
                return models
            path = page.next_path
        raise ProviderProtocolError(f"{self.name} lists its models on more than {_MOST_PAGES} pages")

    async def forward(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> aiohttp.ClientResponse:
        """Returns the raw answer to a raw request; see `HttpServer.raw`."""
        return await self._server.raw(method, path, body, headers=headers, timeout=timeout)

    async def close(self) -> None:
        await self._server.close()

    def _written(self, request: ModelRequest, *, stream: bool) -> tuple[WireRequest, str]:
        """Returns the request as the wire writes it, and the author of the answer, `provider:model`."""
        model = request.model or self.default_model
        author = f"{self.name}:{model}"
        request = for_wire(request, self._wire.name, model)
        return self._wire.write_request(request, model=model, author=author, stream=stream), author
