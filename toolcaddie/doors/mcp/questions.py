"""The client of one MCP call (`core.client.CallerClient`): tools and prompts ask it questions.

A client of the protocol of 2025 has a session, and the question is sent to it while the call waits. A client of the protocol of
2026 gets the questions as the result of its call, and calls again with the answers. What was answered before travels with it as
`requestState`, which the package `mcp` seals and checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.connection import allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.jsonrpc import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcaddie.core.client import Ability, AnswerPending, ClientError, Elicit, LogLevel, Question, Roots, Sample
from toolcaddie.core.schema import argument_errors

Context = ServerRequestContext[Any, Any]
Repeatable = types.CallToolRequestParams | types.GetPromptRequestParams | types.ReadResourceRequestParams
"""Requests that a client may repeat with answers to questions."""
Answers = dict[str, Mapping[str, Any]]

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_LARGEST_STATE = 64 * 1024
"""The largest number of bytes of answers and notes that travel with the client."""


class _State(msgspec.Struct, kw_only=True):
    """What travels with a client of the protocol of 2026 between two attempts at a call."""

    answers: dict[str, dict[str, Any]] = {}
    notes: dict[str, Any] = {}


class MCPClient:
    """The client of one request. `responses` and `state`: the answers that this request brings, and what it carried before.
    `level`: the lowest level of log messages that the client wants, if it named one."""

    def __init__(
        self,
        context: Context,
        *,
        responses: Mapping[str, Any] | None = None,
        state: str | None = None,
        level: str | None = None,
    ) -> None:
        self._context = context
        self._level = level
        before = _read(state)
        self.notes: dict[str, Any] = before.notes
        self._answers: Answers = dict(before.answers)
        self._answers |= {key: _raw(value) for key, value in (responses or {}).items()}
        self._questions: dict[str, Question] = {}
        self._missing: set[Ability] = set()

    @property
    def modern(self) -> bool:
        """True if the client speaks the protocol of 2026 or a later one."""
        return self._context.protocol_version in MODERN_PROTOCOL_VERSIONS

    def can(self, ability: Ability) -> bool:
        """Returns True if the client declared this ability, and there is a way to ask it."""
        declared = getattr(self._context.session.client_capabilities, ability, None) is not None
        return declared and (self.modern or self._context.session.can_send_request)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Mapping[str, Any]]:
        """Returns the answers, or ends the attempt with `AnswerPending`. Raises `ClientError` for a client that cannot answer."""
        missing = {question.needs for question in questions.values() if not self.can(question.needs)}
        if missing:
            self._missing |= missing
            raise ClientError(f"the client does not offer {', '.join(sorted(missing))}, which this tool needs")
        if not self.modern:
            return {key: await self._asked(question) for key, question in questions.items()}
        open_questions = {key: question for key, question in questions.items() if not self._is_answered(key, question)}
        if open_questions:
            self._questions |= open_questions
            raise AnswerPending(
                f"the client was asked for {', '.join(open_questions)} and will call again with the answer"
            )
        return {key: self._answers[key] for key in questions}

    async def log(self, level: LogLevel, data: Any) -> None:
        """Sends a log message, unless the client does not want messages of this level."""
        wanted = level in allowed_log_levels(self._context.protocol_version, self._context.meta)
        if not wanted or (self._level in _LEVELS and _LEVELS.index(level) < _LEVELS.index(self._level)):
            return
        message = types.LoggingMessageNotificationParams(level=level, data=data, logger="toolcaddie")
        await self._context.session.send_notification(
            types.LoggingMessageNotification(params=message), related_request_id=self._context.request_id
        )

    async def release(self) -> None:
        """Closes the response stream of a client that can resume it."""
        if self._context.close_sse_stream is not None:
            await self._context.close_sse_stream()

    def outcome(self) -> types.InputRequiredResult | None:
        """Returns the questions to the client if the attempt ended for them. Raises `MCPError` if the client lacks an ability."""
        if self._missing and self.modern:
            names = sorted(self._missing)
            raise MCPError(
                MISSING_REQUIRED_CLIENT_CAPABILITY,
                f"this call needs a client that offers {', '.join(names)}",
                {"requiredCapabilities": {name: {} for name in names}},
            )
        if not self._questions:
            return None
        state = msgspec.json.encode(_State(answers=self._used_answers(), notes=self.notes))
        if len(state) > _LARGEST_STATE:
            raise MCPError(INVALID_PARAMS, f"the answers and notes of this call are over {_LARGEST_STATE:,} bytes")
        requests = {key: _request(question) for key, question in self._questions.items()}
        return types.InputRequiredResult(input_requests=requests, request_state=state.decode())

    def _used_answers(self) -> dict[str, dict[str, Any]]:
        return {key: dict(value) for key, value in self._answers.items() if key not in self._questions}

    def _is_answered(self, key: str, question: Question) -> bool:
        return key in self._answers and _fits(self._answers[key], question)

    async def _asked(self, question: Question) -> Mapping[str, Any]:
        """Sends a question to a client with a session and returns its answer. Raises `ClientError`."""
        request: Any = _request(question)
        try:
            result = await self._context.session.send_request(
                request,
                _RESULTS[type(question)],
                metadata=ServerMessageMetadata(related_request_id=self._context.request_id),
            )
        except MCPError as error:
            raise ClientError(f"the client refused the question: {error.message}"[:500]) from error
        answer = _raw(result)
        if not _fits(answer, question):
            raise ClientError("the client's answer does not fit the form of the question")
        return answer


_RESULTS: Mapping[type[Question], type[Any]] = {
    Elicit: types.ElicitResult,
    Sample: types.CreateMessageResult,
    Roots: types.ListRootsResult,
}


def _request(question: Question) -> types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest:
    match question:
        case Elicit():
            form = types.ElicitRequestFormParams(message=question.message, requested_schema=dict(question.schema))
            return types.ElicitRequest(params=form)
        case Sample():
            message = types.SamplingMessage(role="user", content=types.TextContent(text=question.text))
            params = types.CreateMessageRequestParams(
                messages=[message], max_tokens=question.max_tokens, system_prompt=question.system
            )
            return types.CreateMessageRequest(params=params)
        case Roots():
            return types.ListRootsRequest()


def _fits(answer: Mapping[str, Any], question: Question) -> bool:
    """Returns True if an answer has the form that the question asks for."""
    match question:
        case Elicit():
            accepted = answer.get("action") == "accept"
            content = answer.get("content") or {}
            return (
                not argument_errors(question.schema, content)
                if accepted
                else answer.get("action") in ("decline", "cancel")
            )
        case Sample():
            return "content" in answer and "role" in answer
        case Roots():
            return isinstance(answer.get("roots"), list)


def _raw(value: Any) -> dict[str, Any]:
    """Returns an answer as the JSON object that the client sent."""
    raw: dict[str, Any] = (
        value if isinstance(value, dict) else value.model_dump(by_alias=True, mode="json", exclude_none=True)
    )
    return raw


def _read(state: str | None) -> _State:
    try:
        return msgspec.json.decode(state, type=_State) if state else _State()
    except msgspec.MsgspecError as error:  # the seal was right, so another version of this server wrote it
        raise MCPError(INVALID_PARAMS, "Invalid or expired requestState") from error
