"""`toolcaddie serve --workers 2`: real processes behind one port, and real signals."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import psutil
import pytest

from tests.doors.commandline import CommandLine
from tests.doors.dying import dies, fails_later, reloads
from tests.doors.processes import PATIENCE, Process, serving
from toolcaddie.doors.cli.failure import Reported
from toolcaddie.doors.cli.workers import Workers
from toolcaddie.testing import ScriptedUpstream, call, paced, say

SHOP = '''
import os
import time
from toolcaddie import tool

@tool(read_only=True)
def whoami() -> str:
    """Say which process answers."""
    return f"pid {os.getpid()}"

@tool
def pay(amount: int) -> str:
    """Pay an amount, which takes a moment."""
    with open("effects", "a") as effects:
        effects.write(f"{os.getpid()}\\n")
    time.sleep(0.2)
    return "paid"
'''
MCP_2025 = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


def model(body: Any) -> Any:
    """Calls the tool that the user names, and says what it returned."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return say(last["content"])
    return call("pay", {"amount": 7}) if last["content"] == "pay" else call("whoami")


def workers_of(server: Process) -> list[psutil.Process]:
    """The processes that serve, without the one that Python itself starts beside them."""
    children = psutil.Process(server.process.pid).children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def pid_in(text: str | None) -> int:
    said = re.search(r"pid (\d+)", text or "")
    assert said is not None, text
    return int(said[1])


def asked(server: Process, what: str = "whoami", **options: Any) -> Any:
    """One request over a connection of its own, so that any worker may get it."""
    with server.client(timeout=PATIENCE) as client:
        return client.chat.completions.create(model="gpt-test", messages=[{"role": "user", "content": what}], **options)


def until(true: Callable[[], bool]) -> None:
    """Waits until something has happened."""
    waiting = threading.Event()
    for _ in range(PATIENCE * 50):
        if true():
            return
        waiting.wait(0.02)
    pytest.fail("it did not happen")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("shop")
    (home / "shop.py").write_text(SHOP)
    return home


@pytest.fixture(scope="module")
def upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream(model) as scripted:
        yield scripted


@pytest.fixture(scope="module")
def two(shop: Path, upstream: ScriptedUpstream) -> Iterator[Process]:
    """A server with two workers."""
    with serving(shop, "--workers", "2", "--upstream", upstream.base_url, "--catalog", "python:shop") as server:
        yield server


@pytest.mark.anyio
async def test_requests_are_spread_over_the_workers_and_the_metrics_count_all_of_them(two: Process) -> None:
    before = await _runs(two)
    async with openai.AsyncOpenAI(base_url=two.base_url, api_key="none", max_retries=0, timeout=PATIENCE) as client:
        message: Any = {"role": "user", "content": "whoami"}
        asking = (client.chat.completions.create(model="gpt-test", messages=[message]) for _ in range(200))
        answers = await asyncio.gather(*asking)
    pids = {pid_in(answer.choices[0].message.content) for answer in answers}
    assert pids == {worker.pid for worker in workers_of(two)}
    assert [await _runs(two) for _ in range(4)] == [before + 200] * 4  # whichever worker is asked


async def _runs(server: Process) -> float:
    """The number of finished runs in the metrics."""
    async with httpx2.AsyncClient() as client:
        metrics = (await client.get(server.base_url.replace("/v1", "/metrics"))).text
    count = re.search(r'^toolcaddie_runs_total\{preset="default",status="completed"\} (\S+)$', metrics, re.MULTILINE)
    return float(count[1]) if count else 0.0


@pytest.mark.anyio
async def test_requests_with_one_idempotency_key_run_once_in_all_workers(two: Process, shop: Path) -> None:
    async def pay() -> str:
        async with openai.AsyncOpenAI(base_url=two.base_url, api_key="none", max_retries=9, timeout=PATIENCE) as client:
            answer = await client.chat.completions.create(
                model="gpt-test",
                messages=[{"role": "user", "content": "pay"}],
                extra_headers={"Idempotency-Key": "order-7"},
            )
        return answer.id

    ids = await asyncio.gather(*(pay() for _ in range(12)))
    assert len(set(ids)) == 1
    assert len((shop / "effects").read_text().split()) == 1


def test_a_stored_response_of_one_worker_is_continued_by_the_other(two: Process, upstream: ScriptedUpstream) -> None:
    def responded(**options: Any) -> Any:
        with two.client(timeout=PATIENCE) as client:
            return client.responses.create(model="gpt-test", input="whoami", **options)

    first = responded()
    others: list[Any] = []
    until(lambda: others.append(responded(previous_response_id=first.id)) or _pids(others[-1:]) != _pids([first]))
    said = [message["content"] for message in upstream.bodies[-1]["messages"] if message["role"] == "user"]
    assert said == ["whoami", "whoami"]


def _pids(responses: list[Any]) -> set[int]:
    return {pid_in(response.output_text) for response in responses}


def test_mcp_clients_of_the_older_protocol_get_no_session_and_any_worker_serves_them(two: Process) -> None:
    url = two.base_url.replace("/v1", "/mcp")
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begun = httpx2.post(url, json=_rpc("initialize", begin), headers=MCP_2025, timeout=PATIENCE)
    assert begun.status_code == 200
    assert "mcp-session-id" not in begun.headers
    read = _rpc("tools/call", {"name": "execute_read", "arguments": {"tool_name": "whoami", "arguments": {}}})
    pids: set[int] = set()

    def called() -> bool:
        pids.add(pid_in(httpx2.post(url, json=read, headers=MCP_2025, timeout=PATIENCE).text))
        return len(pids) == 2

    until(called)


def _rpc(method: str, params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_a_worker_that_is_killed_under_load_comes_back_and_the_other_one_goes_on(two: Process) -> None:
    victim, other = workers_of(two)
    answers: list[int] = []
    broken: list[Exception] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                answers.append(pid_in(asked(two).choices[0].message.content))
            except openai.APIConnectionError as error:
                broken.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: {victim.pid, other.pid} <= set(answers))
    victim.kill()
    until(lambda: bool(set(answers) - {victim.pid, other.pid}))
    over.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(broken) <= len(threads), "only requests that the killed worker had may break"
    assert {worker.pid for worker in workers_of(two)} == {other.pid, *(set(answers) - {victim.pid})}


def test_workers_end_by_themselves_when_their_parent_is_killed(two: Process) -> None:
    """The last test of this server."""
    processes = psutil.Process(two.process.pid).children(recursive=True)
    metrics = Path(workers_of(two)[0].environ()["PROMETHEUS_MULTIPROC_DIR"])
    assert metrics.is_dir()
    two.kill()
    until(lambda: not any(process.is_running() for process in processes))
    assert not metrics.exists()


def _listens(server: Process) -> bool:
    try:
        httpx2.get(server.base_url.replace("/v1", "/healthz"))
    except httpx2.TransportError:
        return False
    return True


@pytest.mark.anyio
async def test_a_stream_under_way_ends_well_after_sigterm_and_no_process_is_left(shop: Path) -> None:
    gate = asyncio.Semaphore(2)  # the rest of the answer comes after the signal
    async with ScriptedUpstream([paced(say("It goes on and on."), gate)]) as upstream:
        with serving(shop, "--workers", "2", "--upstream", upstream.base_url) as server:
            processes = psutil.Process(server.process.pid).children(recursive=True)
            client = openai.AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0, timeout=PATIENCE)
            stream = await client.chat.completions.create(
                model="gpt-test", messages=[{"role": "user", "content": "talk"}], stream=True
            )
            text = [(await anext(stream)).choices[0].delta.content]
            server.process.send_signal(signal.SIGTERM)
            until(lambda: not _listens(server))
            for _ in range(100):
                gate.release()
            text += [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
            await client.close()
            assert "".join(filter(None, text)) == "It goes on and on."
            assert server.process.wait(PATIENCE) == 0
        until(lambda: not any(process.is_running() for process in processes))


def test_a_mistake_that_the_workers_find_is_reported_as_one_process_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("serve", "--port", "0", "--host", "0.0.0.0")
    alone = CommandLine(tmp_path).refused(*words)
    assert "toolcaddie keys add" in alone
    command = [sys.executable, "-m", "toolcaddie", *words, "--workers", "2"]
    several = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (several.returncode, several.stdout, several.stderr) == (2, "", alone)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param('database_url = "sqlite:///:memory:"', "the database is in memory", id="database-in-memory"),
        pytest.param('[store]\ntype = "memory"', "[store] type = 'memory'", id="store-in-memory"),
        pytest.param("[mcp]\nsessions = true", "leave mcp.sessions out", id="mcp-sessions"),
    ],
)
def test_settings_that_workers_cannot_share_are_refused(
    lines: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolcaddie.toml").write_text(f"{lines}\n[server]\nworkers = 2\n")
    assert words in CommandLine(tmp_path).refused("serve", "--port", 0)


@pytest.mark.parametrize(
    ("work", "error"),
    [
        pytest.param(dies, "worker 1 ended with exit code -9", id="killed"),
        pytest.param(fails_later, "the settings are wrong now", id="wrong-settings"),
    ],
)
def test_a_worker_that_dies_again_and_again_is_given_up(work: Callable[..., None], error: str, tmp_path: Path) -> None:
    starts, announced, stopped = tmp_path / "starts", list[int](), list[bool]()
    workers = Workers(
        work,
        (starts,),
        1,
        announce=announced.append,
        stopping=lambda: stopped.append(True),
        pauses=(0.0, 0.0),
    )
    with pytest.raises(Reported, match=error):
        asyncio.run(workers.run())
    assert (announced, stopped) == ([1], [True])
    assert starts.read_text() == "xxx"


def test_sighup_is_passed_on_to_the_workers(tmp_path: Path) -> None:
    workers = Workers(
        reloads,
        (tmp_path / "starts",),
        2,
        announce=lambda _: os.kill(os.getpid(), signal.SIGHUP),
        stopping=lambda: None,
        pauses=(),
    )
    with pytest.raises(Reported, match="it was told to reload"):
        asyncio.run(workers.run())
