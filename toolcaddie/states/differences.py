"""Compares states: makes a difference, checks one that a model has written, and finds the way back."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from toolcaddie.core.errors import RequestError
from toolcaddie.core.schema import digest
from toolcaddie.core.states import Action, Change, DesiredState, State, StateDiff
from toolcaddie.core.tool import JsonObject
from toolcaddie.ports import StatePlugin


def version_of(state: State) -> str:
    """Returns the digest of a whole state."""
    return digest(state)[:32]


def difference(plugin: StatePlugin, state: State, desired: DesiredState) -> StateDiff:
    """Returns the changes from the present state to the desired one, a change for each thing that the desired state names. Raises
    `RequestError` for a name or value that the plugin does not allow."""
    changes = tuple(_change(plugin, state.get(target), target, desired[target]) for target in sorted(desired))
    return StateDiff(plugin=plugin.name, base=_base(state, desired), changes=changes)


def restoring(changes: Iterable[Change]) -> DesiredState:
    """Returns the desired state in which these changes were never made."""
    return {change.target: change.before for change in changes}


def decoded(plugin: StatePlugin, given: JsonObject) -> StateDiff:
    """Returns the difference that a model has written. Raises `RequestError` if it is none, or another plugin's."""
    try:
        diff = msgspec.convert(given, StateDiff)
    except msgspec.ValidationError as error:
        raise RequestError(f"diff: {error}; pass the value of plugin_{plugin.name}_diff unchanged") from error
    if diff.plugin != plugin.name:
        raise RequestError(
            f"diff: it is a change of {diff.plugin[:40]!r}; plugin_{plugin.name}_apply makes changes of {plugin.name!r}"
        )
    return diff


def check(plugin: StatePlugin, state: State, diff: StateDiff) -> None:
    """Raises `RequestError` unless the difference is the one from the present state to its own outcome."""
    outcome = {change.target: change.after for change in diff.changes}
    if len(outcome) != len(diff.changes):
        raise RequestError("diff: two changes have one target")
    if diff.base != _base(state, outcome):
        raise RequestError(
            f"diff: the state has changed since the diff was made, so nothing was done; call plugin_{plugin.name}_diff again"
        )
    expected = difference(plugin, state, outcome)
    if {change.target: change for change in diff.changes} != {change.target: change for change in expected.changes}:
        raise RequestError(
            f"diff: its changes are not those of plugin_{plugin.name}_diff, so nothing was done; pass its value unchanged"
        )


def _change(plugin: StatePlugin, before: JsonObject | None, target: str, desired: JsonObject | None) -> Change:
    after = plugin.planned(target, desired, before)
    return Change(action=_action(before, after), target=target, before=before, after=after)


def _action(before: JsonObject | None, after: JsonObject | None) -> Action:
    if before == after:
        return "no-op"
    if before is None:
        return "create"
    return "delete" if after is None else "modify"


def _base(state: State, targets: Iterable[str]) -> str:
    return digest([[target, state.get(target)] for target in sorted(targets)])[:32]
