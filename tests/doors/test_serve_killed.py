"""A server that is killed in the middle of a request with an `idempotency-key`: what its successor does with the retry."""

from __future__ import annotations

import asyncio
import threading
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


def effects(home: Path) -> list[str]:
    file = home / "effects"
    return file.read_text().split() if file.exists() else []


def killed_while_it_runs(server: Process, there: Callable[[], bool]) -> None:
    """Ask, kill the server as soon as `there` says so, and see the request break."""
    broken: list[Exception] = []

    def ask() -> None:
        try:
            server.client().chat.completions.create(**ASK)
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


def test_a_request_that_may_have_acted_is_never_run_again_after_a_crash(shop: Path) -> None:
    with ScriptedUpstream(lambda _: call("pay", {"amount": 7})) as upstream:
        words = ("--upstream", upstream.base_url, "--catalog", "python:shop")
        with serving(shop, *words) as server:
            killed_while_it_runs(server, lambda: bool(effects(shop)))
        (shop / "quick").touch()
        with serving(shop, *words) as server:
            for _ in range(2):
                with pytest.raises(openai.UnprocessableEntityError, match="toolcaddie runs run_") as told:
                    server.client(max_retries=3).chat.completions.create(**ASK)
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
        assert asyncio.run(pruned()) == 1
        with serving(shop, *words) as server, pytest.raises(openai.UnprocessableEntityError) as told:
            server.client().chat.completions.create(**ASK)
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
            answers = [server.client(max_retries=3).chat.completions.create(**ASK) for _ in range(2)]
    assert answers[0].id == answers[1].id
    assert answers[0].choices[0].message.content == "It is paid."
    assert effects(shop) == ["7"]
