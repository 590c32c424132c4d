"""Sockets around wires: the format of one API, read and written in one place. All of it is pure: bytes and values, no I/O.

A provider asks a model server through a `ClientWire`; a door answers clients through a `DoorWire`. What both share (messages,
calls, tools, usage) stands once, below `toolcaddie/wires/NAME/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.message import ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject, Tool
from toolcaddie.core.vocabulary import WireName
from toolcaddie.core.wire import (
    AnswerHead,
    DoorRequest,
    Envelope,
    ErrorReport,
    ModelPage,
    Problem,
    WireRequest,
)


class StreamReader(Protocol):
    """A provider's streamed answer while it comes in."""

    @property
    def done(self) -> bool:
        """Whether the answer is whole; what still comes is not read."""
        ...

    def add(self, data: bytes) -> ModelDelta | None:
        """Takes in the data of one event; None: nothing of it is for the caller."""
        ...

    def end(self) -> None:
        """Notes the end of the body. Raises `ProviderProtocolError` when that was too early."""
        ...

    def reply(self) -> ModelReply:
        """Returns the whole answer. Raises `ProviderProtocolError` if none came."""
        ...


class StreamWriter(Protocol):
    """A door's streamed answer while it goes out: each method returns the bytes to send, often none."""

    def begin(self) -> bytes:
        """Writes the opening, unless it was written; without this the first piece brings it along."""
        ...

    def add(self, delta: ModelDelta) -> bytes:
        """Writes a piece. `delta.raw` fills in fields we do not know; `text` and `calls` are authoritative."""
        ...

    def end(self, reply: ModelReply) -> bytes:
        """Writes what was not streamed yet of the whole answer, its reason to stop, its usage, and the end."""
        ...


class ClientWire(Protocol):
    """The client's side of an API. An instance belongs to one provider: it holds options, and definitions of tools that it has
    translated before."""

    @property
    def name(self) -> WireName: ...
    @property
    def models_path(self) -> str:
        """Where the list of models lies, below the provider's base address."""
        ...

    def write_request(self, request: ModelRequest, *, model: str, author: str, stream: bool) -> WireRequest:
        """Writes a request. `author` names the provider and model asked, as `Message.author` does. `request.tools` may hold
        definitions or `msgspec.Raw`, which are already encoded. Raises `RequestError` for what the API cannot be asked."""
        ...

    def read_reply(self, body: bytes, *, who: str, author: str) -> ModelReply:
        """Reads a whole answer of `author`. Raises `ProviderError` with the provider's name (`who`) in front."""
        ...

    def read_stream(self, request: ModelRequest, *, who: str, author: str) -> StreamReader:
        """Returns the reader of the streamed answer to `request`."""
        ...

    def read_error(self, status: int, body: bytes) -> ErrorReport:
        """Reads an error answer, whatever its body is."""
        ...

    def read_models(self, body: bytes, *, who: str) -> ModelPage:
        """Reads one page of the list of models. Raises `ProviderProtocolError`."""
        ...


class DoorWire(Protocol):
    """The server's side of an API, for doors and scripted servers."""

    @property
    def name(self) -> WireName: ...
    @property
    def upstream_path(self) -> str:
        """Where a request goes that is passed on to a provider of the same wire, below the provider's base address."""
        ...

    def open(self, body: bytes, bounds: Bounds) -> Envelope:
        """Reads a body as far as its route depends on it. Raises `RequestError` where it is no JSON object, or holds more than
        the bounds allow."""
        ...

    def declines_tools(self, envelope: Envelope) -> bool:
        """Returns whether the request says that no tool may be called."""
        ...

    def read_request(self, envelope: Envelope, bounds: Bounds) -> DoorRequest:
        """Reads everything but the tools. Raises `RequestError` naming the field at fault."""
        ...

    def read_tools(self, raw: bytes, bounds: Bounds) -> Sequence[Tool]:
        """Reads the tools of a request, in their order, each of the source 'client' and with its own definition. Raises
        `RequestError` naming the field at fault."""
        ...

    def write_reply(self, reply: ModelReply, head: AnswerHead) -> bytes:
        """Writes a whole answer. Fields of `reply.raw` that we do not know go out with it."""
        ...

    def write_stream(self, request: DoorRequest, head: AnswerHead) -> StreamWriter:
        """Returns the writer of the streamed answer to `request`."""
        ...

    def write_error(self, problem: Problem) -> bytes:
        """Writes the body of an error answer."""
        ...

    def write_error_event(self, problem: Problem) -> bytes:
        """Writes an error that ends a stream. Status and headers have been sent, so whether to send the request again is said
        in the event."""
        ...

    def complaint(self, path: str, body: object) -> JsonObject | None:
        """Returns the error body with which the real server would refuse a decoded request (status 400); None: it would not.
        Scripted servers are as strict as the real one by it."""
        ...


class Wire(ClientWire, DoorWire, Protocol):
    """An API in both directions."""
