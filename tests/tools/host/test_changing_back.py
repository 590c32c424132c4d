"""Changes of a host's state that go wrong, wait, or are undone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.tools.host.hosting import judged
from tests.tools.host.shelf import Shelf, house, shelf_source, until
from toolcaddie.core.errors import HostError, RequestError
from toolcaddie.core.states import BackEnd, Change, State, StateDiff
from toolcaddie.core.tool import JsonObject
from toolcaddie.parts import Parts
from toolcaddie.states import Changing, PendingChanges
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.tools.host.source import plugins_group

pytestmark = pytest.mark.anyio


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    folder = tmp_path / "shelf"
    folder.mkdir()
    (folder / "old.txt").write_text("an old text")
    return Shelf(folder)


async def test_a_difference_that_cannot_be_found_for_the_way_back_is_said(shelf: Shelf) -> None:
    (shelf.folder / "old.txt").write_text("x" * 300)

    class Strict(Shelf):
        def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
            if desired is not None and len(desired["text"]) > 200:
                raise RequestError("a text is shorter")
            return super().planned(target, desired, current)

    async with house(Strict(shelf.folder), MemoryStore()) as home:
        result = await home.call("apply", diff=await home.difference({"old": {"text": "o"}}), dry_run=False)
    assert result.success
    assert "undo" not in result.structured
    assert "No diff leads back: a text is shorter." in result.text
    strict = Strict(shelf.folder, may_lock_out=True)
    (shelf.folder / "old.txt").write_text("x" * 300)
    async with house(strict, MemoryStore()) as home:
        result = await home.call("apply", diff=await home.difference({"old": {"text": "o"}}), dry_run=False)
        assert "could not be undone, so nothing was done: a text is shorter" in result.text
        assert await home.texts() == {"old": "x" * 300}


class Twofold(Shelf):
    """While it makes a change, the same call comes again."""

    async def apply(self, changes: Sequence[Change]) -> None:
        self.twin = asyncio.create_task(self.host.apply(self.diff))
        await asyncio.sleep(0)  # until the twin waits for its turn
        await super().apply(changes)

    host: Changing
    diff: StateDiff


async def test_a_call_that_came_before_its_twin_was_made_confirms_nothing(shelf: Shelf) -> None:
    twofold = Twofold(shelf.folder, may_lock_out=True)
    twofold.host = Changing(twofold, PendingChanges(MemoryStore()), confirm_seconds=60, clock=time.time)
    twofold.diff = await twofold.host.difference({"new": {"text": "n"}})
    assert not (await twofold.host.apply(twofold.diff)).confirmed
    with pytest.raises(RequestError, match="see whether it works, and apply the same diff again"):
        await twofold.twin
    assert (await twofold.host.apply(twofold.diff)).confirmed
    await twofold.host.close()


class Failing(Shelf):
    """Cannot delete `b`, and fails at first in a way that no plugin should."""

    queries = 0
    failures = 0

    async def query(self) -> State:
        self.queries += 1
        if self.failures:
            self.failures -= 1
            raise ZeroDivisionError
        return await super().query()

    async def apply(self, changes: Sequence[Change]) -> None:
        if any(change.target == "b" and change.after is None for change in changes):
            raise HostError("b is stuck")
        await super().apply(changes)


async def test_an_error_of_any_kind_does_not_keep_a_change_from_being_undone(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcaddie.states.changing._PAUSE", 0.01)
    failing = Failing(shelf.folder, may_lock_out=True)
    async with house(failing, MemoryStore(), confirm_seconds=0.05) as home:
        await home.call("apply", diff=await home.difference({"new": {"text": "n"}}), dry_run=False)
        failing.failures = 3
        await until(lambda: not (shelf.folder / "new.txt").exists())
    assert failing.failures == 0


async def test_a_thing_that_cannot_be_restored_does_not_keep_the_others(shelf: Shelf) -> None:
    failing = Failing(shelf.folder, may_lock_out=True)
    async with house(failing, MemoryStore(), confirm_seconds=0.05) as home:
        diff = await home.difference({name: {"text": name} for name in "abc"})
        await home.call("apply", diff=diff, dry_run=False)
        await until(lambda: {path.stem for path in shelf.folder.iterdir()} == {"old", "b"})


async def test_machines_with_one_store_have_changes_of_their_own(tmp_path: Path) -> None:
    store = MemoryStore()
    shelves = [Shelf(tmp_path / name, may_lock_out=True) for name in ("here", "there")]
    for each in shelves:
        each.folder.mkdir()
    here, there = (
        Changing(each, PendingChanges(store, machine=each.folder.name), confirm_seconds=60, clock=time.time)
        for each in shelves
    )
    diff = await here.difference({"new": {"text": "n"}})
    await here.apply(diff)
    assert await there.check(diff), "it would confirm the change of the other machine"
    assert not (await there.apply(diff)).confirmed
    assert (await here.apply(diff)).confirmed
    await asyncio.gather(here.close(), there.close())


async def test_a_call_that_would_fail_has_the_effects_that_it_would_have_a_moment_later(shelf: Shelf) -> None:
    source = shelf_source(shelf)
    diff = StateDiff(
        plugin="shelf", base="0" * 32, changes=(Change(action="delete", target="old", before={"text": "n"}),)
    )
    later = await judged(source, "plugin_shelf_apply", {"diff": msgspec.to_builtins(diff), "dry_run": False})
    assert later.effects == ("shelf.delete old",)
    assert later.question == "deletes old"
    assert "the state has changed" in later.preview


async def test_a_person_is_asked_about_a_confirmation_as_about_the_change(shelf: Shelf) -> None:
    shelf.may_lock_out = True
    store = MemoryStore()
    async with house(shelf, store) as home:
        diff = await home.difference({"old": None})
        call = {"diff": diff, "dry_run": False}
        source = shelf_source(shelf, Parts(store=store))
        change = await judged(source, "plugin_shelf_apply", call)
        await home.call("apply", **call)
        confirmation = await judged(source, "plugin_shelf_apply", call)
    assert (confirmation.question, confirmation.effects) == (change.question, change.effects)
    assert confirmation.preview == "Confirms the last change of shelf, so that it stays."


async def test_a_plugin_that_cannot_be_looked_at_hides_no_other(shelf: Shelf) -> None:
    class Blind(Shelf):
        async def back_ends(self) -> Sequence[BackEnd]:
            raise ZeroDivisionError("no eyes")

    group = plugins_group([Blind(shelf.folder), shelf], confirm_seconds=60, parts=Parts(store=MemoryStore()))
    blind, seeing = await group.back_ends()
    assert (blind.present, blind.detail) == (False, "it cannot be looked at: ZeroDivisionError: no eyes")
    assert seeing.present
