"""Selection learns from runs: some of their data is remembered, and some is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.databases import database_url
from toolcaddie.audit.trail import Trail
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.run import RunRequest
from toolcaddie.core.storage import EventRecord
from toolcaddie.learning import Experience, Fit, LearningSettings, entries_of_trail
from toolcaddie.learning.experience import owner_of
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, calls, say

pytestmark = pytest.mark.anyio

ANNA, BORIS = Principal(id="anna"), Principal(id="boris")


def source(tools: int = 60) -> FunctionSource:
    made = []
    for number in range(tools):

        def run(text: str = "") -> str:
            return f"did it with {text}"

        run.__name__ = f"way_{number}"
        run.__doc__ = f"Does it the way {number}."
        made.append(tool()(run))

    @tool()
    def broken() -> str:
        """Fails."""
        raise RuntimeError("no")

    return FunctionSource("work", [*made, broken])


def runtime(experience: Experience | None, *turns, **more) -> Runtime:
    return Runtime(provider=ScriptedProvider(turns), sources=[source()], experience=experience, **more)


def remembered(experience: Experience) -> list[tuple[str, tuple[str, ...]]]:
    return [(entry.text, tuple(each.name for each in entry.tools)) for entry in experience.past().entries]


async def test_a_run_is_remembered_by_its_words_and_the_tools_that_ran():
    experience = Experience()
    asked = runtime(experience, calls(("way_7", {}), ("way_9", {})), say("done"))
    await asked.run("freeze John", principal=ANNA)
    assert remembered(experience) == [("freeze John", ("way_7", "way_9"))]
    (entry,) = experience.past().entries
    assert all(each.digest for each in entry.tools)


async def test_calls_that_failed_teach_nothing():
    experience = Experience()
    await runtime(experience, call("broken"), say("sorry")).run("freeze John")
    assert len(experience) == 0


async def test_a_run_without_calls_and_a_tool_called_directly_teach_nothing():
    experience = Experience()
    asked = runtime(experience, say("hello"))
    await asked.run("hello")
    await asked.call("way_7", {})
    assert len(experience) == 0


async def test_what_is_remembered_is_without_secrets():
    experience = Experience()
    secret = "sk-abcdefghijklmnopqrstuvwx"
    asked = runtime(experience, call("way_7"), say("done"))
    await asked.run(f"log in with {secret} please")
    (entry,) = experience.past().entries
    assert secret not in entry.text
    assert "log in with" in entry.text
    assert all(secret not in text for _, words in experience.sample() for text, _ in words.messages)


async def test_a_turn_is_remembered_with_the_messages_before_it():
    experience = Experience()
    asked = runtime(experience, call("way_7"), say("done"))
    await asked.run(
        RunRequest(
            messages=[
                Message(role="user", content="freeze the membership of John"),
                Message(role="assistant", content="From tomorrow?"),
                Message(role="user", content="yes, do it"),
            ]
        )
    )
    ((_, words),) = experience.sample()
    assert [text for text, _ in words.messages] == ["yes, do it", "freeze the membership of John"]


async def test_the_ranker_knows_the_principal_of_a_request():
    """In the scope `principal`, selection learns from the runs of the same principal only."""
    experience = Experience(LearningSettings(scope="principal"))
    turns = [turn for n in range(40) for turn in (call(f"way_{50 + n % 3}"), say("done"))]
    asked = runtime(experience, *turns)
    things = ("membership", "invoice", "studio")
    for n in range(40):
        await asked.run(f"please {things[n % 3]} of client {n}", principal=ANNA)
    await asked.learn(())
    version = asked.source.snapshot().version
    assert experience.fit_of(version, frozenset()).weight > 0
    experience.keep_fit(version, Fit(weight=2.0, requests=40))
    mine = asked.select("please studio of client 77", principal=ANNA)
    theirs = asked.select("please studio of client 77", principal=BORIS)
    assert "way_52" in mine.names
    assert any("called after" in reason for chosen in mine.tools for reason in chosen.reasons)
    assert not any("called after" in reason for chosen in theirs.tools for reason in chosen.reasons)


async def test_requests_are_compared_by_a_local_embedder_and_by_the_table_if_the_embedder_is_remote():
    class Here:
        name, dimensions, languages = "here", 2, None

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            return np.tile(np.float32([0.6, 0.8]), (len(texts), 1))

    class Far:
        name, dimensions, languages = "far", 2, None

        async def fetch(self, texts: Sequence[str]) -> np.ndarray:
            return np.zeros((len(texts), 2), dtype=np.float32)

        async def close(self) -> None:
            pass

    near, far = Experience(), Experience()
    await runtime(near, call("way_7"), say("done"), embedder=Here()).run("freeze John")
    await runtime(far, call("way_7"), say("done"), embedder=Far()).run("freeze John")
    assert (near.embedder.name, far.embedder.name) == ("here", "words-2")
    assert len(near) == len(far) == 1


async def test_a_tool_that_was_used_together_with_another_is_selected_with_it():
    experience = Experience()
    together = calls(("way_7", {}), ("way_51", {})), say("done")
    turns = [turn for _ in range(6) for turn in together]
    asked = runtime(experience, *turns)
    before = asked.select("does it the way 7")
    for number in range(6):
        await asked.run(f"please, number {number}", principal=Principal(id=f"user{number}"))
    experience.settle()
    after = asked.select("does it the way 7")
    assert not any("way_51" in reason or "used" in reason for tool in before.tools for reason in tool.reasons)
    (brought,) = [tool for tool in after.tools if tool.tool.name == "way_51"]
    assert any("way_7" in reason for reason in brought.reasons)


async def test_the_presets_of_other_systems_do_not_learn_from_runs():
    experience = Experience()
    asked = runtime(experience, preset="keyword")
    assert asked.select("freeze").names == runtime(None, preset="keyword").select("freeze").names
    assert "learned" not in PRESETS["default"].selection.rankers


async def test_without_a_memory_nothing_is_learned():
    with pytest.raises(ConfigError, match="experience"):
        await runtime(None).learn(())


async def test_the_trail_teaches_what_the_runs_would_have(tmp_path: Path):
    live = Experience()
    async with Database(database_url(tmp_path / "trail.sqlite")) as database:
        turns = [
            call("way_7"),
            say("done"),
            call("broken"),
            say("sorry"),
            call("way_9"),
            say("ok"),
        ]
        asked = runtime(live, *turns, trail=Trail(database.events))
        await asked.run("freeze John", principal=ANNA)
        await asked.run("freeze Jane", principal=ANNA)
        await asked.run(
            RunRequest(
                principal=BORIS,
                messages=[
                    Message(role="user", content="thaw Jim"),
                    Message(role="assistant", content="Now?"),
                    Message(role="user", content="yes"),
                ],
            )
        )
        await asked.call("way_3", {})
        entries = await entries_of_trail(database.events, most_runs=100)
    later = Experience()
    later.extend(entries)
    assert remembered(later) == remembered(live) == [("freeze John", ("way_7",)), ("yes", ("way_9",))]
    assert [entry.owner for entry in later.past().entries] == [entry.owner for entry in live.past().entries]
    assert [entry.group for entry in later.past().entries] == [entry.group for entry in live.past().entries]
    assert [words for _, words in later.sample()] == [words for _, words in live.sample()]


async def test_an_unreadable_row_of_the_trail_costs_that_run_only(tmp_path: Path) -> None:
    async with Database(database_url(tmp_path / "trail.db")) as database:
        for name, history in (("good", []), ("bad", None), ("worse", [{"called": 5}])):
            said = {"message": "freeze my abo", "principal": {"id": "ann"}, "preset": "default", "history": history}
            for seq, (kind, data) in enumerate(
                [("run_started", said), ("tools_selected", {}), ("call_finished", {"name": "freeze"})]
            ):
                database.events.append(EventRecord(run_id=name, seq=seq, at=1.0, kind=kind, data=data))
        await database.events.flush()
        assert len(await database.events.runs()) == 3
        (entry,) = await entries_of_trail(database.events, most_runs=10)
    assert [tool.name for tool in entry.tools] == ["freeze"]


def test_no_two_principals_have_the_same_owner_id() -> None:
    assert owner_of(Principal(tenant="a\0b", id="c")) != owner_of(Principal(tenant="a", id="b\0c"))
    assert owner_of(Principal(id="a\ud800")) != owner_of(Principal(id="a?"))
