"""Metrics of a whole server at `/metrics`: its answers, its database, its processes."""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from pathlib import Path

import openai
import pytest
from prometheus_client import CollectorRegistry

from tests.databases import change, database_url, home_url, locked
from tests.doors.processes import PATIENCE, Process, serving
from tests.telemetry.prometheus import metrics_of
from toolcaddie.core.approval import Approval
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import StorageError
from toolcaddie.core.events import ApprovalClosed
from toolcaddie.doors.gateway.measured import Measured
from toolcaddie.storage.database import Database
from toolcaddie.telemetry import PrometheusSink
from toolcaddie.telemetry.database import DatabaseMetrics

PRACTICE = ("--catalog", "gym", "--model", "practice:practice")
CHAT = "/v1/chat/completions"


def value(server: Process, name: str, **labels: str) -> float:
    """The value of a metric that has these labels; 0: there is none yet."""
    samples = [each for each in metrics_of(server)[name].samples if each.name == name and each.labels == labels]
    return samples[0].value if samples else 0


def ask(server: Process) -> None:
    client = server.client(timeout=PATIENCE)
    client.chat.completions.create(model="practice", messages=[{"role": "user", "content": "hello"}])


def answers(server: Process) -> bool:
    try:
        ask(server)
    except openai.APIStatusError:
        return False
    return True


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("workers", ["1", "2"])
def test_answers_are_counted_by_path_and_status_and_processes_by_what_they_use(tmp_path: Path, workers: str) -> None:
    with serving(tmp_path, *PRACTICE, "--workers", workers) as server:
        root = server.base_url.removesuffix("/v1")
        for _ in range(4):
            ask(server)
        assert [status_of(f"{root}/{path}") for path in ("nothing-here", "nothing/there", "healthz")] == [404, 404, 200]
        assert value(server, "toolcaddie_gateway_answers_total", path=CHAT, status="200") == 4
        assert value(server, "toolcaddie_gateway_answers_total", path="other", status="404") == 2
        assert value(server, "toolcaddie_gateway_seconds_count", path=CHAT) == 4
        assert not [
            each for each in metrics_of(server)["toolcaddie_gateway_answers_total"].samples if "healthz" in str(each)
        ]
        assert value(server, "toolcaddie_ready") == 1
        assert value(server, "toolcaddie_database_commit_seconds_count") > 0
        assert value(server, "toolcaddie_processes") == int(workers)
        assert value(server, "toolcaddie_memory_bytes") > 20_000_000 * int(workers)
        assert value(server, "toolcaddie_cpu_seconds_total") > 0


def test_a_database_that_cannot_be_written_shows_until_it_can(tmp_path: Path) -> None:
    with serving(tmp_path, *PRACTICE) as server:
        ask(server)
        assert value(server, "toolcaddie_trail_failures_total") == 0
        with locked(home_url(tmp_path)):
            assert value(server, "toolcaddie_ready") == 0
            deadline = time.monotonic() + PATIENCE
            failures = ("toolcaddie_trail_failures_total", "toolcaddie_database_failures_total")
            while answers(server) or not all(value(server, name) for name in failures):
                assert time.monotonic() < deadline
        while not value(server, "toolcaddie_ready"):
            assert time.monotonic() < deadline + PATIENCE
        assert value(server, "toolcaddie_gateway_answers_total", path=CHAT, status="503") > 0


@pytest.mark.anyio
async def test_a_process_that_others_took_for_gone_says_so(tmp_path: Path) -> None:
    registry, url = CollectorRegistry(), database_url(tmp_path / "toolcaddie.sqlite")
    async with Database(url, watch=DatabaseMetrics(registry)) as database:
        lost = await database.leases.own()
        assert registry.get_sample_value("toolcaddie_leases_lost_total") == 0
        change(url, "delete from owners")
        with pytest.raises(StorageError, match="did not renew its lease"):
            await database.store.put("run", "a", b"too late", owner=lost)
    assert registry.get_sample_value("toolcaddie_leases_lost_total") == 1


@pytest.mark.anyio
async def test_a_client_that_left_before_the_answer_is_counted_as_cut() -> None:
    registry = CollectorRegistry()

    async def never(scope: object, receive: object, send: object) -> None:
        raise asyncio.CancelledError

    async def nothing(*_: object) -> dict[str, object]:
        return {}

    with pytest.raises(asyncio.CancelledError):
        await Measured(never, registry, routes=(CHAT,))({"type": "http", "path": CHAT}, nothing, nothing)
    labels = {"path": CHAT, "status": "cut"}
    assert registry.get_sample_value("toolcaddie_gateway_answers_total", labels) == 1


@pytest.mark.anyio
async def test_answers_to_questions_are_counted() -> None:
    registry = CollectorRegistry()
    sink = PrometheusSink(registry)
    for status in ("approved", "expired", "expired"):
        approval = Approval(
            id="a",
            run_id="r",
            call_id="c",
            tool="t",
            arguments={},
            digest="",
            policy_version="",
            principal=Principal(),
            expires=0.0,
            created=0.0,
            status=status,
        )
        await sink.emit(ApprovalClosed(run_id="r", approval=approval))
    counts = {
        status: registry.get_sample_value("toolcaddie_approvals_total", {"status": status})
        for status in ("approved", "refused", "expired")
    }
    assert counts == {"approved": 1, "refused": 0, "expired": 2}
