"""Checks of a state plugin. They make and undo changes, so the part under test has a back end of the test.

Part of the contract suite `STATE` (of `toolcaddie.testing.part_contracts`); the name of each function is printed as the
promise that it checks.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolcaddie.core.errors import HostError, RequestError
from toolcaddie.core.schema import argument_errors, canonical_json
from toolcaddie.core.states import BackEnd, DesiredState, StateDiff
from toolcaddie.ports import StatePlugin
from toolcaddie.states.differences import difference, restoring, version_of
from toolcaddie.testing.contract import Checks, ContractError, expect
from toolcaddie.testing.part_contracts.subject import Subject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSubject(Subject[StatePlugin]):
    """A state plugin under test, and a change that it can make."""

    desired: DesiredState
    """A desired state that differs from the state in which a check begins. Each check undoes it."""


CHECKS: Checks[StateSubject] = Checks()

_WRONG_NAMES = ("", "a\nb", "a\x00b", "../../etc/passwd", "-rf", "x" * 5_000, "$(reboot)", "a;b", "\u202eab")


@asynccontextmanager
async def _changed(subject: StateSubject) -> AsyncIterator[tuple[StatePlugin, StateDiff]]:
    """Yields a plugin and the change that it has made, and undoes the change afterwards."""
    plugin = subject.make()
    diff = difference(plugin, await plugin.query(), subject.desired)
    if not diff.effective:
        raise ContractError("the desired state of the subject is the present state, so there is nothing to check")
    try:
        await plugin.apply(diff.effective)
        yield plugin, diff
    finally:
        state = await plugin.query()
        back = difference(plugin, state, restoring(diff.changes, state))
        await plugin.apply(back.effective)
        await plugin.close()


@CHECKS.add()
async def its_name_and_description_are_texts(subject: StateSubject) -> None:
    plugin = subject.make()
    expect(plugin.name.isidentifier(), f"the name {plugin.name!r} cannot be part of a tool's name")
    expect(bool(plugin.description), "there is no description")
    expect(isinstance(plugin.may_lock_out, bool), f"may_lock_out is {plugin.may_lock_out!r}, not True or False")


@CHECKS.add()
async def the_state_stays_the_same_while_nothing_changes(subject: StateSubject) -> None:
    plugin = subject.make()
    versions = {version_of(await plugin.query()) for _ in range(3)}
    await plugin.close()
    expect(len(versions) == 1, "three queries gave different states; leave out what changes by itself")


@CHECKS.add()
async def each_thing_fits_the_schema_of_the_attributes(subject: StateSubject) -> None:
    async with _changed(subject) as (plugin, _):
        for name, attributes in (await plugin.query()).items():
            errors = argument_errors(plugin.attributes, dict(attributes))
            expect(not errors, f"{name}: {'; '.join(errors)}")
            canonical_json(attributes)


@CHECKS.add()
async def what_was_planned_holds_after_it_was_applied(subject: StateSubject) -> None:
    async with _changed(subject) as (plugin, diff):
        state = await plugin.query()
        for change in diff.changes:
            expect(state.get(change.target) == change.after, f"{change.target} is {state.get(change.target)!r:.200}")


@CHECKS.add()
async def a_plan_of_a_plan_is_the_same_plan(subject: StateSubject) -> None:
    plugin = subject.make()
    state = await plugin.query()
    for change in difference(plugin, state, subject.desired).changes:
        again = plugin.planned(change.target, change.after, change.before)
        expect(again == change.after, f"{change.target}: {change.after!r:.200} is planned as {again!r:.200}")
    await plugin.close()


@CHECKS.add()
async def a_desired_state_that_holds_needs_no_change(subject: StateSubject) -> None:
    async with _changed(subject) as (plugin, _):
        state = await plugin.query()
        for desired in (subject.desired, state):
            changes = difference(plugin, state, desired).effective
            expect(not changes, f"{len(changes)} changes are left, such as {changes[:1]!r:.200}")


@CHECKS.add()
async def a_change_can_be_undone(subject: StateSubject) -> None:
    plugin = subject.make()
    before = version_of(await plugin.query())
    async with _changed(subject):
        pass
    expect(version_of(await plugin.query()) == before, "the state is not the same after a change was undone")
    await plugin.close()


@CHECKS.add()
async def each_change_has_effects_of_a_kind_and_a_target(subject: StateSubject) -> None:
    plugin = subject.make()
    for change in difference(plugin, await plugin.query(), subject.desired).effective:
        effects = plugin.effects(change)
        expect(bool(effects), f"{change.action} of {change.target} has no effect")
        for effect in effects:
            kind, _, target = effect.partition(" ")
            expect("." in kind and bool(target), f"the effect {effect!r} is not a kind and a target")
        expect(isinstance(plugin.question(change), str), "the question is no text")
    await plugin.close()


@CHECKS.add()
async def a_name_that_means_something_to_a_program_is_refused(subject: StateSubject) -> None:
    plugin = subject.make()
    attributes = next(value for value in subject.desired.values() if value is not None)
    for name in _WRONG_NAMES:
        try:
            plugin.planned(name, attributes, None)
        except RequestError:
            continue
        raise ContractError(f"the name {name[:40]!r} was accepted")
    await plugin.close()


@CHECKS.add()
async def it_says_what_it_depends_on(subject: StateSubject) -> None:
    plugin = subject.make()
    for back_end in await plugin.back_ends():
        expect(isinstance(back_end, BackEnd), f"back_ends has {back_end!r:.100}, not a BackEnd")
        expect(bool(back_end.name and back_end.detail), f"{back_end!r} has no name or no detail")
    await plugin.close()


@CHECKS.add()
async def it_can_be_closed_twice_and_used_again(subject: StateSubject) -> None:
    plugin = subject.make()
    await plugin.close()
    try:
        await plugin.query()
    except HostError as error:
        raise ContractError(f"a query after it was closed failed: {error}") from error
    await plugin.close()
    await plugin.close()
