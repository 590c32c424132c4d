"""State plugins that break their contract, each with the promise that it breaks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tests.tools.host.shelf import Shelf
from toolcaddie.core.states import Change, State
from toolcaddie.core.tool import JsonObject


class Counting(Shelf):
    """Shows a counter."""

    counter = itertools.count()

    async def query(self) -> State:
        return {**await super().query(), "counter": {"text": str(next(self.counter))}}


class Eager(Shelf):
    """Says that a change was made, and makes none."""

    async def apply(self, changes: Sequence[Change]) -> None:
        pass


class Growing(Shelf):
    """Plans something else each time."""

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        plan = super().planned(target, desired, current)
        return plan and {"text": plan["text"] + "."}


class Trusting(Shelf):
    """Accepts any name."""

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        return desired


class Secretive(Shelf):
    """Hides what a change does."""

    def effects(self, change: Change) -> tuple[str, ...]:
        return ()


SPOILED_SHELVES: tuple[tuple[type[Shelf], str], ...] = (
    (Counting, "the state stays the same while nothing changes"),
    (Eager, "what was planned holds after it was applied"),
    (Growing, "a plan of a plan is the same plan"),
    (Trusting, "a name that means something to a program is refused"),
    (Secretive, "each change has effects of a kind and a target"),
)
