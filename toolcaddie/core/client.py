"""The client behind a request, as a tool sees it: a tool may ask it questions, write to its log, and release its connection.

Doors whose clients can answer (MCP) set `RunContext.client`. `core.run` has the field, `doors/mcp` the implementation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from toolcaddie.core.errors import RequestError

Ability = Literal["elicitation", "sampling", "roots"]
"""The kinds of questions that a client may be able to answer."""

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Elicit:
    """A question to the person at the client. The answer has `action` (accept, decline, cancel) and `content`."""

    message: str
    schema: Mapping[str, Any]
    """JSON schema of the form: an object of plain values."""
    needs: Ability = "elicitation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A question to the client's model. The answer has `role`, `content` and `model`."""

    text: str
    max_tokens: int = 1_000
    system: str | None = None
    needs: Ability = "sampling"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """A question for the folders that the client opens to this server. The answer has `roots`."""

    needs: Ability = "roots"


Question = Elicit | Sample | Roots


class ClientError(RequestError):
    """The client cannot answer a question."""


class AnswerPending(RequestError):
    """The question is on its way to the client, which repeats the call with the answer."""


class CallerClient(Protocol):
    """The client of one call.

    With some protocols (MCP from 2026-07-28 on) a question ends the call: the client answers by calling again, and the tool runs
    once more from its beginning. So a tool asks before it acts, under the same keys each time, and stores intermediate results
    in `notes`.
    """

    @property
    def notes(self) -> dict[str, Any]:
        """JSON values that a tool stores for its later attempts at the same call. The client carries them, sealed."""
        ...

    def can(self, ability: Ability) -> bool:
        """Returns True if the client declared that it answers such questions."""
        ...

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Mapping[str, Any]]:
        """Returns the client's answers by the keys of the questions. Raises `ClientError` if the client cannot answer one of
        them, and `AnswerPending` if the call has to end until the client answers; tools let both pass."""
        ...

    async def log(self, level: LogLevel, data: Any) -> None:
        """Writes to the client's log."""
        ...

    async def release(self) -> None:
        """Closes the connection on which the client waits for the answer. The client fetches the answer later. Does nothing if
        the client could not do so."""
        ...
