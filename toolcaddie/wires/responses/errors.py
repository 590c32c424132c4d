"""Errors of the Responses API inside an answer: read by the provider, and written as the last event of a stream by doors (where
clients send requests to us). `who` is the provider's name for error messages."""

from __future__ import annotations

from typing import Any

import msgspec

from toolcaddie.core.errors import ProviderError, ProviderUnavailableError
from toolcaddie.core.wire import Problem
from toolcaddie.wires.bodies import ENCODER, kind_of

_STATUSES = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "too_many_requests": 429,
    "server_error": 500,
    "internal_error": 500,
    "internal_server_error": 500,
    "overloaded": 503,
    "overloaded_error": 503,
    "server_is_overloaded": 503,
    "server_overloaded": 503,
    "service_unavailable": 503,
    "service_unavailable_error": 503,
    "slow_down": 503,
    "timeout": 504,
    "vector_store_timeout": 504,
}
"""HTTP status for each name of an error inside an answer. Any other name means that the request is at fault."""
_AT_FAULT = 400


class ErrorInside(msgspec.Struct):
    message: str | None = None
    code: str | int | None = None
    type: str | None = None


def failure(error: ErrorInside, who: str, body: bytes, *, status: int | None = None) -> ProviderError:
    """Returns the exception for an error inside an answer. An error without a name is not treated as a fault of
    the request."""
    names = [str(name) for name in (error.code, error.type) if name]
    message = f"{who} stopped with an error: {error.message or 'no message'}"
    message += f" ({', '.join(names)})" if names else ""
    if status is None and not names:
        return ProviderUnavailableError(message, body=body)
    if status is None:
        status = next((_STATUSES[name] for name in names if name in _STATUSES), _AT_FAULT)
    return kind_of(status)(message, body=body)


def write_error_event(problem: Problem) -> bytes:
    """Returns the error as the last event of a stream. `should_retry` in it replaces the header `x-should-retry`, because the
    headers have been sent."""
    event: dict[str, Any] = {
        "type": "error",
        "code": problem.code or problem.kind,
        "message": problem.message,
        "param": problem.param,
    }
    if not problem.may_be_sent_again:
        event["should_retry"] = False
    return b"event: error\ndata: " + ENCODER.encode(event) + b"\n\n"
