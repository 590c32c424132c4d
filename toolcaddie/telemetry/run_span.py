"""The span of a run that is under way, and what spans of runs have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import toolcaddie.telemetry.genai as names
from toolcaddie.core.message import Attempt
from toolcaddie.core.usage import Usage
from toolcaddie.util.tracing import set_trace_headers

_PROPAGATOR = TraceContextTextMapPropagator()


@dataclass(slots=True)
class RunSpan:
    """The span of a run that has not ended."""

    span: Span
    common: Mapping[str, str]
    """Attributes that the spans inside have too."""
    headers_before: Mapping[str, str]
    """The trace headers of the task before the run."""
    provider: str = ""
    """The provider that was asked first."""
    chat: Span | None = None
    """The model call in progress."""
    acting: dict[str, tuple[Span, int]] = field(default_factory=dict)
    """Calls that act now, by id, and their beginnings in nanoseconds since the epoch."""
    context: Any = field(init=False)
    """The context in which spans of calls become children of the run's span."""

    def __post_init__(self) -> None:
        self.context = trace.set_span_in_context(self.span)

    def end(self) -> None:
        """Ends the span, and those inside that have not ended."""
        for span, _ in self.acting.values():
            span.end()
        if self.chat is not None:
            self.chat.end()
        self.span.end()


def send_along(span: Span) -> None:
    """Lets the following requests carry the id of a span."""
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers, trace.set_span_in_context(span))
    set_trace_headers(headers)


def token_attributes(usage: Usage) -> Mapping[str, int]:
    return {
        names.GEN_AI_INPUT_TOKENS: usage.input_tokens,
        names.GEN_AI_OUTPUT_TOKENS: usage.output_tokens,
        names.GEN_AI_CACHED_TOKENS: usage.cached_tokens,
        names.GEN_AI_WRITTEN_TOKENS: usage.written_tokens,
        names.GEN_AI_REASONING_TOKENS: usage.reasoning_tokens,
    }


def add_attempts(span: Span, attempts: Sequence[Attempt]) -> None:
    for attempt in attempts:
        attributes = {
            names.GEN_AI_PROVIDER: names.provider_name(attempt.provider),
            names.ATTEMPT_HOW: attempt.how,
            names.ATTEMPT_OUTCOME: attempt.outcome,
        }
        span.add_event("attempt", attributes)


def mark_failed(span: Span, kind: str) -> None:
    span.set_attribute(names.ERROR_TYPE, kind)
    span.set_status(Status(StatusCode.ERROR, kind))
