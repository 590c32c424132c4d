"""The event sink that records runs as OpenTelemetry spans. A span is a named period of time with attributes."""

from __future__ import annotations

import time

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Tracer, TracerProvider

import toolcaddie.telemetry.genai as names
from toolcaddie.core.events import (
    CallFinished,
    CallIntended,
    ClaimsUnsupported,
    LimitReached,
    MetaCalled,
    ModelAnswered,
    ModelAsked,
    RunFailed,
    RunFinished,
    RunPaused,
    RunStarted,
    ToolsSelected,
)
from toolcaddie.core.tool import ToolCall
from toolcaddie.parts import Parts
from toolcaddie.telemetry.limits import MOST_RUNS
from toolcaddie.telemetry.receiving import ReceivingSink
from toolcaddie.telemetry.run_span import RunSpan, add_attempts, mark_failed, send_along, token_attributes
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.tracing import set_trace_headers, trace_headers


class OpenTelemetrySink(ReceivingSink):
    """Records a span for each run, and in it a span for each model call and tool call. No span has texts of people or models.

    `tracer_provider`: None means OpenTelemetry's global one. Without an OpenTelemetry SDK, and for runs that are not sampled, an
    event costs a dictionary lookup. While a model is asked or a tool acts, the requests of the run carry the id of that span
    (`util.tracing`). The span of a call that only reads is made after it, because a sink hears of it at its end.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer: Tracer = trace.get_tracer("toolcaddie", tracer_provider=tracer_provider)
        self._is_global = tracer_provider is None
        self._runs = Bounded[str, RunSpan](MOST_RUNS, on_eviction=RunSpan.end)
        super().__init__(
            {
                RunStarted: self._started,
                ToolsSelected: self._selected,
                ModelAsked: self._request,
                ModelAnswered: self._answered,
                MetaCalled: self._meta,
                CallIntended: self._intended,
                CallFinished: self._called,
                LimitReached: self._limit,
                ClaimsUnsupported: self._claims,
                RunPaused: lambda event: self._ended(event.run_id, "pending"),
                RunFinished: self._finished,
                RunFailed: self._failed,
            }
        )

    def _started(self, event: RunStarted) -> None:
        if self._is_global and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return  # no SDK is set up
        bot = event.principal.bot
        common = {names.GEN_AI_CONVERSATION: event.conversation} if event.conversation else {}
        named = {names.GEN_AI_AGENT_NAME: bot} if bot else {}
        span = self._tracer.start_span(
            f"{names.INVOKE_AGENT} {bot}" if bot else names.INVOKE_AGENT,
            attributes={
                names.GEN_AI_OPERATION: names.INVOKE_AGENT,
                names.GEN_AI_REQUEST_MODEL: event.model,
                names.RUN_ID: event.run_id,
                names.PRESET: event.preset,
                names.CATALOG_TOOLS: event.catalog_size,
                **common,
                **named,
            },
        )
        if span.is_recording():
            self._runs.put(event.run_id, RunSpan(span, {**common, **named}, trace_headers()))
        send_along(span)

    def _selected(self, event: ToolsSelected) -> None:
        run = self._runs.get(event.run_id)
        if run is not None:
            run.span.set_attribute(names.SELECTED_TOOLS, len(event.selection.tools))

    def _request(self, event: ModelAsked) -> None:
        """Begins the span of a model call."""
        run = self._runs.get(event.run_id)
        if run is None:
            return
        provider = names.provider_name(event.provider)
        if not run.provider:
            run.provider = provider
            run.span.set_attribute(names.GEN_AI_PROVIDER, provider)
        run.chat = self._tracer.start_span(
            f"{names.CHAT} {event.model}".rstrip(),
            run.context,
            SpanKind.CLIENT,
            attributes={
                names.GEN_AI_OPERATION: names.CHAT,
                names.GEN_AI_PROVIDER: provider,
                names.GEN_AI_REQUEST_MODEL: event.model,
                names.ROUND: event.round,
                names.SENT_TOOLS: event.tools,
                **run.common,
            },
        )
        send_along(run.chat)

    def _answered(self, event: ModelAnswered) -> None:
        """Ends the span of a model call."""
        run = self._runs.get(event.run_id)
        if run is None or run.chat is None:
            return
        span, run.chat = run.chat, None
        span.set_attributes(
            {
                names.GEN_AI_RESPONSE_MODEL: event.model,
                names.GEN_AI_FINISH_REASONS: [event.finish_reason],
                **token_attributes(event.usage),
            }
        )
        if event.provider:
            span.set_attribute(names.GEN_AI_PROVIDER, names.provider_name(event.provider))
        add_attempts(span, event.attempts)
        span.end()
        send_along(run.span)

    def _meta(self, event: MetaCalled) -> None:
        run = self._runs.get(event.run_id)
        if run is not None:
            run.span.add_event(
                "meta_tool", {names.GEN_AI_TOOL_NAME: event.call.name, names.ADDED_TOOLS: len(event.added)}
            )

    def _intended(self, event: CallIntended) -> None:
        """Begins the span of a call that acts."""
        run = self._runs.get(event.run_id)
        if run is not None:
            began = time.time_ns()
            span = self._call_span(run, event.call, began)
            run.acting[event.call.id] = (span, began)
            send_along(span)

    def _called(self, event: CallFinished) -> None:
        """Ends the span of a tool call. It lasts as long as the tool ran."""
        run = self._runs.get(event.run_id)
        if run is None:
            return
        duration = int(event.seconds * 1e9)
        acting = run.acting.pop(event.call.id, None)
        if acting is None:
            began = time.time_ns() - duration
            span = self._call_span(run, event.call, began)
        else:
            span, began = acting
        span.set_attributes({names.SOURCE: event.source, names.CALL_NUMBER: event.number})
        if event.result.cached:
            span.set_attribute(names.CACHED_RESULT, True)
        if event.result.is_error:
            mark_failed(span, event.result.error or "failed")
        span.end(began + duration)
        send_along(run.span)

    def _call_span(self, run: RunSpan, call: ToolCall, began: int) -> Span:
        """Returns the span of a tool call; the caller ends it. `began`: nanoseconds since the epoch."""
        return self._tracer.start_span(
            f"{names.EXECUTE_TOOL} {call.name}",
            run.context,
            SpanKind.INTERNAL,
            start_time=began,
            attributes={
                names.GEN_AI_OPERATION: names.EXECUTE_TOOL,
                names.GEN_AI_TOOL_NAME: call.name,
                names.GEN_AI_TOOL_CALL_ID: call.id,
                names.GEN_AI_TOOL_TYPE: "function",
                **run.common,
            },
        )

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
        run.span.set_attributes(token_attributes(event.result.usage))
        run.span.set_attribute(names.GEN_AI_PROVIDER, names.provider_name(event.result.provider))
        self._ended(event.run_id, event.result.status)

    def _failed(self, event: RunFailed) -> None:
        run = self._runs.get(event.run_id)
        if run is None:
            return
        if run.chat is not None:  # the model has not answered the last request
            add_attempts(run.chat, event.attempts)
            mark_failed(run.chat, event.kind)
        mark_failed(run.span, event.kind)
        self._ended(event.run_id, "failed")

    def _ended(self, run_id: str, status: str) -> None:
        """Ends the span of a run."""
        run = self._runs.pop(run_id)
        if run is not None:
            run.span.set_attribute(names.STATUS, status)
            run.end()
            set_trace_headers(run.headers_before)


def traces(*, parts: Parts) -> OpenTelemetrySink:
    """Returns the sink that settings call `traces`. Its spans go to the tracer provider of the host, the program that runs
    Toolcaddie, or to OpenTelemetry's global one."""
    return OpenTelemetrySink(parts.tracer_provider)
