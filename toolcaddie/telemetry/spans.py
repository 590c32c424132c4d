"""The event sink that records runs as OpenTelemetry spans. A span is a named period of time with attributes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from toolcaddie.core.events import (
    CallFinished,
    ClaimsUnsupported,
    LimitReached,
    MetaCalled,
    ModelAnswered,
    ModelAsked,
    RunEvent,
    RunFailed,
    RunFinished,
    RunPaused,
    RunStarted,
    ToolsSelected,
)
from toolcaddie.core.message import Attempt
from toolcaddie.telemetry.limits import MOST_RUNS
from toolcaddie.util.bounded import Bounded

# The names of OpenTelemetry's conventions for generative AI. They are copied because the package that defines them calls them
# incubating and may move them.
GEN_AI_OPERATION = "gen_ai.operation.name"
GEN_AI_PROVIDER = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL = "gen_ai.request.model"
GEN_AI_RESPONSE_MODEL = "gen_ai.response.model"
GEN_AI_FINISH_REASONS = "gen_ai.response.finish_reasons"
GEN_AI_INPUT_TOKENS = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
GEN_AI_CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_WRITTEN_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
GEN_AI_TOOL_NAME = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID = "gen_ai.tool.call.id"
GEN_AI_TOOL_TYPE = "gen_ai.tool.type"
ERROR_TYPE = "error.type"

RUN_ID = "toolcaddie.run.id"
PRESET = "toolcaddie.preset"
STATUS = "toolcaddie.status"
ROUND = "toolcaddie.round"
CALL_NUMBER = "toolcaddie.call.number"
SOURCE = "toolcaddie.source"
CATALOG_TOOLS = "toolcaddie.tools.catalog"
SELECTED_TOOLS = "toolcaddie.tools.selected"
SENT_TOOLS = "toolcaddie.tools.sent"
ADDED_TOOLS = "toolcaddie.tools.added"
CACHED_RESULT = "toolcaddie.result.cached"
ATTEMPT_HOW = "toolcaddie.attempt.how"
ATTEMPT_OUTCOME = "toolcaddie.attempt.outcome"


class OpenTelemetrySink:
    """Records a span for each run, and in it a span for each model call and tool call. No span has texts of people or models.

    `tracer_provider`: None means OpenTelemetry's global one. Without an OpenTelemetry SDK, and for runs that are not sampled, an
    event costs a dictionary lookup. The span of a call is made after the call, with the times at which it began and ended,
    because a sink receives the event of a tool call only at the call's end.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer: Tracer = trace.get_tracer("toolcaddie", tracer_provider=tracer_provider)
        self._is_global = tracer_provider is None
        self._runs = Bounded[str, _RunSpan](MOST_RUNS, on_eviction=lambda run: run.span.end())
        self._receivers: Mapping[type, Callable[[Any], None]] = {
            RunStarted: self._started,
            ToolsSelected: self._selected,
            ModelAsked: self._request,
            ModelAnswered: self._answered,
            MetaCalled: self._meta,
            CallFinished: self._called,
            LimitReached: self._limit,
            ClaimsUnsupported: self._claims,
            RunPaused: lambda event: self._ended(event.run_id, "pending"),
            RunFinished: self._finished,
            RunFailed: self._failed,
        }
        self.takes = frozenset(self._receivers)

    @property
    def receivers(self) -> Mapping[type, Callable[[Any], None]]:
        """The function for each class of events; see `ports.EventSink`."""
        return self._receivers

    async def emit(self, event: RunEvent) -> None:
        record = self._receivers.get(type(event))
        if record is not None:
            record(event)

    def _started(self, event: RunStarted) -> None:
        if self._is_global and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return  # no SDK is set up
        span = self._tracer.start_span(
            "run",
            attributes={
                GEN_AI_OPERATION: "invoke_agent",
                GEN_AI_REQUEST_MODEL: event.model,
                RUN_ID: event.run_id,
                PRESET: event.preset,
                CATALOG_TOOLS: event.catalog_size,
            },
        )
        if span.is_recording():
            self._runs.put(event.run_id, _RunSpan(span))

    def _selected(self, event: ToolsSelected) -> None:
        run = self._runs.get(event.run_id)
        if run is not None:
            run.span.set_attribute(SELECTED_TOOLS, len(event.selection.tools))

    def _request(self, event: ModelAsked) -> None:
        run = self._runs.get(event.run_id)
        if run is not None:
            run.request, run.requested_at = event, time.time_ns()

    def _answered(self, event: ModelAnswered) -> None:
        """Records the span of a model call."""
        run = self._runs.get(event.run_id)
        if run is None:
            return
        span = self._model_span(run)
        span.set_attributes(
            {
                GEN_AI_RESPONSE_MODEL: event.model,
                GEN_AI_FINISH_REASONS: [event.finish_reason],
                GEN_AI_INPUT_TOKENS: event.usage.input_tokens,
                GEN_AI_OUTPUT_TOKENS: event.usage.output_tokens,
                GEN_AI_CACHED_TOKENS: event.usage.cached_tokens,
                GEN_AI_WRITTEN_TOKENS: event.usage.written_tokens,
            }
        )
        if event.provider:
            span.set_attribute(GEN_AI_PROVIDER, event.provider)
        _add_attempts(span, event.attempts)
        span.end()
        run.request = None

    def _meta(self, event: MetaCalled) -> None:
        run = self._runs.get(event.run_id)
        if run is not None:
            run.span.add_event("meta_tool", {GEN_AI_TOOL_NAME: event.call.name, ADDED_TOOLS: len(event.added)})

    def _called(self, event: CallFinished) -> None:
        """Records the span of a tool call."""
        run = self._runs.get(event.run_id)
        if run is None:
            return
        now = time.time_ns()
        span = self._tracer.start_span(
            f"execute_tool {event.call.name}",
            run.context,
            SpanKind.INTERNAL,
            start_time=now - int(event.seconds * 1e9),
            attributes={
                GEN_AI_OPERATION: "execute_tool",
                GEN_AI_TOOL_NAME: event.call.name,
                GEN_AI_TOOL_CALL_ID: event.call.id,
                GEN_AI_TOOL_TYPE: "function",
                SOURCE: event.source,
                CALL_NUMBER: event.number,
            },
        )
        if event.result.cached:
            span.set_attribute(CACHED_RESULT, True)
        if event.result.is_error:
            _mark_failed(span, event.result.error or "failed")
        span.end(now)

    def _limit(self, event: LimitReached) -> None:
        run = self._runs.get(event.run_id)
        if run is not None:
            run.span.add_event("limit_reached", {"limit": event.limit})

    def _claims(self, event: ClaimsUnsupported) -> None:
        run = self._runs.get(event.run_id)
        if run is not None:
            run.span.add_event("claims_unsupported", {"actions": [claim.action for claim in event.claims]})

    def _finished(self, event: RunFinished) -> None:
        run = self._runs.get(event.run_id)
        if run is None:
            return
        usage = event.result.usage
        run.span.set_attributes(
            {
                GEN_AI_PROVIDER: event.result.provider,
                GEN_AI_INPUT_TOKENS: usage.input_tokens,
                GEN_AI_OUTPUT_TOKENS: usage.output_tokens,
                GEN_AI_CACHED_TOKENS: usage.cached_tokens,
                GEN_AI_WRITTEN_TOKENS: usage.written_tokens,
            }
        )
        self._ended(event.run_id, event.result.status)

    def _failed(self, event: RunFailed) -> None:
        run = self._runs.get(event.run_id)
        if run is None:
            return
        if run.request is not None:  # the model has not answered the last request
            span = self._model_span(run)
            _add_attempts(span, event.attempts)
            _mark_failed(span, event.kind)
            span.end()
        _mark_failed(run.span, event.kind)
        self._ended(event.run_id, "failed")

    def _ended(self, run_id: str, status: str) -> None:
        """Ends the span of a run."""
        run = self._runs.pop(run_id)
        if run is not None:
            run.span.set_attribute(STATUS, status)
            run.span.end()

    def _model_span(self, run: _RunSpan) -> Span:
        """Returns the span of the run's last model call; the caller ends it."""
        request = run.request
        model, provider, number, tools = ("", "", 0, 0)
        if request is not None:
            model, provider, number, tools = request.model, request.provider, request.round, request.tools
        return self._tracer.start_span(
            f"chat {model}".rstrip(),
            run.context,
            SpanKind.CLIENT,
            start_time=run.requested_at or None,
            attributes={
                GEN_AI_OPERATION: "chat",
                GEN_AI_PROVIDER: provider,
                GEN_AI_REQUEST_MODEL: model,
                ROUND: number,
                SENT_TOOLS: tools,
            },
        )


@dataclass(slots=True)
class _RunSpan:
    """The span of a run that has not ended."""

    span: Span
    request: ModelAsked | None = None
    """The model call in progress."""
    requested_at: int = 0
    """Moment of the last model call, in nanoseconds since the epoch; 0: there was none."""
    context: Any = field(init=False)
    """The context in which spans of calls become children of the run's span."""

    def __post_init__(self) -> None:
        self.context = trace.set_span_in_context(self.span)


def _add_attempts(span: Span, attempts: Sequence[Attempt]) -> None:
    for attempt in attempts:
        attributes = {GEN_AI_PROVIDER: attempt.provider, ATTEMPT_HOW: attempt.how, ATTEMPT_OUTCOME: attempt.outcome}
        span.add_event("attempt", attributes)


def _mark_failed(span: Span, kind: str) -> None:
    span.set_attribute(ERROR_TYPE, kind)
    span.set_status(Status(StatusCode.ERROR, kind))
