"""`toolcaddie runs unknown` and `runs settle`: a person says what became of a call, and the run goes on with that."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.databases import home_url
from tests.doors.commandline import CommandLine
from toolcaddie.audit.trail import Trail
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.util.user import user_name

STARTED: list[str] = []


@tool
async def book(room: int) -> str:
    """Book a room."""
    STARTED.append(f"room {room}")
    await asyncio.sleep(60)
    return "booked"


def runtime_over(database: Database, *script: Any) -> tuple[Runtime, ScriptedProvider]:
    provider = ScriptedProvider([*script])
    parts = {"trail": Trail(database.events), "documents": database.store}
    return Runtime(provider=provider, sources=[book], policy=CedarPolicy(ask=["book"]), **parts), provider


async def _interrupted(meanwhile: Callable[[], Any] = lambda: None) -> Any:
    """Records a run whose call was interrupted in the middle, after it had been approved. Returns what `meanwhile` returned,
    which is called in a thread while the call is under way."""
    STARTED.clear()
    async with Database(home_url(Path.cwd())) as database:
        runtime, _ = runtime_over(database, call("book", {"room": 7}, call_id="c1"))
        await runtime.run("book room 7", run_id="r")
        resumed = asyncio.create_task(runtime.resume("r", approvals={"c1": True}))
        async with asyncio.timeout(10):
            while not STARTED:  # noqa: ASYNC110  the tool has begun
                await asyncio.sleep(0)
        outcome = await asyncio.to_thread(meanwhile)
        resumed.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await resumed
        return outcome


async def _resumed() -> str:
    """Resumes the run, and returns what the model read about the call."""
    async with Database(home_url(Path.cwd())) as database:
        runtime, provider = runtime_over(database, say("done"))
        assert (await runtime.resume("r")).text == "done"
        return str(provider.requests[-1].messages[-1].content)


@pytest.fixture
def interrupted(toolcaddie: CommandLine) -> CommandLine:
    asyncio.run(_interrupted())
    return toolcaddie


@pytest.mark.parametrize(
    ("answer", "words", "text", "state"),
    [
        ("--done", "took effect", "it took effect. booking 4711", "done"),
        ("--not-done", "did not take effect", "it did not take effect. booking 4711", "failed"),
    ],
)
def test_a_person_settles_a_call_and_the_model_reads_it(
    interrupted: CommandLine, answer: str, words: str, text: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "boss")  # a variable is not the person
    (unknown,) = interrupted.json("runs", "unknown")["calls"]
    assert (unknown["run_id"], unknown["id"], unknown["name"], unknown["arguments"]) == (
        "r",
        "c1",
        "book",
        '{"room":7}',
    )
    assert "book" in interrupted.ok("runs", "unknown")

    shown = interrupted.ok("runs", "settle", "r", "c1", answer, "--result", "booking 4711", "--reason", "on the list")

    assert shown == f"book {words} (r, c1)\n"
    assert interrupted.json("runs", "unknown")["calls"] == []
    assert interrupted.json("runs", "r")["calls"][0]["state"] == state
    assert f"book {words}, says {user_name()}: on the list" in interrupted.ok("trail", "r")
    assert asyncio.run(_resumed()).endswith(text)
    assert STARTED == ["room 7"]


def test_a_call_that_is_under_way_is_not_unknown_yet_and_is_counted(toolcaddie: CommandLine) -> None:
    shown = asyncio.run(_interrupted(lambda: toolcaddie("runs", "unknown").stderr))
    assert "no call has an unknown outcome" in shown
    assert "1 call under way" in shown
    assert toolcaddie.json("runs", "unknown")["under_way"] == 0


def test_without_a_settlement_the_model_reads_that_nothing_is_known(interrupted: CommandLine) -> None:
    assert "whether it took effect is not known" in asyncio.run(_resumed())


def test_a_call_is_settled_once(interrupted: CommandLine) -> None:
    interrupted.ok("runs", "settle", "r", "c1", "--done")
    message = interrupted.refused("runs", "settle", "r", "c1", "--not-done")
    assert "the call 'c1' of run r is settled already" in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("r", "c9", "--done"), "run r has no call 'c9' whose outcome is unknown (unknown are: c1)"),
        (("other", "c1", "--done"), "nothing is recorded of run 'other'"),
        (("r", "c1"), "say whether the call took effect: --done or --not-done"),
        (("r", "c1", "--done", "--not-done"), "--done or --not-done, not both"),
    ],
)
def test_a_wrong_settlement_is_refused(interrupted: CommandLine, words: tuple[str, ...], message: str) -> None:
    assert message in interrupted("runs", "settle", *words).stderr
    assert len(interrupted.json("runs", "unknown")["calls"]) == 1


def test_a_call_of_a_run_that_has_ended_is_settled_too(interrupted: CommandLine) -> None:
    asyncio.run(_resumed())
    result = interrupted("runs", "settle", "r", "c1", "--done")
    assert result.exit_code == 0
    assert "the run has ended; nothing continues it" in result.stderr
