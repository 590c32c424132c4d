"""The event sink that records the metrics of OpenTelemetry's conventions for generative AI: durations of runs, model calls and
tool calls, and numbers of tokens. `metrics` counts for Prometheus, which asks; these are sent to a collector."""

from __future__ import annotations

import time
from dataclasses import dataclass

from opentelemetry import metrics
from opentelemetry.metrics import Histogram, MeterProvider

import toolcaddie.telemetry.genai as names
from toolcaddie.core.events import (
    CallFinished,
    ModelAnswered,
    ModelAsked,
    RunFailed,
    RunFinished,
    RunPaused,
    RunStarted,
)
from toolcaddie.core.run import RunState
from toolcaddie.parts import Parts
from toolcaddie.telemetry.limits import MOST_RUNS, Labels
from toolcaddie.telemetry.receiving import ReceivingSink
from toolcaddie.util.bounded import Bounded

Attributes = dict[str, str]


class GenAIMetricsSink(ReceivingSink):
    """Records into `meter_provider`; None means OpenTelemetry's global one. A few words of each run are held until it ends."""

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        meter = metrics.get_meter("toolcaddie", meter_provider=meter_provider)
        self._runs = Bounded[str, _RunWords](MOST_RUNS)
        self._tools, self._models, self._bots = Labels(), Labels(), Labels()
        super().__init__(
            {
                RunStarted: self._started,
                ModelAsked: self._request,
                ModelAnswered: self._answered,
                CallFinished: self._called,
                RunPaused: lambda event: self._ended(event.run_id, event.state),
                RunFinished: lambda event: self._ended(event.run_id, event.result.state),
                RunFailed: self._failed,
            }
        )

        def histogram(name: str, unit: str, description: str, buckets: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(
                name, unit=unit, description=description, explicit_bucket_boundaries_advisory=buckets
            )

        self._operations = histogram(
            "gen_ai.client.operation.duration", "s", "GenAI operation duration.", names.OPERATION_BUCKETS
        )
        self._tokens = histogram(
            "gen_ai.client.token.usage", "{token}", "Number of input and output tokens used.", names.TOKEN_BUCKETS
        )
        self._tool_calls = histogram(
            "gen_ai.execute_tool.duration", "s", "The duration of a single tool execution.", names.OPERATION_BUCKETS
        )
        self._agents = histogram(
            "gen_ai.invoke_agent.duration", "s", "The duration of a single agent invocation.", names.AGENT_BUCKETS
        )

    def _started(self, event: RunStarted) -> None:
        bot = event.principal.bot
        agent = {names.GEN_AI_AGENT_NAME: self._bots.of(bot)} if bot else {}
        self._runs.put(event.run_id, _RunWords(agent=agent, model=self._models.of(event.model)))

    def _request(self, event: ModelAsked) -> None:
        run = self._runs.get(event.run_id)
        if run is not None:
            run.asked, run.asked_at = self._chat_attributes(event.provider, event.model), time.monotonic()

    def _answered(self, event: ModelAnswered) -> None:
        run = self._runs.get(event.run_id)
        asked = self._chat_attributes("", "") if run is None or run.asked is None else run.asked
        provider = {names.GEN_AI_PROVIDER: names.provider_name(event.provider)} if event.provider else {}
        attributes = {**asked, **provider, names.GEN_AI_RESPONSE_MODEL: self._models.of(event.model)}
        self._operations.record(event.seconds, attributes)
        for kind, count in (("input", event.usage.input_tokens), ("output", event.usage.output_tokens)):
            if count:
                self._tokens.record(count, {**attributes, names.GEN_AI_TOKEN_TYPE: kind})
        if run is not None:
            run.asked = None

    def _called(self, event: CallFinished) -> None:
        run = self._runs.get(event.run_id)
        attributes = {names.GEN_AI_TOOL_NAME: self._tools.of(event.call.name), names.GEN_AI_TOOL_TYPE: "function"}
        attributes |= {} if run is None else run.agent
        if event.result.is_error:
            attributes[names.ERROR_TYPE] = event.result.error or "failed"
        self._tool_calls.record(event.seconds, attributes)

    def _failed(self, event: RunFailed) -> None:
        run, error = self._runs.get(event.run_id), {names.ERROR_TYPE: event.kind}
        if run is not None and run.asked is not None:  # the model has not answered the last request
            self._operations.record(time.monotonic() - run.asked_at, run.asked | error)
        self._ended(event.run_id, event.state, error)

    def _ended(self, run_id: str, state: RunState | None, error: Attributes | None = None) -> None:
        """Records a run that has ended or paused. `state` None: it failed before there was a state."""
        run = self._runs.pop(run_id)
        if run is not None and state is not None:
            self._agents.record(state.seconds, {names.GEN_AI_REQUEST_MODEL: run.model, **run.agent, **(error or {})})

    def _chat_attributes(self, provider: str, model: str) -> Attributes:
        return {
            names.GEN_AI_OPERATION: names.CHAT,
            names.GEN_AI_PROVIDER: names.provider_name(provider),
            names.GEN_AI_REQUEST_MODEL: self._models.of(model),
        }


@dataclass(slots=True, kw_only=True)
class _RunWords:
    """The attributes of one run."""

    agent: Attributes
    """The name of the bot; empty: there is none."""
    model: str
    asked: Attributes | None = None
    """Attributes of the model call in progress."""
    asked_at: float = 0.0
    """Its beginning, on the clock `time.monotonic`."""


def genai_metrics(*, parts: Parts) -> GenAIMetricsSink:
    """Returns the sink that settings call `genai_metrics`. It records into the meter provider of the host, the program that runs
    Toolcaddie, or into OpenTelemetry's global one."""
    return GenAIMetricsSink(parts.meter_provider)
