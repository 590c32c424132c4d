"""A server that is killed in the middle of a request with an `idempotency-key`: what its successor does with the retry."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.databases import change, home_url, rows
from tests.doors.processes import PATIENCE, Process, serving
from toolcaddie.core.storage import EventRecord
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedUpstream, call, say

SHOP = '''
import pathlib
import threading
from toolcaddie import tool

@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    with open("effects", "a") as effects:
        effects.write(f"{amount}\\n")
    if not pathlib.Path("quick").exists():
        threading.Event().wait()
    return "paid"
'''
ASK: Any = {
    "model": "gpt-test",
    "messages": [{"role": "user", "content": "pay 7"}],
    "extra_headers": {"Idempotency-Key": "order-7"},
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    # A retry waits until the lease of the dead server has run out.
    (tmp_path / "toolcaddie.toml").write_text("[storage]\nlease = 1\n")
    return tmp_path


def client_of(server: Process, *, max_retries: int = 3) -> openai.OpenAI:
    return server.client(api_key="test-key", max_retries=max_retries)


def effects(home: Path) -> list[str]:
    file = home / "effects"
    return file.read_text().split() if file.exists() else []


def killed_while_it_runs(server: Process, there: Callable[[], bool], **more: Any) -> None:
    """Ask, kill the server as soon as `there` says so, and see the request break."""
    broken: list[Exception] = []

    def ask() -> None:
        try:
            for _ in client_of(server, max_retries=0).chat.completions.create(**ASK, **more):
                pass
        except openai.OpenAIError as error:
            broken.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    while not there():
        asking.join(0.02)
        assert asking.is_alive()
    server.kill()
    asking.join(PATIENCE)
    assert [type(error) for error in broken] == [openai.APIConnectionError]


class Paying:
    """A model that lets the tool pay once, and answers with what it is told of the call. `pause`: it stops before that answer
    until `over` is set."""

    def __init__(self, *, pause: bool = False) -> None:
        self.results: list[str] = []
        self.has_result, self.over = threading.Event(), threading.Event()
        self._pause = pause

    def __call__(self, body: Any) -> Any:
        if body["messages"][-1]["role"] != "tool":
            return call("pay", {"amount": 7})
        self.results.append(body["messages"][-1]["content"])
        if self._pause and not self.has_result.is_set():
            self.has_result.set()
            self.over.wait(PATIENCE)
        return say("It is settled.")


def test_a_call_that_a_crash_cut_off_is_not_repeated_and_the_model_is_told(shop: Path) -> None:
    model = Paying()
    with ScriptedUpstream(model) as upstream:
        words = ("--upstream", upstream.base_url, "--catalog", "python:shop")
        with serving(shop, *words) as server:
            killed_while_it_runs(server, lambda: bool(effects(shop)))
        (shop / "quick").touch()
        with serving(shop, *words) as server:
            answers = [client_of(server).chat.completions.create(**ASK) for _ in range(2)]
    assert [answer.choices[0].message.content for answer in answers] == ["It is settled."] * 2
    assert answers[0].id == answers[1].id
    assert "whether it took effect is not known" in model.results[0]
    assert effects(shop) == ["7"]


@pytest.mark.parametrize(
    ("more", "key"),
    [({}, "test-key"), ({"stream": True}, "test-key"), ({}, "")],
    ids=["whole", "streamed", "with the client's own key for the model"],
)
def test_a_run_goes_on_after_its_last_call_when_a_crash_cut_off_its_answer(more: Any, key: str, shop: Path) -> None:
    model = Paying(pause=True)
    (shop / "quick").touch()
    with ScriptedUpstream(model) as upstream:
        words = ("--upstream", upstream.base_url, "--catalog", "python:shop")
        with serving(shop, *words, OPENAI_API_KEY=key) as server:
            killed_while_it_runs(server, lambda: model.has_result.is_set() and is_stored_with_its_result(shop), **more)
        model.over.set()
        with serving(shop, *words, OPENAI_API_KEY=key) as server:
            answer = client_of(server).chat.completions.create(**ASK, **more)
            text = (
                "".join(chunk.choices[0].delta.content or "" for chunk in answer)
                if more
                else answer.choices[0].message.content
            )
            while rows(home_url(shop), f"SELECT 1 FROM documents WHERE kind = 'run' AND expires > {time.time()}"):
                pass  # it is forgotten once its client has the answer
    assert (text, model.results) == ("It is settled.", ["paid", "paid"])
    assert effects(shop) == ["7"]


def is_stored_with_its_result(home: Path) -> bool:
    stored = rows(home_url(home), "SELECT value FROM documents WHERE kind = 'run'")
    return any(b'"paid"' in bytes(value) for (value,) in stored)


def test_a_run_that_acted_and_is_not_stored_any_more_is_never_run_again(shop: Path) -> None:
    with ScriptedUpstream(lambda _: call("pay", {"amount": 7})) as upstream:
        words = ("--upstream", upstream.base_url, "--catalog", "python:shop")
        with serving(shop, *words) as server:
            killed_while_it_runs(server, lambda: bool(effects(shop)))
        (shop / "quick").touch()
        change(home_url(shop), "DELETE FROM documents WHERE kind = 'run'")
        with serving(shop, *words) as server:
            for _ in range(2):
                with pytest.raises(openai.UnprocessableEntityError, match="toolcaddie runs run_") as told:
                    client_of(server).chat.completions.create(**ASK)
                assert told.value.code == "outcome_unknown"
                assert told.value.response.headers["x-should-retry"] == "false"
    assert effects(shop) == ["7"]


def test_a_request_that_may_have_acted_is_not_run_again_either_when_its_run_was_pruned(shop: Path) -> None:
    async def pruned() -> int:
        async with Database(home_url(shop)) as database:
            ours = await database.leases.own()
            for number in await database.leases.labels():
                assert number == ours or not await database.leases.holds(number)  # waits until its lease has run out
            database.events.append(EventRecord(run_id="other", seq=1, at=0.0, kind="note", data={}))
            await database.events.flush()
            return (await database.retention.prune(-60.0, by="a test")).runs

    with ScriptedUpstream(lambda _: call("pay", {"amount": 7})) as upstream:
        words = ("--upstream", upstream.base_url, "--catalog", "python:shop")
        with serving(shop, *words) as server:
            killed_while_it_runs(server, lambda: bool(effects(shop)))
        (shop / "quick").touch()
        change(home_url(shop), "DELETE FROM documents WHERE kind = 'run'")
        assert asyncio.run(pruned()) == 1
        with serving(shop, *words) as server, pytest.raises(openai.UnprocessableEntityError) as told:
            client_of(server, max_retries=0).chat.completions.create(**ASK)
    assert told.value.code == "outcome_unknown"
    assert effects(shop) == ["7"]


@pytest.mark.parametrize("recorded", [True, False], ids=["its start is recorded", "killed before its first row"])
def test_a_request_that_had_intended_nothing_runs_again_after_a_crash(recorded: bool, shop: Path) -> None:
    asked, over = threading.Event(), threading.Event()

    def model(body: Any) -> Any:
        if not asked.is_set():
            asked.set()
            over.wait(PATIENCE)
            return say("too late")
        return say("It is paid.") if body["messages"][-1]["role"] == "tool" else call("pay", {"amount": 7})

    def number_of_rows() -> int:
        [(number,)] = rows(home_url(shop), "SELECT count(*) FROM events")
        return int(number)

    (shop / "quick").touch()
    with ScriptedUpstream(model) as upstream:
        words = ("--upstream", upstream.base_url, "--catalog", "python:shop")
        with serving(shop, *words) as server:
            killed_while_it_runs(server, lambda: asked.is_set() and bool(number_of_rows()))
        over.set()
        if not recorded:  # the rows are on disk some milliseconds after the claim, too soon to be killed before
            change(home_url(shop), "DELETE FROM events", "DELETE FROM runs")
        with serving(shop, *words) as server:
            answers = [client_of(server).chat.completions.create(**ASK) for _ in range(2)]
    assert answers[0].id == answers[1].id
    assert answers[0].choices[0].message.content == "It is paid."
    assert effects(shop) == ["7"]
