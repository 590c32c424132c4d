"""Errors in Anthropic's format: read within answers, written by doors (where clients send requests to us)
and by the scripted servers of tests."""

from __future__ import annotations

from typing import Any

import msgspec

from toolcaddie.core.errors import ProviderError, ProviderProtocolError
from toolcaddie.core.wire import Problem
from toolcaddie.wires.bodies import ENCODER, error_message, kind_of

STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP statuses of errors within a stream, by their type."""
_TYPES = {status: name for name, status in STATUS_OF.items() if status != 500}


def failure(error: Any, body: bytes, who: str) -> ProviderError:
    """Returns the exception for an error object in place of an answer."""
    kind = error.get("type") if isinstance(error, dict) else None
    status = STATUS_OF.get(kind) if isinstance(kind, str) else None
    message = f"{who} stopped with an error: {error_message(body)}"
    if status is None:
        return ProviderProtocolError(message, body=body)
    return kind_of(status)(f"{message} ({kind})", status=status, body=body)


# ---------------------------------------------------------------- by a door


def error_type(status: int) -> str:
    """Returns the API's error type for a status."""
    return _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def write_error(problem: Problem) -> bytes:
    """Returns the error in this API's format. Further fields of an upstream's error of another API stay in it."""
    body: Any = msgspec.json.decode(problem.upstream) if problem.upstream else {}
    inner = body.get("error")
    beside = inner if isinstance(inner, dict) else {}
    if body.get("type") == "error" and beside.keys() >= {"type", "message"}:
        return problem.upstream
    error = {**beside, "type": error_type(problem.status), "message": problem.message}
    return ENCODER.encode({"type": "error", "error": error})


def write_error_event(problem: Problem) -> bytes:
    """Returns the error as the last event of a stream. `should_retry` in it replaces the header `x-should-retry`, because the
    headers have been sent."""
    body = write_error(problem)
    if not problem.may_be_sent_again:
        error = msgspec.json.decode(body)
        body = ENCODER.encode({**error, "error": {**error["error"], "should_retry": False}})
    return b"event: error\ndata: " + body + b"\n\n"
