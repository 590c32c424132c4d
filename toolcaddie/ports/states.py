"""Interfaces (sockets, which plugins fill) for states: parts of a host that are read and changed as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from toolcaddie.core.states import BackEnd, Change, State
from toolcaddie.core.tool import JsonObject


class StatePlugin(Protocol):
    """Reads and changes one part of a host, such as its firewall. Comparing states, checking that a change was made and undoing
    it are the same for all plugins and not their work (`states/changing.py`)."""

    @property
    def name(self) -> str:
        """The name in the tools `plugin_NAME_query`, `plugin_NAME_diff` and `plugin_NAME_apply`."""
        ...

    @property
    def description(self) -> str:
        """The things of the state and their attributes, as a model reads it: `Network links: up, addresses`."""
        ...

    @property
    def attributes(self) -> JsonObject:
        """JSON schema of the attributes of one thing, an object."""
        ...

    @property
    def may_lock_out(self) -> bool:
        """True: a change can cut off the person who makes it, so it is undone unless it is confirmed in time."""
        ...

    async def query(self) -> State:
        """Returns the present state. Attributes that change by themselves, such as counters, are no part of it. Raises
        `HostError` if the back end is missing or does not answer."""
        ...

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        """Returns all attributes that `query` will show after a thing was given the desired ones; None: it will be gone.
        `desired` has passed the schema, or is None for a deletion. `current`: the present attributes; None: it does not exist.
        A result that is passed in again as desired stays the same. Raises `RequestError` for a name or value that is not allowed,
        and for a deletion that is not; nothing else judges them."""
        ...

    def effects(self, change: Change) -> tuple[str, ...]:
        """Returns the effects of a change (`Assessment.effects`), the same as those of other tools that do the same."""
        ...

    def question(self, change: Change) -> str:
        """Returns the reason why a person is always asked about this change; empty: there is none. Deletions always ask, without
        the plugin's saying so."""
        ...

    async def apply(self, changes: Sequence[Change]) -> None:
        """Makes the changes, in an order of its choice, and returns when they hold. Raises `HostError`; then some may hold."""
        ...

    async def back_ends(self) -> Sequence[BackEnd]:
        """Returns what the plugin depends on, and whether this machine has it. Never raises an exception."""
        ...

    async def close(self) -> None:
        """Closes all connections. The plugin may be used again, in another event loop too."""
        ...


@runtime_checkable
class MeasuringPlugin(Protocol):
    """A `StatePlugin` that also measures things, those of its state and others."""

    async def measures(self) -> State:
        """Returns values that change by themselves, such as used bytes, by the name of the thing. `plugin_NAME_query` shows them
        beside the state; they are never compared or changed. Raises `HostError`."""
        ...
