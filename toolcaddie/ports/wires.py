"""Interfaces (sockets, which plugins fill) for wires. A wire reads and writes the format of one model API. It does no I/O: it
turns values into bytes and bytes into values.

A provider asks a model server through a `ClientWire`; a door (the side where clients send requests to us) answers through a
`DoorWire`. In all methods `who` is the provider's name for error messages. Both directions of a wire are
in one folder, `toolcaddie/wires/NAME/`, and share the code for messages, calls, tools and usage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from toolcaddie.core.bounds import Bounds
from toolcaddie.core.message import Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject, Tool, ToolCall
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
    """Reads a provider's streamed answer."""

    @property
    def done(self) -> bool:
        """True if the answer is complete; further data is not read."""
        ...

    def add(self, data: bytes) -> ModelDelta | None:
        """Reads the data of one event; None: it contains nothing for the caller."""
        ...

    def end(self) -> None:
        """Marks the end of the body. Raises `ProviderProtocolError` if the answer was not finished."""
        ...

    def reply(self) -> ModelReply:
        """Returns the whole answer. Raises `ProviderProtocolError` if none came."""
        ...


class StreamWriter(Protocol):
    """Writes a door's streamed answer: each method returns the bytes to send, often none."""

    def begin(self) -> bytes:
        """Returns the opening of the stream; empty if it was written before. Without this call, the first piece includes the
        opening."""
        ...

    def add(self, delta: ModelDelta) -> bytes:
        """Writes a piece: the text and calls of `delta`, and from `delta.raw` the fields that Toolcaddie does not know."""
        ...

    def end(self, reply: ModelReply) -> bytes:
        """Writes the rest of the answer, its finish reason, its usage, the fields of `reply.raw` as in `write_reply`, and the
        end."""
        ...


class ClientWire(Protocol):
    """The client's side of an API. An instance belongs to one provider: it holds options, and cached definitions of
    tools."""

    @property
    def name(self) -> WireName: ...
    @property
    def models_path(self) -> str:
        """Path of the list of models, below the provider's base address."""
        ...

    def write_request(self, request: ModelRequest, *, model: str, author: str, stream: bool) -> WireRequest:
        """Writes a request. `author` names the provider and model asked, as `Message.author` does. `request.tools` may hold
        definitions or `msgspec.Raw`, which are already encoded. Raises `RequestError` if the API cannot express a request."""
        ...

    def read_reply(self, body: bytes, *, who: str, author: str) -> ModelReply:
        """Reads a whole answer of `author`. Raises `ProviderError` whose message begins with `who`."""
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


@runtime_checkable
class ReadsByRequest(Protocol):
    """A `ClientWire` that must know the request to read a whole answer: its calls have names that mean something only there."""

    def read_reply_to(self, request: ModelRequest, body: bytes, *, who: str, author: str) -> ModelReply:
        """Reads a whole answer to `request`, as `ClientWire.read_reply` does."""
        ...


class DoorWire(Protocol):
    """The server's side of an API, for doors and scripted servers."""

    @property
    def name(self) -> WireName: ...
    @property
    def upstream_path(self) -> str:
        """Path for a request that is passed through to a provider of the same wire, below the provider's base address."""
        ...

    def open(self, body: bytes, bounds: Bounds) -> Envelope:
        """Splits a request's body into its top-level fields, which stay encoded. Raises `RequestError` if the body is not a JSON
        object or exceeds the bounds."""
        ...

    def declines_tools(self, envelope: Envelope) -> bool:
        """Returns True if the request forbids tool calls."""
        ...

    def read_request(self, envelope: Envelope, bounds: Bounds) -> DoorRequest:
        """Reads everything but the tools. Raises `RequestError` naming the field at fault."""
        ...

    def read_tools(self, raw: bytes, bounds: Bounds) -> Sequence[Tool]:
        """Returns the tools that a client offers in its request, in the order of the request.

        `raw` is the JSON of the field `tools`. The client runs these tools itself, so their `source` is 'client'; their
        `definition` is exactly what the client sent. Raises `RequestError` naming the field at fault.
        """
        ...

    def own_blocks(self, messages: Sequence[Message], calls: Sequence[ToolCall], ending: str) -> Sequence[JsonObject]:
        """Returns the answer of a run in the blocks of this API, if they came over it: those of all `messages` without the calls
        that are not among `calls`, then the text `ending`. Empty: text and calls say everything."""
        ...

    def write_reply(self, reply: ModelReply, head: AnswerHead) -> bytes:
        """Writes a whole answer, with the fields of `reply.raw` that only this wire knows, if they came on it."""
        ...

    def write_stream(self, request: DoorRequest, head: AnswerHead) -> StreamWriter:
        """Returns the writer of the streamed answer to `request`."""
        ...

    def write_error(self, problem: Problem) -> bytes:
        """Writes the body of an error answer."""
        ...

    def write_error_event(self, problem: Problem) -> bytes:
        """Writes an error that ends a stream. Status and headers have been sent, so the event itself tells the client
        whether a retry may help."""
        ...

    def complaint(self, path: str, body: object) -> JsonObject | None:
        """Returns the error body with which the real server would refuse a decoded request (status 400); None: it is valid.
        It makes scripted servers as strict as the real one."""
        ...


class Wire(ClientWire, DoorWire, Protocol):
    """An API in both directions."""
