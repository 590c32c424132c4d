"""Errors in Gemini's format: read by the Gemini provider, inside answers or in place of them, and written by the scripted servers
of tests."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from toolcaddie.core.errors import ProviderAuthError, ProviderError, ProviderProtocolError
from toolcaddie.core.tool import JsonObject
from toolcaddie.core.wire import ErrorReport
from toolcaddie.wires.bodies import UNREADABLE, error_message, kind_of

STATUS_OF = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
_LONGEST_WAIT = 86_400.0
_SECONDS = re.compile(r"([0-9]+(?:\.[0-9]+)?)s")
_ANY = msgspec.json.Decoder()


def read_error(status: int, body: bytes) -> ErrorReport:
    """Reads an error answer. A wrong key and the time to wait are in its body; other APIs put them into the status and a
    header."""
    kind = ProviderAuthError if refuses_the_key(body) else kind_of(status)
    return ErrorReport(kind=kind, message=error_message(body), retry_after=retry_delay(body))


def failure(error: Any, data: bytes, who: str) -> ProviderError:
    """Returns the exception for an error in place of an answer, of the class that fits the status in it. `who`: the
    provider's name."""
    status = error.get("code") if isinstance(error, dict) else None
    if not isinstance(status, int) or not 400 <= status < 600:
        name = error.get("status") if isinstance(error, dict) else None
        status = STATUS_OF.get(name) if isinstance(name, str) else None
    kind = kind_of(status) if status else ProviderProtocolError
    message = f"{who} stopped with an error: {error_message(data)}"
    return kind(message, status=status, retry_after=retry_delay(data), body=data)


def error_in(body: bytes) -> Any:
    """Returns the error of an error body, which may be the only element of a list."""
    try:
        value = _ANY.decode(body)
    except UNREADABLE:
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value.get("error") if isinstance(value, dict) else None


def _details(body: bytes) -> list[JsonObject]:
    error = error_in(body)
    details = error.get("details") if isinstance(error, dict) else None
    return [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []


def retry_delay(body: bytes) -> float | None:
    """Returns the seconds to wait that an error body names ("36s"), a day at most; None: it names none."""
    for detail in _details(body):
        delay = detail.get("retryDelay")
        seconds = _SECONDS.fullmatch(delay) if isinstance(delay, str) else None
        if seconds is not None:
            return min(float(seconds[1]), _LONGEST_WAIT)
    return None


def refuses_the_key(body: bytes) -> bool:
    """Returns True if an error body says that the key is wrong; Gemini answers a wrong key with status 400."""
    return any(detail.get("reason") in ("API_KEY_INVALID", "API_KEY_EXPIRED") for detail in _details(body))


# ---------------------------------------------------------------- by a scripted server

_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def refusal(status: int, message: str, *, kind: str = "", code: str | None = None) -> dict[str, Any]:
    """Returns an error body in the API's format. An empty `kind` stands for the API's name of the status."""
    error: dict[str, Any] = {"code": status, "message": message, "status": kind or _NAMES.get(status, "UNKNOWN")}
    if code is not None:
        reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code, "domain": "googleapis.com"}
        error["details"] = [reason]
    return {"error": error}
