from __future__ import annotations

import gc
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import CapturingLogger

from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.delivery import Delivery
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.events import (
    CallDecided,
    CallFinished,
    CallIntended,
    LimitReached,
    MetaCalled,
    ModelAnswered,
    ModelAsked,
    RunEvent,
    RunFailed,
    RunFinished,
    RunPaused,
    RunStarted,
    TextDelta,
    ToolsDelivered,
    ToolsSelected,
)
from toolcaddie.core.message import Attempt
from toolcaddie.core.run import RunResult, RunState
from toolcaddie.core.selection import SelectedTool, Selection
from toolcaddie.core.tool import Tool, ToolCall, ToolResult, failed
from toolcaddie.core.usage import Usage
from toolcaddie.ports import EventSink
from toolcaddie.telemetry import OpenTelemetrySink, PrometheusSink, StructlogSink, configure_logging
from toolcaddie.telemetry.limits import LABEL_LIMIT
from toolcaddie.util.replacing import replace

PROMPT = "freeze John's membership"
CALL = ToolCall(id="call_1", name="freeze_membership", arguments='{"member":"John"}')
META = ToolCall(
    id="call_2", name="request_more_tools", arguments='{"categories":["billing"],"reason":"a refund is needed"}'
)


def events(run_id: str = "r", *, tool: str = "freeze_membership", expansions: int = 1) -> Sequence[RunEvent]:
    """A run as the engine tells it: two rounds, expansions, one tool call."""
    selection = Selection(
        tools=(SelectedTool(tool=Tool(name="freeze_membership")),) * 32,
        catalog_size=137,
        categories=("memberships", "attendance"),
        seconds=0.0004,
    )
    delivery = Delivery(
        strategy="direct", definitions=({},) * 33, meta=(), tools=(), prefix_digest="d", tokens=1_000, tokens_all=9_000
    )
    state = RunState(
        run_id=run_id,
        rounds=2,
        calls=1,
        seconds=1.25,
        usage=Usage(input_tokens=300, output_tokens=20, cached_tokens=200),
    )
    return (
        RunStarted(
            run_id=run_id,
            principal=Principal(id="ann"),
            preset="keyword",
            model="gpt",
            message=PROMPT,
            catalog_version="v",
            catalog_size=137,
        ),
        ToolsSelected(run_id=run_id, selection=selection),
        ToolsDelivered(run_id=run_id, round=1, delivery=delivery),
        ModelAsked(run_id=run_id, round=1, provider="openai", model="gpt", tools=33),
        TextDelta(run_id=run_id, text="I"),
        answered(run_id, round=1, text=PROMPT, calls=(META,)),
        *(
            MetaCalled(run_id=run_id, call=META, result=ToolResult(content="ok"), added=("refund", "invoice"))
            for _ in range(expansions)
        ),
        ModelAsked(run_id=run_id, round=2, provider="openai", model="gpt", tools=35),
        answered(run_id, round=2, text="", calls=(CALL,)),
        CallDecided(run_id=run_id, call=CALL, decision=Decision(verdict="allow")),
        CallIntended(run_id=run_id, call=CALL),
        called(run_id, tool),
        RunFinished(
            run_id=run_id,
            result=RunResult(run_id=run_id, status="completed", text=PROMPT, state=state, provider="openai"),
        ),
    )


def answered(run_id: str, *, round: int, text: str, calls: tuple[ToolCall, ...]) -> ModelAnswered:  # noqa: A002
    return ModelAnswered(
        run_id=run_id,
        round=round,
        text=text,
        calls=calls,
        finish_reason="tool_calls",
        usage=Usage(input_tokens=150, output_tokens=10, cached_tokens=100),
        model="gpt-2026",
        seconds=0.5,
    )


def called(run_id: str, tool: str, result: ToolResult | None = None) -> CallFinished:
    return CallFinished(
        run_id=run_id,
        call=ToolCall(id="call_1", name=tool),
        result=result or ToolResult(content="frozen"),
        source="gym",
        seconds=0.02,
        number=1,
    )


async def tell(sink: EventSink, *all_events: RunEvent) -> None:
    for event in all_events:
        await sink.emit(event)


# --- log lines -------------------------------------------------------------------------------------------------------


async def lines(*all_events: RunEvent) -> list[tuple[str, dict[str, Any]]]:
    """(level, fields) of what the sink logs."""
    captured = CapturingLogger()
    await tell(StructlogSink(structlog.wrap_logger(captured, processors=[])), *all_events)
    return [(call.method_name, call.kwargs) for call in captured.calls]


@pytest.mark.anyio
@pytest.mark.proves("R000-27")
async def test_an_info_line_names_the_meta_tool_and_what_it_added() -> None:
    meta_lines = [
        fields for level, fields in await lines(*events()) if level == "info" and fields["event"] == "meta_tool"
    ]
    assert len(meta_lines) == 1
    (line,) = meta_lines
    assert line["tool"] == "request_more_tools"
    assert line["added"] == 2
    assert line["categories"] == ["billing"]
    assert line["names"] == ["refund", "invoice"]
    assert line["reason"] == "a refund is needed"


@pytest.mark.anyio
@pytest.mark.proves("R001-18")
async def test_an_info_line_gives_selected_and_total_and_the_sorted_categories() -> None:
    (line,) = [fields for level, fields in await lines(*events()) if fields["event"] == "tools_selected"]
    assert (line["selected"], line["total"], line["categories"]) == (32, 137, ["attendance", "memberships"])


@pytest.mark.anyio
@pytest.mark.proves("R004-13")
async def test_the_last_line_sums_the_run_up() -> None:
    level, line = (await lines(*events()))[-1]
    assert (level, line["event"], line["status"]) == ("info", "run_finished", "completed")
    assert (line["calls"], line["rounds"], line["elapsed"]) == (1, 2, 1.25)
    assert (line["input_tokens"], line["output_tokens"]) == (300, 20)


@pytest.mark.anyio
async def test_what_went_wrong_is_a_warning_and_a_refusal_is_not_hidden() -> None:
    state = RunState(run_id="r", calls=75, rounds=9)
    records = await lines(
        LimitReached(run_id="r", limit="calls", detail="75 calls"),
        CallDecided(run_id="r", call=CALL, decision=Decision(verdict="deny", reason="not your bot", rule="bot")),
        RunPaused(run_id="r", state=state),
        RunFailed(run_id="r", error="no answer", kind="ProviderUnavailableError", state=state),
    )
    assert [(level, fields["event"]) for level, fields in records] == [
        ("warning", "limit_reached"),
        ("info", "call_decided"),
        ("info", "run_paused"),
        ("warning", "run_failed"),
    ]
    assert records[3][1]["kind"] == "ProviderUnavailableError"
    assert records[3][1]["calls"] == 75


@pytest.mark.anyio
async def test_a_meta_call_with_nonsense_for_arguments_still_has_its_line() -> None:
    for arguments in ("{", "[1]", "\udc80", "[" * 100_000):
        call = ToolCall(id="c", name="request_more_tools", arguments=arguments)
        ((_, line),) = await lines(MetaCalled(run_id="r", call=call, result=ToolResult(content="no")))
        assert (line["tool"], line["added"], line["categories"]) == ("request_more_tools", 0, None)


ATTEMPTS = (
    Attempt(provider="openai", model="gpt", how="plain", outcome="not_called"),
    Attempt(provider="openai", model="gpt", how="required", outcome="failed"),
    Attempt(provider="anthropic", model="claude", how="named"),
)


def answered_by_another(run_id: str = "r") -> ModelAnswered:
    """An answer that took three requests, the last to another provider."""
    usage = Usage(input_tokens=100, output_tokens=30, cached_tokens=40, written_tokens=50, reasoning_tokens=20)
    first = answered(run_id, round=1, text="", calls=())
    return replace(first, model="claude", provider="anthropic", attempts=ATTEMPTS, usage=usage)


@pytest.mark.anyio
async def test_a_line_says_that_another_answered_after_how_many_attempts_and_that_a_result_was_kept() -> None:
    cached_call = called("r", "get_member", ToolResult(content="John", cached=True))
    (_, answer), (_, result) = await lines(answered_by_another(), cached_call)
    assert (answer["provider"], answer["cached_tokens"]) == ("anthropic", 40)
    assert answer["attempts"] == ["plain not_called", "required failed", "named answered"]
    assert result["cached"] is True


@pytest.fixture
def logging_kept() -> Iterator[None]:
    """Logging is the process's; what a test sets up is taken back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.anyio
@pytest.mark.usefixtures("logging_kept")
async def test_with_json_every_line_is_an_object_ours_and_those_of_libraries(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(json=True, level="info")
    await tell(StructlogSink(), *events())
    logging.getLogger("some.library").warning("slow %s", "disk")
    output = capsys.readouterr()
    assert output.out == ""
    records = [json.loads(line) for line in output.err.splitlines()]
    assert [line["event"] for line in records] == [
        "tools_selected",
        "meta_tool",
        "tool_called",
        "run_finished",
        "slow disk",
    ]
    assert records[-1]["logger"] == "some.library"
    assert {line["level"] for line in records} == {"info", "warning"}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.usefixtures("logging_kept")
def test_a_line_made_in_one_step_is_the_line_that_the_processors_make(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines() -> list[str]:
        with structlog.contextvars.bound_contextvars(worker=3):
            log = structlog.get_logger("toolcaddie.run")
            log.info("run_finished", run="r", text='a "b"', names=["x"], seconds=1.5)
            log.bind(tool="open_door").warning("call %s", "unknown")
            log.error("broken", key="sk-abcdefghijklmnopqrstuvwx", exc_info=False)
            log.debug("run_started", run="r")
        return [re.sub(r"[\d-]+T[\d:.]+Z", "now", line) for line in capsys.readouterr().err.splitlines()]

    configure_logging(json=as_json, redact=lambda line: line.replace("sk-", "[redacted]"))
    in_one_step = lines()
    structlog.configure(wrapper_class=structlog.stdlib.BoundLogger)
    assert in_one_step == lines()
    assert len(in_one_step) == 3


@pytest.mark.usefixtures("logging_kept")
def test_a_logger_with_a_bound_wish_for_the_stack_writes_the_stack(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(json=True)
    structlog.get_logger("toolcaddie.x").bind(stack_info=True).info("asked_where")
    line = json.loads(capsys.readouterr().err)
    assert "stack_info" not in line
    assert "Stack (most recent call last)" in line["stack"]


@pytest.mark.anyio
@pytest.mark.usefixtures("logging_kept")
async def test_for_people_lines_go_to_stderr_and_the_level_counts(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(level="warning")
    await tell(StructlogSink(), *events(), LimitReached(run_id="r", limit="rounds", detail="5"))
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert "limit_reached" in output.err


@pytest.mark.anyio
@pytest.mark.usefixtures("logging_kept")
async def test_an_exception_in_a_json_line_carries_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(json=True)
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger("x").exception("sink_failed")
    assert "ValueError: broken" in json.loads(capsys.readouterr().err)["exception"]


@pytest.mark.anyio
@pytest.mark.usefixtures("logging_kept")
async def test_a_line_also_reaches_the_other_handlers_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    records: list[logging.LogRecord] = []
    other = logging.Handler()
    other.emit = records.append  # type: ignore[method-assign]
    logging.getLogger("toolcaddie.run").addHandler(other)
    try:
        await tell(StructlogSink(), LimitReached(run_id="r", limit="rounds", detail="5"))
    finally:
        logging.getLogger("toolcaddie.run").removeHandler(other)
    assert [record.levelname for record in records] == ["WARNING"]
    assert capsys.readouterr().err.count("limit_reached") == 1


@pytest.mark.anyio
async def test_an_unknown_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'loud' is not one of debug, info"):
        configure_logging(level="loud")


# --- metrics ---------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_metrics_count_what_happened() -> None:
    registry = CollectorRegistry()
    sink = PrometheusSink(registry)
    await tell(sink, *events("a"), *events("b", expansions=2))
    await tell(sink, called("a", "freeze_membership", failed("slow", "timeout")))
    await tell(sink, *events("c")[:4], RunFailed(run_id="c", error="x", kind="RunError"))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"toolcaddie_{name}", labels)

    assert value("runs_total", status="completed", preset="keyword") == 2
    assert value("runs_total", status="failed", preset="keyword") == 1
    assert value("model_calls_total", provider="openai", model="gpt-2026") == 4
    assert value("tool_calls_total", tool="freeze_membership", outcome="ok") == 2
    assert value("tool_calls_total", tool="freeze_membership", outcome="timeout") == 1
    assert value("meta_calls_total", tool="request_more_tools") == 3
    assert value("tools_added_total") == 6
    assert value("selection_seconds_count") == 3
    assert value("tools_sent_sum") == 33 + 35 + 33 + 35 + 33
    assert value("tool_tokens_saved_total") == 5 * 8_000
    assert value("tokens_total", kind="input") == 4 * 150
    assert value("tokens_total", kind="cached") == 4 * 100
    assert value("decisions_total", verdict="allow") == 2


@pytest.mark.anyio
async def test_metrics_show_how_often_a_run_asked_for_more_tools() -> None:
    """Source: R000-47; at most once is the observed use, more is a sign that the first choice was wrong."""
    registry = CollectorRegistry()
    sink = PrometheusSink(registry)
    for number, expansions in enumerate((0, 1, 1, 3)):
        await tell(sink, *events(f"run-{number}", expansions=expansions))

    def at_most(count: str) -> float | None:
        return registry.get_sample_value("toolcaddie_run_expansions_bucket", {"le": count})

    assert (at_most("0.0"), at_most("1.0"), at_most("2.0"), at_most("3.0")) == (1, 3, 3, 4)


@pytest.mark.anyio
async def test_a_run_that_was_paused_counts_and_so_does_its_end_elsewhere() -> None:
    registry = CollectorRegistry()
    sink = PrometheusSink(registry)
    await tell(sink, *events("a")[:5], RunPaused(run_id="a", state=RunState(run_id="a")))
    await tell(sink, events("a")[-1])
    assert registry.get_sample_value("toolcaddie_runs_total", {"status": "pending", "preset": "keyword"}) == 1
    assert registry.get_sample_value("toolcaddie_runs_total", {"status": "completed", "preset": "resumed"}) == 1


@pytest.mark.anyio
async def test_tool_names_beyond_the_limit_count_as_other() -> None:
    """Client tools may have any name: each name would cost memory for ever."""
    registry = CollectorRegistry()
    sink = PrometheusSink(registry)
    await tell(sink, *(called("r", f"tool_{number}") for number in range(LABEL_LIMIT + 250)))
    assert registry.get_sample_value("toolcaddie_tool_calls_total", {"tool": "other", "outcome": "ok"}) == 250
    assert generate_latest(registry).count(b"toolcaddie_tool_calls_total{") == LABEL_LIMIT + 1


# --- spans -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.anyio
async def test_attempts_kept_results_and_written_tokens_are_counted() -> None:
    registry = CollectorRegistry()
    cached_call = called("r", "get_member", ToolResult(content="John", cached=True))
    await tell(PrometheusSink(registry), *events()[:4], answered_by_another(), cached_call, called("r", "get_member"))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"toolcaddie_{name}_total", labels)

    assert value("model_attempts", provider="openai", how="plain", outcome="not_called") == 1
    assert value("model_attempts", provider="openai", how="required", outcome="failed") == 1
    assert value("model_attempts", provider="anthropic", how="named", outcome="answered") == 1
    assert value("model_calls", provider="anthropic", model="claude") == 1
    assert value("tool_results_cached", tool="get_member") == 1
    assert value("tool_calls", tool="get_member", outcome="ok") == 2
    counted = {kind: value("tokens", kind=kind) for kind in ("input", "output", "cached", "written", "reasoning")}
    assert counted == {"input": 100, "output": 30, "cached": 40, "written": 50, "reasoning": 20}


@pytest.mark.anyio
async def test_the_span_of_an_answer_names_who_gave_it_and_holds_the_attempts(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    cached_call = called("r", "get_member", ToolResult(content="John", cached=True))
    await tell(OpenTelemetrySink(provider), *events()[:4], answered_by_another(), cached_call)
    answer, tool = exporter.get_finished_spans()
    assert attributes(answer)["gen_ai.provider.name"] == "anthropic"
    assert attributes(answer)["gen_ai.usage.cache_creation.input_tokens"] == 50
    attempts = [dict(event.attributes or {}) for event in answer.events]
    assert [each["toolcaddie.attempt.outcome"] for each in attempts] == ["not_called", "failed", "answered"]
    assert [each["gen_ai.provider.name"] for each in attempts] == ["openai", "openai", "anthropic"]
    assert attributes(tool)["toolcaddie.result.cached"] is True


@pytest.mark.anyio
async def test_a_run_is_a_span_with_its_rounds_and_calls_inside(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    await tell(OpenTelemetrySink(provider), *events())
    first, second, tool, run = exporter.get_finished_spans()
    assert [span.name for span in (first, second, tool, run)] == [
        "chat gpt",
        "chat gpt",
        "execute_tool freeze_membership",
        "invoke_agent",
    ]
    assert run.parent is None
    assert run.context is not None
    for child in (first, second, tool):
        assert child.parent is not None
        assert child.parent.span_id == run.context.span_id

    assert attributes(run) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt",
        "gen_ai.usage.input_tokens": 300,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 200,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 0,
        "toolcaddie.run.id": "r",
        "toolcaddie.preset": "keyword",
        "toolcaddie.tools.catalog": 137,
        "toolcaddie.tools.selected": 32,
        "toolcaddie.status": "completed",
    }
    assert attributes(second)["gen_ai.response.model"] == "gpt-2026"
    assert attributes(second)["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert attributes(second)["toolcaddie.round"] == 2
    assert attributes(second)["toolcaddie.tools.sent"] == 35
    assert attributes(tool)["gen_ai.tool.name"] == "freeze_membership"
    assert [event.name for event in run.events] == ["meta_tool"]


@pytest.mark.anyio
async def test_spans_have_the_times_things_took(exporter: InMemorySpanExporter, provider: TracerProvider) -> None:
    await tell(OpenTelemetrySink(provider), *events())
    (tool,) = [span for span in exporter.get_finished_spans() if span.name.startswith("execute_tool")]
    assert tool.start_time is not None
    assert tool.end_time is not None
    assert tool.end_time - tool.start_time == pytest.approx(20_000_000, abs=1_000)


@pytest.mark.anyio
async def test_nothing_that_people_or_models_wrote_is_in_a_span(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    await tell(OpenTelemetrySink(provider), *events())
    for span in exporter.get_finished_spans():
        assert "John" not in span.to_json()
        assert "refund" not in span.to_json()


@pytest.mark.anyio
async def test_a_model_that_never_answered_leaves_a_failed_span(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    failure = RunFailed(run_id="r", error="refused for John", kind="ProviderUnavailableError")
    await tell(OpenTelemetrySink(provider), *events()[:4], failure)
    chat, run = exporter.get_finished_spans()
    for span in (chat, run):
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == "ProviderUnavailableError"
    assert attributes(run)["toolcaddie.status"] == "failed"


@pytest.mark.anyio
async def test_a_failed_tool_is_a_failed_span_in_a_good_run(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    sink = OpenTelemetrySink(provider)
    await tell(sink, events()[0], called("r", "x", failed("no", "denied")), events()[-1])
    tool, run = exporter.get_finished_spans()
    assert attributes(tool)["error.type"] == "denied"
    assert run.status.status_code is StatusCode.UNSET


_WITHOUT_SDK = """
import sys
sys.modules["opentelemetry.sdk"] = None
import asyncio
from toolcaddie.core.events import RunStarted
from toolcaddie.core.run import Principal
from toolcaddie.telemetry import OpenTelemetrySink

async def main():
    sink = OpenTelemetrySink()
    for number in range(100):
        await sink.emit(RunStarted(run_id=str(number), principal=Principal(), preset="p", model="m", message="",
                                   catalog_version="", catalog_size=0))
    print(len(sink._runs))

asyncio.run(main())
"""


def test_without_an_sdk_spans_cost_nothing_and_remember_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_SDK], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


# --- all three -------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_thousand_runs_leave_nothing_behind(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    quiet = structlog.wrap_logger(structlog.ReturnLogger(), processors=[lambda *_: "line"])
    sinks = (PrometheusSink(CollectorRegistry()), OpenTelemetrySink(provider), StructlogSink(quiet))

    async def runs(first: int, last: int) -> int:
        for number in range(first, last):
            for sink in sinks:
                await tell(sink, *events(f"run-{number}"))
        exporter.clear()
        gc.collect()
        return len(gc.get_objects())

    before = await runs(0, 50)
    after = await runs(50, 1_050)
    assert after - before < 100


@pytest.mark.anyio
async def test_runs_that_never_end_are_pushed_out_by_newer_ones(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    sink = OpenTelemetrySink(provider)
    for number in range(10_050):
        await sink.emit(events(f"run-{number}")[0])
    assert len(exporter.get_finished_spans()) == 50


def test_every_metric_and_line_is_documented() -> None:
    page = (Path(__file__).parents[1] / "docs" / "telemetry.md").read_text()
    registry = CollectorRegistry()
    PrometheusSink(registry)
    for metric in registry.collect():
        assert f"`{metric.name}" in page, metric.name
    for line in ("tools_selected", "meta_tool", "tool_called", "call_decided", "limit_reached", "run_paused"):
        assert f"`{line}`" in page
