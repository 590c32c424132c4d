"""Changes of a host's state, through the runtime, with a plugin over real files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tools.host.shelf import Person, Shelf, house, until
from toolcaddie.core.errors import HostError
from toolcaddie.core.states import Change
from toolcaddie.guards.processes import run
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing.part_contracts import SOURCE, STATE, StateSubject, Subject, check_all

pytestmark = pytest.mark.anyio


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    folder = tmp_path / "shelf"
    folder.mkdir()
    (folder / "old.txt").write_text("an old text")
    return Shelf(folder)


class Keeper(Shelf):
    """A shelf that changes only while it can run a program, as the firewall does."""

    async def apply(self, changes: Sequence[Change]) -> None:
        completed = await run(["true"])
        if completed.code != 0:
            raise HostError(f"the program ended with {completed.code}")
        await super().apply(changes)


async def test_the_shelf_keeps_the_contract_of_state_plugins(shelf: Shelf) -> None:
    desired = {"new": {"text": "a"}, "old": None}
    await check_all(StateSubject(name="shelf", make=lambda: Shelf(shelf.folder), desired=desired), STATE)


async def test_a_difference_names_what_is_created_changed_deleted_and_left(shelf: Shelf) -> None:
    (shelf.folder / "same.txt").write_text("same")
    (shelf.folder / "gone.txt").write_text("gone")
    async with house(shelf, MemoryStore()) as home:
        desired = {"new": {"text": "n"}, "old": {"text": "o"}, "gone": None, "same": {"text": "same"}}
        diff = await home.difference(desired)
    actions = {change["target"]: change["action"] for change in diff["changes"]}
    assert actions == {"new": "create", "old": "modify", "gone": "delete", "same": "no-op"}


async def test_a_query_can_be_limited_to_names(shelf: Shelf) -> None:
    (shelf.folder / "new.txt").write_text("n")
    async with house(shelf, MemoryStore()) as home:
        result = await home.call("query", filter="n*")
        assert set(result.structured["state"]) == {"new"}


async def test_apply_changes_nothing_unless_it_is_told_to(shelf: Shelf) -> None:
    async with house(shelf, MemoryStore()) as home:
        diff = await home.difference({"new": {"text": "n"}})
        result = await home.call("apply", diff=diff)
        assert result.structured["dry_run"] is True
        assert await home.texts() == {"old": "an old text"}


async def test_an_applied_change_holds_and_can_be_undone(shelf: Shelf) -> None:
    async with house(shelf, MemoryStore()) as home:
        before = await home.texts()
        diff = await home.difference({"new": {"text": "n"}, "old": None})
        applied = await home.call("apply", diff=diff, dry_run=False)
        assert await home.texts() == {"new": "n"}
        again = await home.difference({"new": {"text": "n"}, "old": None})
        assert (await home.call("apply", diff=again, dry_run=False)).structured["applied"] is False
        await home.call("apply", diff=applied.structured["undo"], dry_run=False)
        assert await home.texts() == before


async def test_a_difference_from_a_state_that_has_changed_is_refused(shelf: Shelf) -> None:
    async with house(shelf, MemoryStore()) as home:
        diff = await home.difference({"old": {"text": "o"}})
        (shelf.folder / "old.txt").write_text("somebody else's")
        for dry_run in (True, False):
            result = await home.call("apply", diff=diff, dry_run=dry_run)
            assert result.error == "invalid_arguments"
            assert "the state has changed" in result.text
        assert await home.texts() == {"old": "somebody else's"}


async def test_a_change_of_another_thing_does_not_disturb(shelf: Shelf) -> None:
    async with house(shelf, MemoryStore()) as home:
        diff = await home.difference({"new": {"text": "n"}})
        (shelf.folder / "other.txt").write_text("x")
        assert (await home.call("apply", diff=diff, dry_run=False)).success


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("after", {"text": "forged"}),
        ("before", {"text": "forged"}),
        ("action", "no-op"),
        ("target", "other"),
        ("target", "../escape"),
    ],
)
async def test_a_difference_that_the_model_has_changed_is_refused(shelf: Shelf, field: str, value: object) -> None:
    async with house(shelf, MemoryStore()) as home:
        diff = await home.difference({"old": {"text": "o"}, "new": None})
        changed = next(change for change in diff["changes"] if change["target"] == "old")
        changed[field] = value
        result = await home.call("apply", diff=diff, dry_run=False)
        if field == "after":  # a different outcome is a different but honest difference
            assert await home.texts() == {"old": "forged"}
        else:
            assert result.error == "invalid_arguments"
            assert await home.texts() == {"old": "an old text"}


@pytest.mark.parametrize("after", [{"text": "x" * 201}, {"text": ["a"]}, {"text": "a", "more": 1}])
async def test_a_value_that_the_schema_forbids_is_no_better_in_a_difference(shelf: Shelf, after: Any) -> None:
    async with house(shelf, MemoryStore()) as home:
        diff = await home.difference({"old": {"text": "o"}})
        diff["changes"][0]["after"] = after
        result = await home.call("apply", diff=diff, dry_run=False)
        assert result.error == "invalid_arguments"
        assert "diff: old: " in result.text
        assert await home.texts() == {"old": "an old text"}


async def test_what_is_no_difference_is_refused_with_its_name(shelf: Shelf) -> None:
    async with house(shelf, MemoryStore()) as home:
        for diff in ({}, {"plugin": "shelf"}, {"plugin": "firewall", "base": "", "changes": []}, {"changes": 5}):
            result = await home.call("apply", diff=diff, dry_run=False)
            assert result.error == "invalid_arguments"
            assert "plugin_shelf_" in result.text


async def test_a_change_that_fails_half_way_is_undone(shelf: Shelf) -> None:
    async with house(shelf, MemoryStore()) as home:
        diff = await home.difference({"a": {"text": "1"}, "b": {"text": "2"}, "old": None})
        shelf.fails_at = {"b"}
        result = await home.call("apply", diff=diff, dry_run=False)
        assert result.is_error
        assert "the shelf does not hold b" in result.text
        assert "undone" in result.text
        assert await home.texts() == {"old": "an old text"}


async def test_a_change_that_does_not_hold_is_not_called_a_success(shelf: Shelf) -> None:
    async with house(shelf, MemoryStore()) as home:
        diff = await home.difference({"a": {"text": "1"}})
        shelf.forgets = True
        result = await home.call("apply", diff=diff, dry_run=False)
        assert result.is_error
        assert "does not hold for a" in result.text


async def test_a_missing_back_end_is_a_failed_result_of_every_step(shelf: Shelf) -> None:
    async with house(shelf, MemoryStore()) as home:
        diff = await home.difference({"a": {"text": "1"}})
        shelf.folder.rename(shelf.folder.parent / "elsewhere")
        for result in (
            await home.call("query"),
            await home.call("diff", desired_state={"a": {"text": "1"}}),
            await home.call("apply", diff=diff, dry_run=False),
        ):
            assert result.error == "failed"
            assert "there is no shelf" in result.text


async def test_a_change_that_nobody_confirms_is_undone(shelf: Shelf) -> None:
    shelf.may_lock_out = True
    async with house(shelf, MemoryStore(), confirm_seconds=0.05) as home:
        diff = await home.difference({"new": {"text": "n"}})
        result = await home.call("apply", diff=diff, dry_run=False)
        assert "undone in 0 s unless" in result.text
        await until(lambda: not (shelf.folder / "new.txt").exists())


async def test_a_plugin_that_runs_a_program_can_undo_after_the_call_has_ended(shelf: Shelf) -> None:
    """The programs that a call has started are killed when it ends; the undoing is none of them."""
    keeper = Keeper(shelf.folder, may_lock_out=True)
    async with house(keeper, MemoryStore(), confirm_seconds=0.2) as home:
        diff = await home.difference({"new": {"text": "n"}})
        assert (await home.call("apply", diff=diff, dry_run=False)).success
        await until(lambda: not (shelf.folder / "new.txt").exists())


async def test_the_same_call_again_confirms_a_change(shelf: Shelf) -> None:
    shelf.may_lock_out = True
    store = MemoryStore()
    async with house(shelf, store) as home:
        diff = await home.difference({"new": {"text": "n"}})
        await home.call("apply", diff=diff, dry_run=False)
        other = await home.difference({"other": {"text": "x"}})
        assert "waits for its confirmation" in (await home.call("apply", diff=other, dry_run=False)).text
        assert (await home.call("apply", diff=diff, dry_run=False)).structured["confirmed"] is True
        assert (await home.call("apply", diff=other, dry_run=False)).success
    assert (shelf.folder / "new.txt").exists()


async def test_a_question_about_a_call_that_would_fail_says_why(shelf: Shelf) -> None:
    shelf.may_lock_out = True
    person = Person()
    async with house(shelf, MemoryStore(), approver=person) as home:
        diff = await home.difference({"new": {"text": "n"}})
        await home.call("apply", diff=diff, dry_run=False)
        other = await home.difference({"other": {"text": "x"}})
        await home.call("apply", diff=other, dry_run=False)
    assert person.questions[1].effects == ("shelf.create other",)
    assert person.questions[1].preview.endswith(
        "If it is approved now, it fails: a change of shelf waits for its confirmation; "
        "apply the same diff again to confirm that change, or wait until it is undone"
    )


async def test_a_change_that_was_not_confirmed_before_a_restart_is_undone_after_it(shelf: Shelf) -> None:
    shelf.may_lock_out = True
    store = MemoryStore()
    async with house(shelf, store) as home:
        diff = await home.difference({"new": {"text": "n"}})
        await home.call("apply", diff=diff, dry_run=False)
    assert (shelf.folder / "new.txt").exists()
    async with house(shelf, store, clock=lambda: 4e9):
        await until(lambda: not (shelf.folder / "new.txt").exists())


async def test_of_two_processes_one_confirms_and_the_other_does_not_undo(shelf: Shelf) -> None:
    shelf.may_lock_out = True
    store = MemoryStore()
    async with house(shelf, store, confirm_seconds=0.2) as one, house(shelf, store, confirm_seconds=0.2) as other:
        diff = await one.difference({"new": {"text": "n"}})
        await one.call("apply", diff=diff, dry_run=False)
        assert (await other.call("apply", diff=diff, dry_run=False)).structured["confirmed"] is True
        follow = await one.difference({"next": {"text": "x"}})
        await one.call("apply", diff=follow, dry_run=False)
        await until(lambda: not (shelf.folder / "next.txt").exists())  # later than the deadline of the first change
    assert (shelf.folder / "new.txt").exists()


async def test_the_tools_of_plugins_are_a_source_like_others(shelf: Shelf) -> None:
    registry = Registry()
    registry.add("state", "shelf", lambda: Shelf(shelf.folder))
    settings = {"groups": ["plugins"], "plugins": ["shelf"]}
    await check_all(
        Subject(name="host", make=lambda: registry.make("source", "host", settings, Parts(store=MemoryStore()))), SOURCE
    )
