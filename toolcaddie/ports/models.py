"""Sockets around models: providers, embedders and a first stage that classifies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from toolcaddie.core.catalog import View
from toolcaddie.core.message import Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.selection import Classification
from toolcaddie.core.tool import JsonObject


class Provider(Protocol):
    """A model behind a wire. Raises `ProviderError`; cancelling either call closes the upstream request."""

    @property
    def name(self) -> str: ...
    async def complete(self, request: ModelRequest) -> ModelReply: ...
    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        """Deltas as they come; the last item is the whole reply."""
        ...

    async def models(self) -> Sequence[JsonObject]:
        """The models there are, as OpenAI's model objects."""
        ...

    async def close(self) -> None:
        """Close what is open. Asked again afterwards, a provider opens anew: `run_sync` closes behind every run."""
        ...


class RawResponse(Protocol):
    """An upstream's answer as it comes; `aiohttp.ClientResponse` is one."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> Any:
        """Has `readany()`: the next bytes of the body as soon as there are any, none at its end."""
        ...

    def close(self) -> None: ...
    def release(self) -> Any: ...


@runtime_checkable
class Forwarder(Protocol):
    """A provider that can also hand a request on byte for byte."""

    async def forward(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None = None
    ) -> RawResponse:
        """`path` is below the provider's base address. Raises `ProviderError` only when there is no answer at all."""
        ...


class Embedder(Protocol):
    """Texts to vectors that are near each other where the meaning is. `name` says which model made them: vectors of different
    names are never compared, nor kept under one key."""

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    @property
    def languages(self) -> Collection[str] | None:
        """Languages the model was made for, such as "english"; None: all of them, or it is not known."""
        ...

    def embed(self, texts: Sequence[str]) -> Any:
        """float32 array, one row a text, each of length 1; a row of zeros: this text says nothing to the model. No I/O."""
        ...


@runtime_checkable
class RemoteEmbedder(Protocol):
    """An embedder that has to ask somebody. A selection does no I/O, so its vectors are fetched before.

    A process may ask from several event loops, one after the other or side by side (`Runtime.select` has its own), so what is
    opened belongs to the loop it was opened in, and `close` closes what the running loop opened.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int:
        """0: not known before the first answer."""
        ...

    @property
    def languages(self) -> Collection[str] | None:
        """As `Embedder.languages`."""
        ...

    async def fetch(self, texts: Sequence[str]) -> Any:
        """As `Embedder.embed`. Raises `ProviderError`."""
        ...

    async def close(self) -> None: ...


Classifier = Callable[[Sequence[Message], View], Awaitable[Sequence[str] | Classification]]
"""A first stage that names categories for a conversation; unknown names are dropped. A `Classification` also says what it cost
and whether it failed. What it has to close, `close()` closes, if there is one."""
