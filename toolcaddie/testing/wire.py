"""What a scripted upstream has to know of a wire: which requests it serves, what it refuses, how an answer looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from toolcaddie.testing.script import Reply


class Wire(Protocol):
    """One provider's API from the provider's side. Pure: bytes and JSON in, JSON and bytes out."""

    @property
    def name(self) -> str: ...
    @property
    def root(self) -> str:
        """What a base URL ends with behind the host, such as `/v1`; may be empty."""
        ...

    def asks(self, path: str) -> bool:
        """Whether a POST to this path asks the model."""
        ...

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        """The key a request brings; names of headers are in lower case."""
        ...

    def model_of(self, path: str, body: Any) -> str: ...
    def streams(self, path: str, body: Any) -> bool: ...
    def refusal_of(self, path: str, body: Any) -> dict[str, Any] | None:
        """The error body a strict provider answers with status 400; None: the request is fine."""
        ...

    def error(self, status: int, message: str, *, kind: str = "", code: str | None = None) -> dict[str, Any]:
        """An error body in the provider's shape; `kind` empty: the provider's own word for the status."""
        ...

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]: ...
    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        """The data of each event of a streamed answer to `body`, to the very last."""
        ...

    def block(self, data: bytes) -> bytes:
        """One event as it goes over the wire, its blank line included."""
        ...

    def empty(self, *, answer_id: str, model: str) -> dict[str, Any]:
        """A whole answer that holds no answer."""
        ...

    def empty_events(self, *, answer_id: str, model: str) -> list[bytes]: ...
    def models(self, names: Sequence[str]) -> dict[str, Any]:
        """The answer to GET `{root}/models`."""
        ...
