"""The event sink that counts runs as Prometheus metrics. Names and labels of metrics must not change, because dashboards read
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from toolcaddie.core.events import (
    ApprovalClosed,
    CallDecided,
    CallFinished,
    ClaimsUnsupported,
    LimitReached,
    MetaCalled,
    ModelAnswered,
    ModelAsked,
    RequestClassified,
    RunFailed,
    RunFinished,
    RunPaused,
    RunStarted,
    ToolsDelivered,
    ToolsSelected,
)
from toolcaddie.core.message import Attempt
from toolcaddie.core.meta_names import REQUEST_MORE_TOOLS
from toolcaddie.core.run import RunState
from toolcaddie.core.usage import Usage
from toolcaddie.parts import Parts
from toolcaddie.telemetry.limits import MOST_CONVERSATIONS, MOST_RUNS, Labels
from toolcaddie.telemetry.receiving import ReceivingSink
from toolcaddie.util.bounded import Bounded

# Upper bounds of the buckets of histograms.
_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_SHORT_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25)
_COUNTS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 75)
_TOOLS = (0, 5, 8, 16, 24, 32, 48, 64, 96, 128, 256)

_EXPANSIONS = (0, 1, 2, 3, 5)

_RESUMED = "resumed"
"""Label `preset` of a run whose start this sink has not seen, because the run started in another process or before a pause."""


class PrometheusSink(ReceivingSink):
    """Counts runs in `registry`. A few numbers of each run are held in memory until it ends."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._runs = Bounded[str, _RunNumbers](MOST_RUNS)
        self._expansions = Bounded[str, int](MOST_CONVERSATIONS)
        """Conversation -> its expansions so far."""
        self._tools, self._models, self._providers = Labels(), Labels(), Labels()
        super().__init__(
            {
                RunStarted: self._started,
                RequestClassified: self._classified,
                ToolsSelected: self._selected,
                ToolsDelivered: self._delivered,
                ModelAnswered: self._answered,
                ModelAsked: self._request,
                MetaCalled: self._meta,
                CallDecided: self._decided,
                ApprovalClosed: self._approval,
                CallFinished: self._called,
                LimitReached: self._limit,
                ClaimsUnsupported: self._claims,
                RunPaused: lambda event: self._ended(event.run_id, "pending", event.state),
                RunFinished: lambda event: self._ended(event.run_id, event.result.status, event.result.state),
                RunFailed: self._failed,
            }
        )

        def counter(name: str, help_text: str, *labels: str) -> Counter:
            return Counter(f"toolcaddie_{name}", help_text, labels, registry=registry)

        def histogram(name: str, help_text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"toolcaddie_{name}", help_text, labels, registry=registry, buckets=buckets)

        self.runs = counter("runs", "Runs that ended or paused.", "status", "preset")
        self.run_seconds = histogram("run_seconds", "Duration of a run.", _SECONDS, "preset")
        self.rounds = histogram("run_rounds", "Model calls with tools in a run.", _COUNTS)
        self.calls = histogram("run_calls", "Tools executed in a run.", _COUNTS)
        self.model_calls = counter("model_calls", "Answers of models.", "provider", "model")
        self.model_attempts = counter(
            "model_attempts",
            "Requests to models, for answers that took several requests and for failures.",
            "provider",
            "how",
            "outcome",
        )
        self.model_seconds = histogram("model_seconds", "Duration of a model call.", _SECONDS, "model")
        self.tool_calls = counter("tool_calls", "Calls of tools.", "tool", "outcome")
        self.tool_seconds = histogram("tool_seconds", "Duration of a tool call.", _SECONDS)
        self.cached_results = counter(
            "tool_results_cached", "Calls answered with the cached result of an equal call.", "tool"
        )
        self.tool_retries = counter(
            "tool_retries", "Failed executions of a tool that were repeated within the same call.", "tool"
        )
        self.fallback_answers = counter(
            "fallback_answers", "Answers of a fallback in place of the requested provider.", "provider"
        )
        self.decisions = counter("decisions", "Decisions of the policy about calls.", "verdict")
        self.approvals = counter("approvals", "Questions about calls that were answered or have expired.", "status")
        for status in ("approved", "refused", "expired"):
            self.approvals.labels(status)  # shown from now on with 0, so that an alert sees the first one
        self.meta_calls = counter("meta_calls", "Calls of meta tools.", "tool")
        self.tools_added = counter("tools_added", "Tools added by meta tools.")
        self.expansions = histogram(
            "run_expansions",
            "Uses of request_more_tools in a run; more than one suggests a wrong selection.",
            _EXPANSIONS,
        )
        self.conversations = counter(
            "conversations",
            "Conversations in which the model has added tools at least this many times.",
            "expansions_at_least",
        )
        self.classifications = counter("classifications", "Outcomes of the classifier, which names categories.", "how")
        self.selection_seconds = histogram("selection_seconds", "Time to select tools.", _SHORT_SECONDS)
        self.no_match = counter("selections_without_match", "Selections in which no tool fitted the request.")
        self.tools_sent = histogram("tools_sent", "Tool definitions in a request to a model.", _TOOLS)
        self.tokens_saved = counter("tool_tokens_saved", "Estimated tokens of tool definitions that were not sent.")
        self.tokens = counter(
            "tokens",
            "Tokens as providers count them. Input includes cached and written, output includes reasoning.",
            "kind",
        )
        self.unsupported_claims = counter(
            "unsupported_claims", "Sentences of answers which say that something was done that no call did.", "action"
        )
        self.limits = counter("limits_reached", "Runs that reached a limit.", "limit")

        # Finding the numbers of a metric by their labels takes longer than to count.
        self._runs_of, self._run_seconds_of = cache(self.runs.labels), cache(self.run_seconds.labels)
        self._model_calls_of, self._model_seconds_of = cache(self.model_calls.labels), cache(self.model_seconds.labels)
        self._tokens_of = cache(self.tokens.labels)

    def _started(self, event: RunStarted) -> None:
        self._runs.put(event.run_id, _RunNumbers(preset=event.preset, conversation=event.conversation))
        if event.conversation and event.conversation not in self._expansions:
            self._expansions.put(event.conversation, 0)
            self.conversations.labels("0").inc()

    def _classified(self, event: RequestClassified) -> None:
        classification = event.classification
        self.classifications.labels(classification.how).inc()
        if classification.model and classification.how != "kept":
            self._model_seconds_of(self._models.of(classification.model)).observe(classification.seconds)
        self._count_tokens(classification.usage)

    def _selected(self, event: ToolsSelected) -> None:
        self.selection_seconds.observe(event.selection.seconds)
        if event.selection.no_match:
            self.no_match.inc()

    def _delivered(self, event: ToolsDelivered) -> None:
        """Remembers the tokens that the following requests of the run save."""
        numbers = self._runs.get(event.run_id)
        if numbers is not None:
            numbers.saved = max(0, event.delivery.tokens_all - event.delivery.tokens)

    def _request(self, event: ModelAsked) -> None:
        self.tools_sent.observe(event.tools)
        numbers = self._runs.get(event.run_id)
        if numbers is not None:
            numbers.provider = event.provider
            if numbers.saved and event.tools:
                self.tokens_saved.inc(numbers.saved)

    def _answered(self, event: ModelAnswered) -> None:
        """Counts an answer of a model. `event.provider` is empty if the provider that was asked has answered."""
        numbers = self._runs.get(event.run_id)
        model = self._models.of(event.model)
        provider = self._providers.of(event.provider or (numbers.provider if numbers else ""))
        self._count_attempts(event.attempts)
        if numbers is not None and event.provider not in ("", numbers.provider):
            self.fallback_answers.labels(provider).inc()
        self._model_calls_of(provider, model).inc()
        self._model_seconds_of(model).observe(event.seconds)
        self._count_tokens(event.usage)

    def _count_attempts(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self.model_attempts.labels(self._providers.of(attempt.provider), attempt.how, attempt.outcome).inc()

    def _failed(self, event: RunFailed) -> None:
        self._count_attempts(event.attempts)
        self._ended(event.run_id, "failed", event.state)

    def _count_tokens(self, usage: Usage) -> None:
        for kind, count in (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cached", usage.cached_tokens),
            ("written", usage.written_tokens),
            ("reasoning", usage.reasoning_tokens),
        ):
            tokens = self._tokens_of(kind)  # shown from now on, also with 0
            if count:
                tokens.inc(count)

    def _meta(self, event: MetaCalled) -> None:
        self.meta_calls.labels(event.call.name).inc()
        self.tools_added.inc(len(event.added))
        numbers = self._runs.get(event.run_id)
        if numbers is None:
            return
        numbers.expansions += event.call.name == REQUEST_MORE_TOOLS
        if event.added and numbers.conversation:
            count = (self._expansions.get(numbers.conversation) or 0) + 1
            self._expansions.put(numbers.conversation, count)
            if count in _EXPANSIONS:
                self.conversations.labels(str(count)).inc()

    def _decided(self, event: CallDecided) -> None:
        self.decisions.labels(event.decision.verdict).inc()

    def _approval(self, event: ApprovalClosed) -> None:
        self.approvals.labels(event.approval.status).inc()

    def _called(self, event: CallFinished) -> None:
        tool = self._tools.of(event.call.name)
        self.tool_calls.labels(tool, event.result.error or "ok").inc()
        if event.result.cached:
            self.cached_results.labels(tool).inc()
        elif event.result.tries > 1:
            self.tool_retries.labels(tool).inc(event.result.tries - 1)
        self.tool_seconds.observe(event.seconds)

    def _limit(self, event: LimitReached) -> None:
        self.limits.labels(event.limit).inc()

    def _claims(self, event: ClaimsUnsupported) -> None:
        for claim in event.claims:
            self.unsupported_claims.labels(claim.action).inc()

    def _ended(self, run_id: str, status: str, state: RunState | None) -> None:
        """Counts a run that has ended or paused. `state` None: it failed before there was a state."""
        numbers = self._runs.pop(run_id) or _RunNumbers(preset=_RESUMED)
        self._runs_of(status, numbers.preset).inc()
        self.expansions.observe(numbers.expansions)
        if state is not None:
            self._run_seconds_of(numbers.preset).observe(state.seconds)
            self.rounds.observe(state.rounds)
            self.calls.observe(state.calls)


@dataclass(slots=True, kw_only=True)
class _RunNumbers:
    """Numbers of one run."""

    preset: str
    conversation: str = ""
    provider: str = ""
    """The provider that was asked last."""
    expansions: int = 0
    """Number of calls of `request_more_tools`."""
    saved: int = 0
    """Estimated tokens of the tool definitions that were omitted from each request with tools."""


def metrics(*, parts: Parts) -> PrometheusSink:
    """Returns the sink that settings call `metrics`. It counts in the registry of the host (the program that runs Toolcaddie), or
    in the default registry of the process if the host has none."""
    return PrometheusSink(parts.metrics or REGISTRY)
