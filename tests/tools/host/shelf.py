"""A state plugin over a folder of real files, which can be told to fail, and a host with it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcaddie import Runtime
from toolcaddie.core.approval import Approval
from toolcaddie.core.errors import HostError, RequestError
from toolcaddie.core.states import BackEnd, Change, State
from toolcaddie.core.tool import JsonObject, ToolResult
from toolcaddie.parts import Parts
from toolcaddie.ports import Approver, Store
from toolcaddie.registry import Registry
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider
from toolcaddie.tools.host import HostSource

_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")


ATTRIBUTES: JsonObject = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 200}},
    "required": ["text"],
    "additionalProperties": False,
}


class Shelf:
    """Texts in files. `fails_at`: names at which `apply` fails, after the changes before them."""

    name = "shelf"
    description = "Texts on a shelf: text."
    attributes = ATTRIBUTES

    def __init__(self, folder: Path, *, may_lock_out: bool = False) -> None:
        self.folder = folder
        self.may_lock_out = may_lock_out
        self.fails_at: set[str] = set()
        self.forgets = False
        """True: `apply` does nothing, and says nothing."""

    async def query(self) -> State:
        if not self.folder.is_dir():
            raise HostError(f"there is no shelf at {self.folder.name}; make the folder")
        return {path.stem: {"text": path.read_text()} for path in self.folder.glob("*.txt")}

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        if not _NAME.fullmatch(target):
            raise RequestError(f"{target[:40]!r} is no name on a shelf")
        return desired

    def effects(self, change: Change) -> tuple[str, ...]:
        return (f"shelf.{change.action} {change.target}",)

    def question(self, change: Change) -> str:
        return "touches the crown" if change.target == "crown" else ""

    async def apply(self, changes: Sequence[Change]) -> None:
        for change in [] if self.forgets else changes:
            if change.target in self.fails_at:
                self.fails_at.discard(change.target)
                raise HostError(f"the shelf does not hold {change.target}")
            path = self.folder / f"{change.target}.txt"
            if change.after is None:
                path.unlink()
            else:
                path.write_text(change.after["text"])

    async def back_ends(self) -> Sequence[BackEnd]:
        return [BackEnd(name="shelf", present=self.folder.is_dir(), detail=str(self.folder), remedy="make the folder")]

    async def close(self) -> None:
        pass


@dataclass(slots=True)
class Person:
    """Whoever is asked; says yes unless told otherwise."""

    agrees: bool = True
    questions: list[Approval] = field(default_factory=list)

    async def approve(self, approval: Approval) -> bool:
        self.questions.append(approval)
        return self.agrees


@dataclass(slots=True, kw_only=True)
class House:
    """A runtime whose host has a shelf."""

    runtime: Runtime
    shelf: Shelf

    async def call(self, step: str, **arguments: Any) -> ToolResult:
        return await self.runtime.call(f"plugin_shelf_{step}", arguments)

    async def difference(self, desired: Any) -> Any:
        return (await self.call("diff", desired_state=desired)).structured

    async def texts(self) -> dict[str, str]:
        state = (await self.call("query")).structured["state"]
        return {name: thing["text"] for name, thing in state.items()}


def shelf_source(shelf: Shelf, parts: Parts | None = None, *, confirm_seconds: float = 60.0) -> HostSource:
    """Returns the source `host` that has a shelf and nothing else."""
    registry = Registry()
    registry.add("state", "shelf", lambda: shelf)
    settings = {"groups": ["plugins"], "plugins": ["shelf"], "confirm_seconds": confirm_seconds}
    source: HostSource = registry.make("source", "host", settings, parts or Parts(store=MemoryStore()))
    return source


@asynccontextmanager
async def house(
    shelf: Shelf,
    store: Store,
    *,
    confirm_seconds: float = 60.0,
    clock: Callable[[], float] | None = None,
    approver: Approver | None = None,
) -> AsyncIterator[House]:
    parts = Parts(store=store) if clock is None else Parts(store=store, clock=clock)
    source = shelf_source(shelf, parts, confirm_seconds=confirm_seconds)
    async with Runtime(provider=ScriptedProvider([]), sources=[source], approver=approver or Person()) as runtime:
        yield House(runtime=runtime, shelf=shelf)


async def until(holds: Callable[[], bool]) -> None:
    """Waits until something holds that has no event."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  files have no event
            await asyncio.sleep(0.005)
