"""Converts errors to `Problem`s, the gateway's error answers, with HTTP statuses that its clients handle correctly. A wire then
writes a problem in the format of the client's API.

The upstream is the model's API behind the gateway; the operator is whoever runs the gateway.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from toolcaddie.audit.redact import redact_keys
from toolcaddie.core.errors import (
    AuditError,
    BudgetSpentError,
    ConfigError,
    LimitExceededError,
    ProviderAuthError,
    ProviderError,
    ProviderPausedError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
    QueueFullError,
    RequestError,
    RunTakenError,
    ShutdownError,
    StorageError,
    TenantCatalogError,
    ToolcaddieError,
    has_acted,
)
from toolcaddie.core.wire import Problem
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.util.replacing import replace

_LAST_STATUS = 599
"""The largest valid status. An upstream may send a larger one, which clients and the HTTP server reject."""
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_NO_RETRY: Mapping[str, str] = {"x-should-retry": "false"}


class RefusedError(ToolcaddieError):
    """A request that the gateway refuses with `problem`, before anything was done for it."""

    def __init__(self, refusal: Problem) -> None:
        super().__init__(refusal.message)
        self.problem = refusal


def problem(
    status: int,
    message: str,
    *,
    kind: str,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] = _NO_HEADERS,
) -> Problem:
    """Returns a problem. `kind`, `param` (the field at fault) and `code` are the fields of OpenAI's errors."""
    return Problem(status=status, message=message, kind=kind, param=param, code=code, headers=headers)


def problem_of(error: Exception, *, own_upstream_key: bool) -> Problem:
    """Returns the problem that tells a client of an error, without secrets. If the run may have called a tool, the problem
    forbids automatic retries. `own_upstream_key`: True if the upstream was asked with the operator's key."""
    if isinstance(error, ToolcaddieError):
        answer = _problem_of_error(error, own_upstream_key=own_upstream_key)
    else:
        answer = problem(500, "the gateway failed on this request; its log says why", kind="server_error")
    answer = replace(answer, message=redact_keys(answer.message), upstream=KNOWN.redact_bytes(answer.upstream))
    return without_retry(answer) if has_acted(error) else answer


def without_retry(refusal: Problem) -> Problem:
    """Returns the problem with `x-should-retry: false` and without `retry-after`, for clients that retry automatically."""
    headers = {name: value for name, value in refusal.headers.items() if name != "retry-after"}
    return replace(refusal, headers={**headers, **_NO_RETRY})


def _problem_of_error(error: ToolcaddieError, *, own_upstream_key: bool) -> Problem:
    """Returns the problem that tells a client of a `ToolcaddieError`.

    If a provider reports that a request is wrong, the client gets the provider's own error. If a provider refuses a key, the
    client gets the provider's own error only if the client itself sent that key.
    """
    match error:
        case RefusedError():
            return error.problem
        case ProviderAuthError() if own_upstream_key:
            return problem(
                502, "the upstream provider refused the gateway's key", kind="upstream_error", code="upstream_auth"
            )
        case ProviderAuthError() | ProviderRejectedError() if error.status and _is_object(error.body):
            return Problem(
                status=error.status,
                message=str(error),
                kind="invalid_request_error",
                headers=_NO_RETRY,
                upstream=error.body,
            )
        case ProviderRateLimitError():
            return _rate_limited(error)
        case ProviderPausedError():
            wait = math.ceil(error.retry_after or 1)
            headers = {"retry-after": str(wait)}
            return problem(503, str(error), kind="upstream_error", code="upstream_paused", headers=headers)
        case ProviderUnavailableError() if error.status is None:
            return problem(504 if _too_slow(error) else 502, str(error), kind="upstream_error", code="upstream_down")
        case ProviderUnavailableError():
            status = error.status if error.status and error.status <= _LAST_STATUS else 502
            return problem(status, str(error), kind="upstream_error", code="upstream_failed")
        case ProviderError():
            return problem(502, str(error), kind="upstream_error", code="upstream_protocol")
        case RequestError():
            return problem(400, str(error), kind="invalid_request_error", param=error.param, code=error.code)
        case ConfigError():
            return problem(400, str(error), kind="invalid_request_error", param="tools", code="invalid_tools")
        case ShutdownError():
            return problem(503, str(error), kind="server_error", code="server_shutdown", headers={"retry-after": "1"})
        case RunTakenError() if has_acted(error):
            message = f"the calls of this run may have changed something: {error}"
            return problem(422, message, kind="run_failed", code="outcome_unknown")
        case AuditError():
            return problem(
                503, f"no run is allowed that cannot be recorded: {error}", kind="server_error", code="audit_failed"
            )
        case StorageError():
            return problem(503, str(error), kind="server_error", code="storage_failed")
        case TenantCatalogError():
            return problem(503, str(error), kind="server_error", code="catalog_unavailable", headers=_NO_RETRY)
        case QueueFullError():
            headers = {"retry-after": str(math.ceil(error.retry_after))}
            return problem(429, str(error), kind="rate_limit_error", code="too_much_work", headers=headers)
        case BudgetSpentError():
            headers = {"retry-after": str(math.ceil(error.retry_after)), **_NO_RETRY}
            return problem(429, str(error), kind=error.counted, code="rate_limit_exceeded", headers=headers)
        case LimitExceededError():
            return problem(422, str(error), kind="run_failed", code=f"{error.limit}_exceeded", headers=_NO_RETRY)
        case _:
            return problem(422, str(error), kind="run_failed", code="run_failed", headers=_NO_RETRY)


def _too_slow(error: ProviderError) -> bool:
    """Returns True for a timeout. If there were several attempts, the last attempt counts, because the error reports it."""
    return "time" in (error.attempts[-1].detail if error.attempts else str(error))


def _rate_limited(error: ProviderError) -> Problem:
    return Problem(
        status=429,
        message=str(error),
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        headers={} if error.retry_after is None else {"retry-after": f"{error.retry_after:g}"},
        upstream=error.body if _is_object(error.body) else b"",
    )


def _is_object(body: bytes) -> bool:
    """Returns True if the body is a JSON object."""
    try:
        return isinstance(msgspec.json.decode(body), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
