"""Calls that people make in the console, to try a tool. A call passes every gate that a model's call passes; its result is stored
for a while, for the person alone, so that showing it again does not call the tool again."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from toolcaddie.core.content import shown_text
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.events import RunEvent, RunPaused, RunStarted
from toolcaddie.core.tool import ToolResult
from toolcaddie.desk import ToolDesk
from toolcaddie.ports import Store

_KIND = "console-try"
_SECONDS = 3_600.0
_LONGEST = 100_000
"""The largest number of characters of a result that is stored."""

Outcome = Literal["done", "failed", "waits"]


class Try(Struct, frozen=True, kw_only=True):
    """A call and its result."""

    id: str
    tool: str
    bot: str = ""
    """The bot in whose name the call was made; empty: the person's own, or none."""
    arguments: dict[str, Any] = {}
    outcome: Outcome
    """`waits`: a person must answer first."""
    error: str = ""
    """The kind of the error; empty: there was none."""
    text: str = ""
    """The result, or the reason why there is none."""
    run: str = ""
    approvals: tuple[str, ...] = ()
    """The questions for whose answers the call waits."""
    seconds: float = 0.0
    at: float


class Tries:
    """Makes and stores such calls. `clock`: seconds since the epoch."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def make(self, desk: ToolDesk, name: str, arguments: Mapping[str, Any], *, bot: str = "") -> Try:
        """Calls a tool, and stores the result. Raises `RequestError` if the caller may see no such tool."""
        tool = desk.tool(name)
        events = _Events()
        begun = self._clock()
        result = await desk.call(tool.name, arguments, live=events.take)
        made = Try(
            id=f"try_{secrets.token_hex(12)}",
            tool=tool.name,
            bot=bot,
            arguments=dict(arguments),
            outcome="waits" if events.approvals else "failed" if result.is_error else "done",
            error=result.error or "" if result.is_error else "",
            text=_text(result),
            run=events.run,
            approvals=events.approvals,
            seconds=round(max(0.0, self._clock() - begun), 3),
            at=begun,
        )
        await self._store.put(_KIND, _key(desk.request.principal, made.id), msgspec.json.encode(made), ttl=_SECONDS)
        return made

    async def find(self, person: Principal, try_id: str) -> Try:
        """Returns a call of a person. Raises `RequestError` if there is none."""
        document = await self._store.get(_KIND, _key(person, try_id))
        if document is None:
            raise RequestError("This result is no longer stored; try the tool again.", code="unknown_page")
        return msgspec.json.decode(document, type=Try)


class _Events:
    """Collects from the events of a call what its result does not say."""

    def __init__(self) -> None:
        self.run = ""
        self.approvals: tuple[str, ...] = ()

    async def take(self, event: RunEvent) -> None:
        match event:
            case RunStarted():
                self.run = event.run_id
            case RunPaused():
                self.approvals = tuple(each.approval for each in event.state.pending if each.approval)


def _text(result: ToolResult) -> str:
    text = shown_text(result.content)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n[the first {_LONGEST:,} of {len(text):,} characters]"


def _key(person: Principal, try_id: str) -> str:
    owner = "\0".join(person.owner)
    return f"{hashlib.sha256(owner.encode()).hexdigest()}/{hashlib.sha256(try_id.encode()).hexdigest()}"
