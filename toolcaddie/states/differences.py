"""Compares states: makes a difference, checks one that a model has written, and finds the way back."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from toolcaddie.core.errors import RequestError
from toolcaddie.core.schema import argument_errors, canonical_json, digest
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


def restoring(changes: Iterable[Change], state: State) -> DesiredState:
    """Returns the desired state in which these changes were never made. Of a thing that was modified, only the attributes that
    were changed go back, so that what somebody else has changed since stays."""
    return {change.target: _restored(change, state.get(change.target)) for change in changes}


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
    for target, after in outcome.items():
        _check_values(plugin, target, after or {}, state.get(target) or {})
    expected = difference(plugin, state, outcome)
    if _texts(diff.changes) != _texts(expected.changes):
        raise RequestError(
            f"diff: its changes are not those of plugin_{plugin.name}_diff, so nothing was done; pass its value unchanged"
        )


def _texts(changes: Iterable[Change]) -> list[bytes]:
    """Returns changes as JSON, in which 0 is not False, and 1.0 is not 1."""
    return sorted(canonical_json(msgspec.to_builtins(change)) for change in changes)


def _check_values(plugin: StatePlugin, target: str, after: JsonObject, before: JsonObject) -> None:
    """Raises `RequestError` for a new value that does not fit the schema: a model may have written it into the difference, where
    the schema of the tool cannot see it."""
    new = {name: value for name, value in after.items() if name not in before or before[name] != value}
    schema = {key: value for key, value in plugin.attributes.items() if key != "required"}
    if errors := argument_errors(schema, new):
        raise RequestError(f"diff: {target[:80]}: {'; '.join(errors)}; nothing was done")


def _restored(change: Change, current: JsonObject | None) -> JsonObject | None:
    before, after = change.before, change.after
    if before is None or after is None or current is None:
        return before
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    kept = {name: value for name, value in current.items() if name not in changed}
    return {**kept, **{name: value for name, value in before.items() if name in changed}}


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
