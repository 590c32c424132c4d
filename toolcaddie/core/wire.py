"""Values that pass between a wire and its users. A wire (package `wires`) translates between our types and the format of one API.
Providers use it to send requests; a door (an HTTP endpoint of the gateway) uses it to read requests and write answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolcaddie.core.errors import ProviderError
from toolcaddie.core.message import Message
from toolcaddie.core.tool import JsonObject, Tool
from toolcaddie.core.vocabulary import WireName

# ---------------------------------------------------------------- to a provider


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An encoded request to a provider."""

    path: str
    """Path below the provider's base address, with its query."""
    body: bytes
    headers: Mapping[str, str] | None = None
    """Headers of the `ModelRequest`, and the headers that the wire adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """A provider's error answer: its exception class, its message in one line, and the seconds to wait if the body has
    them."""

    kind: type[ProviderError]
    message: str
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPage:
    """A page of a provider's list of models, as OpenAI's model objects, and the path of the next page; an empty path: there is
    none."""

    models: Sequence[JsonObject]
    next_path: str = ""


# ---------------------------------------------------------------- at a door


_NO_TOOLS = (b"null", b"[]")
"""The field `tools` of a request without tools."""
_NO_TOOLS_SIZE = max(map(len, _NO_TOOLS))


@dataclass(frozen=True, slots=True)
class Envelope:
    """The top-level fields of a request as bytes. A door decodes only the fields that decide where the request goes, because in
    most requests the list of tools is by far the largest field."""

    fields: Mapping[str, msgspec.Raw]

    @property
    def tools(self) -> bytes:
        return bytes(self.fields.get("tools", b"null"))

    @property
    def has_tools(self) -> bool:
        raw = self.fields.get("tools")
        return raw is not None and (memoryview(raw).nbytes > _NO_TOOLS_SIZE or bytes(raw) not in _NO_TOOLS)


class DoorRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request in our types. The tools are read separately, because clients repeat the same list and a door caches
    it."""

    model: str
    messages: tuple[Message, ...]
    tool_choice: Any = None
    """Same as `ModelRequest.tool_choice`."""
    stream: bool = False
    params: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """All other fields, unchanged."""
    tools: tuple[Tool, ...] = ()
    """Tools whose definitions are among the messages. On most wires, all tools are in a field of their own."""
    own_forms: Mapping[str, JsonObject] = msgspec.field(default_factory=dict)
    """`Tool.own_form` of the client's tools that have one, by name."""


class AnswerHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of an answer, whole or streamed. `id` is ours; each wire adds its own prefix."""

    id: str
    created: int
    """Time of the answer in seconds since 1970."""
    model: str
    """Model named by the client. An answer that is not streamed names the model that answered, if it is known."""
    echo: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Fields of the request that the answer repeats, on a wire that does so."""
    own_forms: Mapping[str, JsonObject] = msgspec.field(default_factory=dict)
    """Same as `DoorRequest.own_forms`: a call of such a tool is written in the client's own form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error answer of a door, before a wire encodes it."""

    status: int
    message: str
    kind: str
    """OpenAI's word for the kind: 'invalid_request_error', 'rate_limit_error', 'server_error', ...; other wires translate."""
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    upstream: bytes = b""
    """The provider's own error body, a JSON object. It is passed to the client; missing fields are added if the provider speaks
    another API."""

    @property
    def may_be_sent_again(self) -> bool:
        """True if a client with automatic retries may send the same request again."""
        return self.headers.get("x-should-retry") != "false"


def client_author(wire: WireName) -> str:
    """Returns the value of `Message.author` for a message that a client sent in the wire's own blocks."""
    return f"@{wire}"
