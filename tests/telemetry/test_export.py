"""`toolcaddie serve` sends spans and metrics to a collector: a real server, over a socket, that is strict."""

from __future__ import annotations

import itertools
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra `telemetry` is not installed")

from tests.doors.processes import PATIENCE, Process, serving
from tests.telemetry.collector import Collector, attributes, collecting
from toolcaddie import __version__
from toolcaddie.telemetry.genai import AGENT_BUCKETS, OPERATION_BUCKETS, TOKEN_BUCKETS
from toolcaddie.testing import ScriptedUpstream, call, refuse, say

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACED = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
FREEZE = call("freeze_membership", {"client_id": 10137, "days": 3})


def settings(home: Path, otlp: str | None) -> None:
    table = "" if otlp is None else f'[telemetry]\notlp = "{otlp}"\n'
    (home / "toolcaddie.toml").write_text(f'catalogs = ["gym"]\n{table}')


def ask(server: Process, text: str = "freeze the membership of member 7", **headers: str) -> Any:
    client = server.client(timeout=PATIENCE)
    return client.chat.completions.create(
        model="gpt-test", messages=[{"role": "user", "content": text}], extra_headers=headers
    )


def stop(server: Process) -> float:
    """Stops the server; returns the seconds that this took."""
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0
    return time.monotonic() - began


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collector, ScriptedUpstream]:
    """Returns what a collector and an upstream got of a run with a call, of one that failed, and of a forwarded request."""
    home = tmp_path_factory.mktemp("export")
    script = [FREEZE, say("Frozen."), say("As it came."), refuse(400, "no")]
    with collecting() as collector, ScriptedUpstream(script) as upstream:
        settings(home, collector.url)
        with serving(home, "--upstream", upstream.base_url) as server:
            ask(server, **TRACED)
            ask(server, "hello", **{"x-toolcaddie-catalog": "none", "traceparent": f"00-{TRACE}-{PARENT[::-1]}-01"})
            with pytest.raises(Exception, match="no"):
                ask(server, "and now")
            stop(server)
        assert collector.problems == []
        return collector, upstream


def test_a_run_is_one_trace_with_the_names_and_attributes_of_the_conventions(
    told: tuple[Collector, ScriptedUpstream],
) -> None:
    collector, _ = told
    mine = {span.name: span for span in collector.spans if span.trace_id.hex() == TRACE}
    request, run = mine["POST /v1/chat/completions"], mine["invoke_agent"]
    chat, tool = mine["chat gpt-test"], mine["execute_tool freeze_membership"]
    assert run.parent_span_id
    for child in (chat, tool):
        assert child.parent_span_id == run.span_id
    assert (request.kind, run.kind, chat.kind, tool.kind) == (2, 1, 3, 1)  # server, internal, client, internal

    conversation = attributes(run)["gen_ai.conversation.id"]
    assert (
        attributes(run).items()
        >= {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-test",
            "toolcaddie.status": "completed",
        }.items()
    )
    assert (
        attributes(chat).items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-test",
            "gen_ai.conversation.id": conversation,
        }.items()
    )
    assert attributes(chat)["gen_ai.usage.input_tokens"] > 0
    assert attributes(chat)["gen_ai.response.finish_reasons"] == ["stop"]
    assert (
        attributes(tool).items()
        >= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "freeze_membership",
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": conversation,
        }.items()
    )
    assert (
        attributes(request).items()
        >= {
            "http.request.method": "POST",
            "http.route": "/v1/chat/completions",
            "http.response.status_code": 200,
        }.items()
    )


def test_the_trace_of_a_client_is_continued_to_the_upstream(told: tuple[Collector, ScriptedUpstream]) -> None:
    collector, upstream = told
    spans = {span.span_id.hex(): span for span in collector.spans}
    first, _, forwarded, _ = [request.headers["traceparent"].split("-") for request in upstream.requests]
    assert first[1] == TRACE
    assert spans[first[2]].name == "chat gpt-test"
    assert spans[spans[spans[first[2]].parent_span_id.hex()].parent_span_id.hex()].parent_span_id.hex() == PARENT
    assert forwarded[1] == TRACE
    assert spans[forwarded[2]].name == "POST /v1/chat/completions"
    assert spans[forwarded[2]].parent_span_id.hex() == PARENT[::-1]


def test_a_failed_run_is_failed_in_all_its_spans(told: tuple[Collector, ScriptedUpstream]) -> None:
    collector, _ = told
    failed = [span for span in collector.spans if span.status.code == 2]
    kinds = {span.name: attributes(span)["error.type"] for span in failed}
    assert kinds.keys() == {"chat gpt-test", "invoke_agent"}
    assert set(kinds.values()) == {"ProviderRejectedError"}


def test_metrics_have_the_names_attributes_and_buckets_of_the_conventions(
    told: tuple[Collector, ScriptedUpstream],
) -> None:
    collector, _ = told
    bounds = {name: {tuple(point.explicit_bounds) for point in points} for name, points in collector.points.items()}
    assert bounds.pop("http.server.request.duration")
    assert bounds == {
        "gen_ai.client.operation.duration": {OPERATION_BUCKETS},
        "gen_ai.client.token.usage": {tuple(map(float, TOKEN_BUCKETS))},
        "gen_ai.execute_tool.duration": {OPERATION_BUCKETS},
        "gen_ai.invoke_agent.duration": {AGENT_BUCKETS},
    }
    good, bad = sorted(
        collector.points["gen_ai.client.operation.duration"], key=lambda point: "error.type" in attributes(point)
    )
    asked = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-test"}
    assert attributes(good) == {**asked, "gen_ai.response.model": "gpt-test"}
    assert attributes(bad) == {**asked, "error.type": "ProviderRejectedError"}
    assert (good.count, bad.count) == (2, 1)
    kinds = {attributes(point)["gen_ai.token.type"] for point in collector.points["gen_ai.client.token.usage"]}
    assert kinds == {"input", "output"}
    (tool,) = collector.points["gen_ai.execute_tool.duration"]
    assert attributes(tool) == {"gen_ai.tool.name": "freeze_membership", "gen_ai.tool.type": "function"}


def test_every_export_names_the_service_its_version_and_the_process(told: tuple[Collector, ScriptedUpstream]) -> None:
    collector, _ = told
    assert {(each["service.name"], each["service.version"]) for each in collector.resources} == {
        ("toolcaddie", __version__)
    }
    assert len({each["service.instance.id"] for each in collector.resources}) == 1


def test_nothing_that_people_or_models_wrote_is_exported(told: tuple[Collector, ScriptedUpstream]) -> None:
    collector, _ = told
    for span in collector.spans:
        assert "member 7" not in str(span)
        assert "Frozen" not in str(span)


def test_the_standard_variables_do_what_the_setting_does_and_each_worker_is_an_instance(tmp_path: Path) -> None:
    settings(tmp_path, None)
    with collecting() as collector, ScriptedUpstream(lambda _: say("Yes.")) as upstream:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-team=gym-secret-of-the-collector",
            "OTEL_SERVICE_NAME": "gym",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        }
        with serving(tmp_path, "--upstream", upstream.base_url, "--workers", "2", **variables) as server:
            clients = [
                server.client(timeout=PATIENCE) for _ in range(4)
            ]  # each keeps its connection, and so its worker
            for client in clients:
                client.chat.completions.create(model="gpt-test", messages=[{"role": "user", "content": "hello"}])
            stop(server)
    assert collector.problems == []
    assert [span.name for span in collector.spans].count("invoke_agent") == len(clients)
    assert len({each["service.instance.id"] for each in collector.resources}) == 2
    assert {each["x-team"] for each in collector.headers} == {"gym-secret-of-the-collector"}
    assert {each["service.name"] for each in collector.resources} == {"gym"}
    assert {each["deployment.environment.name"] for each in collector.resources} == {"test"}


def test_replicas_on_one_database_are_two_instances_of_one_trace(tmp_path: Path, postgresql_url: str) -> None:
    """A client asks both in the same trace, as behind a load balancer."""
    homes = [tmp_path / "one", tmp_path / "two"]
    with collecting() as collector, ScriptedUpstream(lambda _: say("Yes.")) as upstream, ExitStack() as stack:
        for home in homes:
            home.mkdir()
            settings(home, collector.url)
        words = ("--upstream", upstream.base_url, "--database-url", postgresql_url)
        replicas = [stack.enter_context(serving(home, *words)) for home in homes]
        for replica in replicas:
            ask(replica, **TRACED)
        for replica in replicas:
            stop(replica)
    assert collector.problems == []
    runs = [span for span in collector.spans if span.name == "invoke_agent"]
    assert [run.trace_id.hex() for run in runs] == [TRACE, TRACE]
    assert len({attributes(run)["toolcaddie.run.id"] for run in runs}) == 2
    assert len({each["service.instance.id"] for each in collector.resources}) == 2


@pytest.mark.parametrize("how", ["refuses", "answers 503", "hangs"])
def test_a_collector_that_does_not_take_anything_delays_no_request_and_no_end(tmp_path: Path, how: str) -> None:
    with (
        collecting(status=503 if how == "answers 503" else 200, hangs=how == "hangs") as collector,
        socket.create_server(("127.0.0.1", 0)) as unused,
        ScriptedUpstream(lambda _: say("Yes.")) as upstream,
    ):
        gone = f"http://127.0.0.1:{unused.getsockname()[1]}"
        unused.close()
        settings(tmp_path, gone if how == "refuses" else collector.url)
        fast = {"OTEL_BSP_SCHEDULE_DELAY": "20", "OTEL_METRIC_EXPORT_INTERVAL": "50"}
        fast |= {} if how == "hangs" else {"OTEL_EXPORTER_OTLP_TIMEOUT": "0.5"}
        line = "telemetry_dropped" if how == "hangs" else "telemetry_not_exported"
        with serving(tmp_path, "--upstream", upstream.base_url, **fast) as server:
            ask(server)
            if how != "refuses":
                assert collector.asked.wait(PATIENCE)
            deadline = time.monotonic() + PATIENCE
            for number in itertools.count():
                began = time.monotonic()
                assert ask(server).choices[0].message.content == "Yes."
                assert time.monotonic() - began < 5
                if number > 20 and (how == "hangs" or line in server.log()):
                    break
                assert time.monotonic() < deadline, "nothing is logged of the collector"
            assert stop(server) < 10
            log = server.log()
    assert 1 <= log.count(line) <= 2, "one line for each signal"
    assert "Traceback" not in log


def test_another_protocol_is_refused_at_the_start(tmp_path: Path) -> None:
    settings(tmp_path, "http://127.0.0.1:9")
    with pytest.raises(AssertionError), serving(tmp_path, OTEL_EXPORTER_OTLP_PROTOCOL="grpc"):
        pass
    log = (tmp_path / "server.log").read_text()
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc', but spans are sent as http/protobuf" in log
