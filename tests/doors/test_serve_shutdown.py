"""A shutdown cuts requests off: what clients and the trail are told of them. Real processes, real signals."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.databases import home_url, rows
from tests.doors.processes import PATIENCE, Process, serving
from toolcaddie.testing import ScriptedUpstream, call, paced, say

SHOP = '''
from toolcaddie import tool

@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return "paid"

@tool(read_only=True)
def balance() -> str:
    """Tells how much money there is."""
    return "7"
'''
ASK: Any = {"model": "gpt-test", "messages": [{"role": "user", "content": "pay 7"}]}


def failures(home: Path) -> list[dict[str, Any]]:
    return [json.loads(data) for (data,) in rows(home_url(home), "select data from events where kind = 'run_failed'")]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


@pytest.mark.parametrize("catalog", [("--catalog", "python:shop"), ()], ids=["run", "forwarded"])
def test_a_stream_that_a_shutdown_cuts_ends_with_an_error_that_clients_raise(
    catalog: tuple[str, ...], shop: Path
) -> None:
    answer = paced(say("It goes on and on."), asyncio.Semaphore(2))  # the rest of it never comes
    with ScriptedUpstream([answer]) as upstream, serving(shop, "--upstream", upstream.base_url, *catalog) as server:
        stream = iter(server.client().chat.completions.create(**ASK, stream=True))
        next(stream)
        cutting = threading.Thread(target=server.cut)
        cutting.start()
        with pytest.raises(openai.APIError, match="shut down"):
            for _ in stream:
                pass
        cutting.join(PATIENCE)
        assert server.process.returncode == 0
    assert [failure["kind"] for failure in failures(shop)] == (["ShutdownError"] if catalog else [])
    assert all("shut down" in failure["error"] for failure in failures(shop))


@pytest.mark.parametrize(("tool", "again"), [(None, None), ("balance", None), ("pay", "false")])
def test_a_plain_request_that_a_shutdown_cuts_may_be_sent_again_unless_it_acted(
    tool: str | None, again: str | None, shop: Path
) -> None:
    silent, over = threading.Event(), threading.Event()

    def model() -> Iterator[Any]:
        if tool:
            yield call(tool, {"amount": 7} if tool == "pay" else {})
        silent.set()
        over.wait(PATIENCE)
        yield say("too late")

    answers = model()
    with (
        ScriptedUpstream(lambda _: next(answers)) as upstream,
        serving(shop, "--upstream", upstream.base_url, "--catalog", "python:shop") as server,
    ):
        cutting = threading.Thread(target=_cut_when, args=(silent, server, over))
        cutting.start()
        with pytest.raises(openai.InternalServerError, match="shut down") as cut:
            server.client().chat.completions.create(**ASK)
        cutting.join(PATIENCE)
    assert cut.value.status_code == 503
    assert cut.value.response.headers.get("x-should-retry") == again
    assert cut.value.response.headers.get("retry-after") == (None if again else "1")
    assert [failure["kind"] for failure in failures(shop)] == ["ShutdownError"]


def _cut_when(silent: threading.Event, server: Process, over: threading.Event) -> None:
    silent.wait(PATIENCE)
    server.cut()
    over.set()
