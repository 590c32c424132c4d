"""Deferred requests whose process is killed (-9): another one takes them over, and no tool acts twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.databases import KINDS, url_of_kind
from tests.doors.processes import PATIENCE, Process, serving
from toolcaddie.testing import ScriptedUpstream, call, say

SHOP = '''
import pathlib
import threading
from toolcaddie import tool

HOME = pathlib.Path({home!r})

@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    with (HOME / "effects").open("a") as effects:
        effects.write(f"{{amount}}\\n")
    if not (HOME / "quick").exists():
        threading.Event().wait()
    return "paid"
'''
ASK: Any = {"model": "gpt-test", "messages": [{"role": "user", "content": "pay 7"}]}


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the settings of replicas on one database."""
    url = url_of_kind(request, tmp_path / "data.sqlite")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shop.py").write_text(SHOP.format(home=str(tmp_path)))
        settings = f'database_url = "{url}"\n[storage]\nlease = 1\n'
        (tmp_path / name / "toolcaddie.toml").write_text(settings)
    return tmp_path


@contextmanager
def replicas(shop: Path, upstream: ScriptedUpstream) -> Iterator[Iterator[Process]]:
    """Yields servers that are started one after another, with the database of all."""
    words = ("--upstream", upstream.base_url, "--catalog", "python:shop")
    with serving(shop / "first", *words) as first:

        def started() -> Iterator[Process]:
            yield first
            with serving(shop / "second", *words) as second:
                yield second

        servers = started()
        yield servers
        servers.close()  # type: ignore[attr-defined]


def effects(shop: Path) -> list[str]:
    file = shop / "effects"
    return file.read_text().split() if file.exists() else []


def hand_in(server: Process) -> str:
    """Hands the request in, and returns the address of its answer."""
    accepted = httpx.post(
        f"{server.base_url}/chat/completions", json=ASK, headers={"prefer": "respond-async"}, timeout=PATIENCE
    )
    assert accepted.status_code == 202
    return accepted.headers["location"].removeprefix("/v1")


def answer_at(server: Process, address: str) -> httpx.Response:
    deadline = time.monotonic() + PATIENCE
    while (answer := httpx.get(f"{server.base_url}{address}", timeout=PATIENCE)).status_code == 202:
        assert time.monotonic() < deadline, server.log()
        time.sleep(0.05)
    return answer


def wait_for(event: threading.Event) -> None:
    assert event.wait(PATIENCE)


def test_a_run_goes_on_after_its_last_step_in_another_process(shop: Path) -> None:
    paid, over = threading.Event(), threading.Event()

    def model(body: Any) -> Any:
        if body["messages"][-1]["role"] != "tool":
            return call("pay", {"amount": 7})
        if not paid.is_set():
            paid.set()
            over.wait(PATIENCE)
        return say("It is paid.")

    (shop / "quick").touch()
    with ScriptedUpstream(model) as upstream, replicas(shop, upstream) as servers:
        first = next(servers)
        address = hand_in(first)
        wait_for(paid)
        first.kill()
        over.set()
        answer = answer_at(next(servers), address)
    assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, "It is paid.")
    assert effects(shop) == ["7"]


def test_a_call_that_may_have_acted_is_not_repeated_and_the_model_is_told(shop: Path) -> None:
    results: list[str] = []

    def model(body: Any) -> Any:
        if body["messages"][-1]["role"] != "tool":
            return call("pay", {"amount": 7})
        results.append(body["messages"][-1]["content"])
        return say("Please look whether it is paid.")

    with ScriptedUpstream(model) as upstream, replicas(shop, upstream) as servers:
        first = next(servers)
        address = hand_in(first)
        while not effects(shop):
            time.sleep(0.02)
        first.kill()
        (shop / "quick").touch()
        answer = answer_at(next(servers), address)
    assert (answer.status_code, effects(shop)) == (200, ["7"])
    assert "whether it took effect is not known" in results[0]


def test_a_background_response_is_completed_by_another_process(shop: Path) -> None:
    asked, over = threading.Event(), threading.Event()

    def model(body: Any) -> Any:
        if not asked.is_set():
            asked.set()
            over.wait(PATIENCE)
        return say("Done.")

    with ScriptedUpstream(model) as upstream, replicas(shop, upstream) as servers:
        first = next(servers)
        made = first.client().responses.create(model="gpt-test", input="hi", background=True)
        wait_for(asked)
        second = next(servers)
        first.kill()
        over.set()
        deadline = time.monotonic() + PATIENCE
        response = made
        while response.status in ("queued", "in_progress"):
            assert time.monotonic() < deadline, second.log()
            response = second.client().responses.retrieve(made.id)
            time.sleep(0.05)
        events = list(second.client().responses.retrieve(made.id, stream=True))
    assert (response.status, response.output_text) == ("completed", "Done.")
    assert events[-1].type == "response.completed"


def test_a_background_stream_is_followed_where_another_process_makes_it(shop: Path) -> None:
    """Both servers take requests from the queue, so each stream is made by either of them; both show all of them live."""
    with ScriptedUpstream(lambda _: say("one two three")) as upstream, replicas(shop, upstream) as servers:
        first, second = next(servers), next(servers)
        hand_in(second)  # opens its queue
        for server in (first, second, first, second):
            stream = server.client().responses.create(model="gpt-test", input="hi", background=True, stream=True)
            events = list(stream)
            assert [event.sequence_number for event in events] == list(range(len(events)))
            assert events[-1].type == "response.completed"
            other = second if server is first else first
            assert other.client().responses.retrieve(events[-1].response.id).output_text == "one two three"
