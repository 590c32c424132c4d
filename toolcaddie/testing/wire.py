"""The port of a scripted upstream to a wire: requests it serves, requests it refuses, and the form of answers."""

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
        """Path of a base URL, such as `/v1`; may be empty."""
        ...

    def asks(self, path: str) -> bool:
        """Returns True if a POST to this path is a request to a model."""
        ...

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        """Returns the key of a request. Names of headers are in lower case."""
        ...

    def model_of(self, path: str, body: Any) -> str: ...
    def streams(self, path: str, body: Any) -> bool: ...
    def refusal_of(self, path: str, body: Any) -> dict[str, Any] | None:
        """Returns the error body a strict provider answers with status 400; None: the request is valid."""
        ...

    def error(self, status: int, message: str, *, kind: str = "", code: str | None = None) -> dict[str, Any]:
        """Returns an error body in the provider's format. An empty `kind` stands for the provider's name of the status."""
        ...

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]: ...
    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        """Returns the data of all events of a streamed answer to `body`."""
        ...

    def block(self, data: bytes) -> bytes:
        """Returns an event as it is sent, with its blank line."""
        ...

    def empty(self, *, answer_id: str, model: str) -> dict[str, Any]:
        """Returns a whole answer without content."""
        ...

    def empty_events(self, *, answer_id: str, model: str) -> list[bytes]: ...
    def models(self, names: Sequence[str]) -> dict[str, Any]:
        """Returns the answer to GET `{root}/models`."""
        ...
