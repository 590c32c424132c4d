"""Errors in OpenAI's shape, `{"error": {message, type, param, code}}`: written by doors (where clients
send requests to us) and by the scripted servers of tests."""

from __future__ import annotations

from typing import Any

import msgspec

from toolcaddie.core.wire import Problem
from toolcaddie.wires.bodies import ENCODER


def write_error(problem: Problem) -> bytes:
    if problem.upstream:
        return _completed(problem)
    error = {"message": problem.message, "type": problem.kind, "param": problem.param, "code": problem.code}
    return ENCODER.encode({"error": error})


def write_error_event(problem: Problem) -> bytes:
    """Returns the error as the last event of a stream. `should_retry` in it replaces the header `x-should-retry`, because the
    headers have been sent."""
    body = write_error(problem)
    if not problem.may_be_sent_again:
        error = msgspec.json.decode(body)
        inner = error.get("error")
        if isinstance(inner, dict):
            body = ENCODER.encode({**error, "error": {**inner, "should_retry": False}})
    return b"data: " + body + b"\n\n"


def _completed(problem: Problem) -> bytes:
    """Returns the upstream's own error body. If it has the format of another API, its fields stay, and `type`, `param` and
    `code` are added because clients of OpenAI read them."""
    body: Any = msgspec.json.decode(problem.upstream)
    inner = body.get("error")
    if not isinstance(inner, dict) or ("type" in inner and "type" not in body):
        return problem.upstream
    code, status = inner.get("code"), inner.get("status")
    error_code = code if isinstance(code, str) else status if isinstance(status, str) else None
    completed = {"message": problem.message, "type": problem.kind, "param": None, **inner, "code": error_code}
    return ENCODER.encode({**body, "error": completed})
