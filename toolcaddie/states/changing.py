"""Changes one part of a host: makes differences, makes changes that are still right, checks that they hold, and undoes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from toolcaddie.core.errors import HostError, RequestError, ToolcaddieError
from toolcaddie.core.states import Change, DesiredState, State, StateDiff
from toolcaddie.ports import StatePlugin
from toolcaddie.states.differences import check, difference, restoring
from toolcaddie.states.pending import Pending, PendingChanges
from toolcaddie.util.log import Logger

log = Logger(__name__)

_PAUSE = 5.0
"""Seconds between two attempts to undo a change."""


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a change."""

    changes: tuple[Change, ...]
    undo: StateDiff | None = None
    """The difference that leads back, to be applied in the same way; None: nothing was changed, or there is no way back."""
    no_undo: str = ""
    """The reason why there is no way back; empty: there is one, or nothing was changed."""
    confirm_within: float | None = None
    """Seconds after which the change is undone unless it is confirmed; None: it stays."""
    confirmed: bool = False
    """True: this call confirmed a change that was made before."""


def matching(state: State, pattern: str) -> State:
    """Returns the things whose names fit the pattern, in the order of their names; all for an empty one."""
    return {name: state[name] for name in sorted(state) if not pattern or fnmatchcase(name, pattern)}


class Changing:
    """Changes the part of a host that a plugin reads and changes, one change after another.

    `confirm_seconds`: the time in which a change that may lock people out must be confirmed. `clock` returns the seconds since
    the epoch.
    """

    def __init__(
        self, plugin: StatePlugin, pending: PendingChanges, *, confirm_seconds: float, clock: Callable[[], float]
    ) -> None:
        self.plugin = plugin
        self._pending = pending
        self._confirm_seconds = confirm_seconds
        self._clock = clock
        self._lock = asyncio.Lock()
        self._watchers: set[asyncio.Task[None]] = set()
        self._undoings: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Continues to wait for the confirmation of a change that was made before a restart."""
        self._lock = asyncio.Lock()
        if (waiting := await self._pending.get(self.plugin.name)) is not None:
            _remembered(self._undo_at_deadline(waiting), self._watchers)

    async def close(self) -> None:
        """Stops waiting; the change that waits is undone by whoever opens the host again."""
        for task in tuple(self._watchers):
            task.cancel()
        await asyncio.gather(*self._watchers, *self._undoings, return_exceptions=True)  # what is half undone goes on
        await self.plugin.close()

    async def query(self, pattern: str = "") -> State:
        """Returns the things whose names fit the pattern, such as `eth*`; all for an empty one."""
        return matching(await self.plugin.query(), pattern)

    async def difference(self, desired: DesiredState) -> StateDiff:
        """Returns the changes from the present state to a desired one. Raises `RequestError` and `HostError`."""
        return difference(self.plugin, await self.plugin.query(), desired)

    async def check(self, diff: StateDiff) -> Sequence[Change]:
        """Returns the changes that `apply` would make now; none if it would confirm a change. Raises `RequestError` if it would
        refuse them."""
        waiting = await self._pending.get(self.plugin.name)
        if waiting is not None:
            self._same(waiting, diff)
            return ()
        return await self._checked(diff)

    async def apply(self, diff: StateDiff) -> Applied:
        """Makes the changes and checks that they hold, or makes none.

        The same difference again confirms a change that waits for it. Raises `RequestError` if the state is no longer the one for
        which the difference was made, and `HostError` if the changes could not be made; then they were undone.
        """
        known = await self._pending.get(self.plugin.name)
        async with self._lock:
            waiting = await self._pending.get(self.plugin.name)
            if waiting is not None:
                return await self._confirmed(waiting, diff, known)
            changes = await self._checked(diff)
            if not changes:
                return Applied(changes=())
            waiting = await self._begun(diff) if self.plugin.may_lock_out else None
            try:
                await self._made(changes)
                if waiting is not None:
                    await self._pending.finish(waiting)
            finally:
                # also after a failure: if it could not be undone now, it is at the deadline
                if waiting is not None:
                    _remembered(self._undo_at_deadline(waiting), self._watchers)
            undo, no_undo = await self._undo(changes)
            return Applied(
                changes=changes,
                undo=undo,
                no_undo=no_undo,
                confirm_within=None if waiting is None else waiting.deadline - self._clock(),
            )

    async def _checked(self, diff: StateDiff) -> tuple[Change, ...]:
        """Returns the changes of a difference that may be made now. Raises `RequestError` otherwise, also for a change that may
        lock people out and could not be undone."""
        check(self.plugin, await self.plugin.query(), diff)
        for change in diff.effective if self.plugin.may_lock_out else ():
            try:
                self.plugin.planned(change.target, change.before, change.after)
            except RequestError as error:
                raise RequestError(f"diff: the change could not be undone, so nothing was done: {error}") from error
        return diff.effective

    async def _undo(self, changes: Sequence[Change]) -> tuple[StateDiff | None, str]:
        """Returns the difference that leads back; or None, and the reason, such as that the plugin refuses the earlier state."""
        try:
            state = await self.plugin.query()
            return difference(self.plugin, state, restoring(changes, state)), ""
        except (HostError, RequestError) as error:
            return None, str(error)

    async def _begun(self, diff: StateDiff) -> Pending:
        """Stores a change before it is made, so that it is undone even if this process dies while making it."""
        pending = Pending(diff=diff, deadline=self._clock() + self._confirm_seconds)
        if not await self._pending.put(pending):
            raise RequestError(f"another change of {self.plugin.name} waits for its confirmation; make it afterwards")
        return pending

    async def _made(self, changes: Sequence[Change]) -> None:
        """Makes changes that hold afterwards. If that fails, or the call is cancelled, they are undone."""
        try:
            await self.plugin.apply(changes)
            await self._expect({change.target: change.after for change in changes})
        except BaseException as error:
            try:
                await self._shielded(self._undone(changes))
            except Exception as second:  # noqa: BLE001  code of a plugin, whatever it raises
                raise HostError(f"{_text(error)}. What had been changed could not be undone: {second}") from error
            if isinstance(error, ToolcaddieError):
                raise HostError(f"{_text(error)}. Nothing is changed: what had been done was undone") from error
            raise

    async def _expect(self, desired: DesiredState) -> None:
        """Raises `HostError` unless the state is the desired one."""
        missing = difference(self.plugin, await self.plugin.query(), desired).effective
        if missing:
            names = ", ".join(change.target for change in missing[:5])
            raise HostError(f"{self.plugin.name}: the change was made but does not hold for {names}")

    async def _undone(self, changes: Sequence[Change]) -> None:
        """Leads back to the state before the changes, whichever of them were made. One that cannot be undone does not keep the
        others. Raises `HostError` if it fails."""
        try:
            await self._led_back(changes)
        except Exception:
            if len(changes) == 1:
                raise
            for change in reversed(changes):
                with suppress(ToolcaddieError):
                    await self._led_back([change])
            await self._led_back(changes)
        await self._pending.forget(self.plugin.name)

    async def _led_back(self, changes: Sequence[Change]) -> None:
        state = await self.plugin.query()
        desired = restoring(changes, state)
        back = difference(self.plugin, state, desired).effective
        if back:
            await self.plugin.apply(back)
            await self._expect(desired)

    # --- confirmation ------------------------------------------------------------------------------------------------------

    def _same(self, waiting: Pending, diff: StateDiff) -> None:
        if waiting.undoing or waiting.diff != diff:
            raise RequestError(
                f"a change of {self.plugin.name} {'is being undone' if waiting.undoing else 'waits for its confirmation'}; "
                "apply the same diff again to confirm that change, or wait until it is undone"
            )

    async def _confirmed(self, waiting: Pending, diff: StateDiff, known: Pending | None) -> Applied:
        """Confirms a change. `known`: the one that waited when the call came. A call that came before the change was made, such
        as its twin, is no confirmation: nobody can have seen that the change locks nobody out."""
        self._same(waiting, diff)
        if waiting != known or not waiting.made:
            raise RequestError(
                f"another call has made this change of {self.plugin.name} meanwhile; see whether it works, and apply the same "
                "diff again to confirm it"
            )
        if not await self._pending.confirm(waiting):
            raise RequestError(f"the change of {self.plugin.name} was not confirmed in time and is undone")
        for task in tuple(self._watchers):
            task.cancel()
        return Applied(changes=(), confirmed=True)

    async def _shielded(self, undoing: Coroutine[Any, Any, None]) -> None:
        await asyncio.shield(_remembered(undoing, self._undoings))

    async def _undo_at_deadline(self, waiting: Pending) -> None:
        """Undoes a change at its deadline, unless it is confirmed. If that fails, it is tried again until it succeeds."""
        await asyncio.sleep(0 if waiting.undoing else max(0.0, waiting.deadline - self._clock()))
        while True:
            try:
                return await self._undo_late(waiting)
            except ToolcaddieError as error:
                log.error("host_change_not_undone", plugin=self.plugin.name, problem=str(error))
            except Exception:  # whatever code of a plugin raises: a change that may lock people out must not stay
                log.exception("host_change_not_undone", plugin=self.plugin.name)
            await asyncio.sleep(_PAUSE)

    async def _undo_late(self, waiting: Pending) -> None:
        """Undoes a change unless it was confirmed, or undone by another process."""
        async with self._lock:
            current = await self._pending.get(self.plugin.name)
            if current is None or (current.diff, current.deadline) != (waiting.diff, waiting.deadline):
                return
            if await self._pending.begin_undoing(current):
                await self._shielded(self._undone(waiting.diff.effective))
                log.warning("host_change_undone", plugin=self.plugin.name, reason="nobody confirmed it in time")


def _remembered(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> asyncio.Task[None]:
    """Begins a work that belongs to no call: at the end of a call, the programs that were started in its context are killed."""
    task = asyncio.get_running_loop().create_task(work, context=Context())
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


def _text(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__
