"""Errors in Anthropic's shape: read within answers, written by doors and scripted servers."""

from __future__ import annotations

from typing import Any

from toolcaddie.core.errors import ProviderError, ProviderProtocolError
from toolcaddie.wires.bodies import error_message, kind_of

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
"""What an error within a stream would have had for a status, had it come before."""


def failure(error: Any, body: bytes, who: str) -> ProviderError:
    said = error.get("type") if isinstance(error, dict) else None
    status = STATUS_OF.get(said) if isinstance(said, str) else None
    message = f"{who} broke off with an error: {error_message(body)}"
    if status is None:
        return ProviderProtocolError(message, body=body)
    return kind_of(status)(f"{message} ({said})", status=status, body=body)
