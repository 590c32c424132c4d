"""Interfaces (sockets, which plugins fill) for models: providers that answer, embedders that turn texts into vectors, and a first
stage that names the categories of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from toolcaddie.core.catalog import View
from toolcaddie.core.message import Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.selection import Classification
from toolcaddie.core.tool import JsonObject


class Provider(Protocol):
    """A model server, asked over one wire (the format of its API). `complete` and `stream` raise `ProviderError`; cancelling
    either of them closes the request to the server."""

    @property
    def name(self) -> str: ...
    async def complete(self, request: ModelRequest) -> ModelReply: ...
    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        """Yields deltas as they arrive; the last item is the whole reply."""
        ...

    async def models(self) -> Sequence[JsonObject]:
        """Returns the available models, as OpenAI's model objects."""
        ...

    async def close(self) -> None:
        """Closes connections. A later request opens new ones: `run_sync` closes after every run."""
        ...


class RawResponse(Protocol):
    """A streamed answer of an upstream; `aiohttp.ClientResponse` is one."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> Any:
        """Stream with `readany()`, which returns the next bytes of the body as soon as there are any; empty bytes: the body
        has ended. It may have `at_eof()`, which returns True as soon as the last bytes were returned."""
        ...

    def close(self) -> None: ...
    def release(self) -> Any: ...


@runtime_checkable
class Forwarder(Protocol):
    """A provider that can also send a client's request on without changing a byte."""

    async def forward(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None = None
    ) -> RawResponse:
        """Sends a request to `path` below the provider's base address. Raises `ProviderError`
        only if there is no answer; an answer with an error status is returned."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors that are near each other if their meanings are.

    `name` identifies the model: vectors of different names are never compared, nor cached under one key.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    @property
    def languages(self) -> Collection[str] | None:
        """Languages of the model, such as "english"; None: all of them, or unknown."""
        ...

    def embed(self, texts: Sequence[str]) -> Any:
        """Returns a float32 array with one unit vector per text; zeros for a text without meaning to the model. No I/O."""
        ...


@runtime_checkable
class AsymmetricEmbedder(Embedder, Protocol):
    """An embedder that reads requests in another way than the texts of tools, which `embed` reads."""

    def embed_requests(self, texts: Sequence[str]) -> Any:
        """Returns the vectors of requests, as `embed` does for the texts of tools."""
        ...


def request_vectors(embedder: Embedder, texts: Sequence[str]) -> Any:
    """Returns the vectors of requests, one row each."""
    # `isinstance` with a protocol looks at every member, which takes as long as the vectors of a short request.
    embed = getattr(embedder, "embed_requests", embedder.embed)
    return embed(texts)


@runtime_checkable
class RemoteEmbedder(Protocol):
    """An embedder on a server. A selection does no I/O, so the vectors are fetched before the selection begins.

    A process may call it from several event loops, in sequence or in parallel (`Runtime.select` has a loop of its own). So a
    connection belongs to the loop that opened it, and `close` closes only the connections of the running loop.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int:
        """Length of a vector; 0: unknown before the first answer."""
        ...

    @property
    def languages(self) -> Collection[str] | None:
        """Same as `Embedder.languages`."""
        ...

    async def fetch(self, texts: Sequence[str]) -> Any:
        """Returns vectors as `Embedder.embed` does. Raises `ProviderError`."""
        ...

    async def close(self) -> None: ...


Classifier = Callable[[Sequence[Message], View], Awaitable[Sequence[str] | Classification]]
"""A first stage that names categories of the view for a conversation; other names are dropped.

A `Classification` also reports its cost and failure. If the function has a `close()` method, it is called at shutdown.
"""
