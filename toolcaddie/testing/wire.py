"""The interface between `ScriptedUpstream`, the server for tests, and the provider's API that it imitates.

A wire in this package is the server's half of one API: it reads requests, refuses what the provider would refuse, and writes
answers. (`toolcaddie.wires` has the half that production uses.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from toolcaddie.testing.script import Reply


class Wire(Protocol):
    """The API of one provider, as its server sees it. It does no I/O: it takes and returns JSON values and bytes.

    Implement it to test a provider for an API that does not ship. `body` is the decoded JSON of a request.
    """

    @property
    def name(self) -> str: ...
    @property
    def root(self) -> str:
        """Returns the path of the base URL, such as `/v1`; may be empty."""
        ...

    def asks(self, path: str) -> bool:
        """Returns whether a POST to this path is a request to a model."""
        ...

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        """Returns the API key of a request; None if there is none. The names of the headers are in lower case."""
        ...

    def model_of(self, path: str, body: Any) -> str:
        """Returns the name of the model that a request asks."""
        ...

    def streams(self, path: str, body: Any) -> bool:
        """Returns whether a request asks for a streamed answer."""
        ...

    def refusal_of(self, path: str, body: Any) -> dict[str, Any] | None:
        """Returns the error body that a strict provider sends with status 400; None: the request is valid."""
        ...

    def error(self, status: int, message: str, *, kind: str = "", code: str | None = None) -> dict[str, Any]:
        """Returns an error body in the provider's format. An empty `kind` stands for the provider's own type of error."""
        ...

    def whole(self, reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]:
        """Returns the body of an answer without streaming."""
        ...

    def events(self, reply: Reply, *, answer_id: str, model: str, body: Any) -> list[bytes]:
        """Returns the data of each event of a streamed answer to `body`."""
        ...

    def block(self, data: bytes) -> bytes:
        """Returns a server-sent event with this data, as bytes with the blank line that ends it."""
        ...

    def empty(self, *, answer_id: str, model: str) -> dict[str, Any]:
        """Returns a faulty body that has no place for content, such as chat completions without `choices`.

        (`whole(Reply())` is a valid answer instead: its content is an empty text.)
        """
        ...

    def empty_events(self, *, answer_id: str, model: str) -> list[bytes]:
        """Returns the data of the events of the same faulty answer as a stream: it begins and ends, with nothing between."""
        ...

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        """Returns the answer to GET `{root}/models`."""
        ...
