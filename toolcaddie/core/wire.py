"""Values between a wire and its users: requests to a provider, and requests and answers at a door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolcaddie.core.errors import ProviderError
from toolcaddie.core.message import Message
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.vocabulary import WireName

# ---------------------------------------------------------------- to a provider


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """An encoded request to a provider."""

    path: str
    """Path below the provider's base address, with its query."""
    body: bytes
    headers: Mapping[str, str] | None = None
    """Headers of the `ModelRequest`, and those of the wire itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """A provider's error answer: its exception class, its message in one line, and the seconds to wait if the body has
    them."""

    kind: type[ProviderError]
    message: str
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPage:
    """A page of a provider's list of models, as OpenAI's model objects, and the path of the next page; empty: the last."""

    models: Sequence[JsonObject]
    next_path: str = ""


# ---------------------------------------------------------------- at a door


@dataclass(frozen=True, slots=True)
class Envelope:
    """The top-level fields of a request as bytes. A door decodes only those that decide its route: most bodies are mostly
    tools."""

    fields: Mapping[str, msgspec.Raw]

    @property
    def tools(self) -> bytes:
        return bytes(self.fields.get("tools", b"null"))

    @property
    def has_tools(self) -> bool:
        return self.tools not in (b"null", b"[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorRequest:
    """A client's request in our words. Tools are read separately, because a client repeats the same list and a door caches
    it."""

    model: str
    messages: tuple[Message, ...]
    tool_choice: Any = None
    """Same as in `ModelRequest`."""
    stream: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    """All other fields, unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerHead:
    """The head of an answer, whole or streamed. `id` is ours; each wire adds its own prefix."""

    id: str
    created: int
    """Seconds since 1970."""
    model: str
    """Model named by the client; a whole answer names the one that answered, if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error of a door, before a wire encodes it."""

    status: int
    message: str
    kind: str
    """OpenAI's word for the kind: 'invalid_request_error', 'rate_limit_error', 'server_error', ...; other wires translate."""
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    upstream: bytes = b""
    """The upstream's own error body, a JSON object. It goes to the client, completed if it is another API's."""

    @property
    def may_be_sent_again(self) -> bool:
        """True: a client with automatic retries may send the same request again."""
        return self.headers.get("x-should-retry") != "false"


def client_author(wire: WireName) -> str:
    """Returns the author of a message that a client sent back in the wire's own blocks, for the same wire."""
    return f"@{wire}"
