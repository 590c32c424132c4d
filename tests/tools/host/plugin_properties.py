"""Checks of what every state plugin promises, for random states, against its real back end."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy, tuples

from toolcaddie.core.errors import RequestError
from toolcaddie.core.states import DesiredState, State, StateDiff
from toolcaddie.ports import StatePlugin
from toolcaddie.states.changing import Applied, Changing
from toolcaddie.states.differences import version_of
from toolcaddie.states.pending import PendingChanges
from toolcaddie.storage.memory import MemoryStore

PHASES = (Phase.explicit, Phase.generate)
"""Without shrinking, which takes minutes with a real back end."""
EXAMPLES = int(os.environ.get("TOOLCADDIE_HOST_EXAMPLES", "20"))
"""Random states for each plugin. `make hosts` takes 200."""
COUNTS = os.environ.get("TOOLCADDIE_HOST_COUNTS", "")
"""A file to which the number of states that were checked is added. Empty: none."""


def check_properties(plugin: Callable[[], StatePlugin], desired: SearchStrategy[DesiredState]) -> None:
    """Checks the promises for many pairs of states: the first is where it begins, the second is desired. Afterwards everything is
    as before, so the pairs do not depend on each other."""
    count = 0

    @settings(max_examples=EXAMPLES, phases=PHASES, suppress_health_check=list(HealthCheck), database=None)
    @given(tuples(desired, desired))
    def check(pair: tuple[DesiredState, DesiredState]) -> None:
        nonlocal count
        asyncio.run(_check(changing(plugin()), *pair))
        count += 1

    check()
    if COUNTS:
        with Path(COUNTS).open("a") as file:
            file.write(f"{count}\n")


def changing(plugin: StatePlugin, confirm_seconds: float = 1000.0) -> Changing:
    """Returns what changes the states of a plugin."""
    return Changing(plugin, PendingChanges(MemoryStore()), confirm_seconds=confirm_seconds, clock=time.time)


async def _check(host: Changing, beginning: DesiredState, desired: DesiredState) -> None:
    await host.open()
    try:
        start = await host.query()
        begun = await confirmed(host, await host.difference(beginning))
        await _check_change(host, desired)
        if begun.undo is not None:
            await confirmed(host, begun.undo)
        assert await host.query() == start
    finally:
        await host.close()


async def _check_change(host: Changing, desired: DesiredState) -> None:
    first = await host.query()
    diff = await host.difference(desired)
    await host.check(diff)
    assert version_of(await host.query()) == version_of(first), "a dry run changed something"
    applied = await confirmed(host, diff)
    assert await host.query() == _after(first, diff), "the state is not the desired one"
    again = await host.difference(desired)
    assert not again.effective, "the second diff is not empty"
    assert not (await host.apply(again)).changes, "the second apply did something"
    if applied.undo is not None:
        with pytest.raises(RequestError, match="the state has changed"):
            await host.apply(diff)
        await confirmed(host, applied.undo)
    assert await host.query() == first, "the way back leads elsewhere"


async def confirmed(host: Changing, diff: StateDiff) -> Applied:
    """Makes the changes of a difference, and confirms them if that is necessary."""
    applied = await host.apply(diff)
    if applied.confirm_within is not None:
        assert (await host.apply(diff)).confirmed
    return applied


async def made(host: Changing, desired: DesiredState) -> StateDiff:
    """Makes a desired state, confirms it if that is necessary, and returns the difference that leads back."""
    undo = (await confirmed(host, await host.difference(desired))).undo
    assert undo is not None
    return undo


def _after(first: State, diff: StateDiff) -> State:
    wanted = {**first, **{change.target: change.after for change in diff.changes}}
    return {name: attributes for name, attributes in wanted.items() if attributes is not None}
