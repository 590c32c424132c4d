"""The trace headers of outgoing requests: which span of a run, or of a request to the gateway, a request of ours belongs to.

Telemetry sets them; clients of model servers and of configured sources send them. Without telemetry there are none. They are
kept here, and not in the current span of OpenTelemetry, so that a run never changes the current span of the program around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

_NONE: Mapping[str, str] = {}
_HEADERS: ContextVar[Mapping[str, str]] = ContextVar("toolcaddie_trace_headers", default=_NONE)


def set_trace_headers(headers: Mapping[str, str]) -> None:
    """Sets the headers for the requests that this task sends from now on, and the tasks that it starts; empty: none."""
    _HEADERS.set(headers)


def trace_headers() -> Mapping[str, str]:
    """Returns `traceparent` and perhaps `tracestate`, as W3C Trace Context defines them; empty: nothing is traced.

    Only requests to the model server and to servers that the operator has configured may carry them: an address from a model or
    from a document must not learn ids of traces.
    """
    return _HEADERS.get()
