"""Checks of the whole trail, which people start in the console. A check runs aside and may take minutes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from toolcaddie.core.errors import RequestError, ToolcaddieError
from toolcaddie.doors.audit_sheets import warnings_of
from toolcaddie.storage.audits import Audits
from toolcaddie.storage.trail_pages import TrailQuery
from toolcaddie.storage.verification import Verification
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

_REST_SECONDS = 0.002
"""Seconds for which a check rests after each thousand rows, so that requests are answered meanwhile."""


class Check(Struct, frozen=True, kw_only=True):
    """A check of the trail."""

    state: Literal["running", "done", "failed"]
    by: str
    begun: float
    """Seconds since the epoch."""
    row: int = 0
    """The last row that was checked."""
    last: int = 0
    """The last row of the trail when the check began."""
    ended: float | None = None
    report: Verification | None = None
    warnings: Sequence[str] = ()
    error: str = ""

    @property
    def percent(self) -> int:
        return min(100, round(100 * self.row / self.last)) if self.last else 0


class Checks:
    """Runs one check at a time, and keeps the last one in memory. `clock`: seconds since the epoch."""

    def __init__(self, audits: Audits, *, clock: Callable[[], float] = time.time) -> None:
        self._audits = audits
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self.last: Check | None = None

    async def start(self, person: str) -> None:
        """Starts a check. Raises `RequestError` while another one runs."""
        if self.last is not None and self.last.state == "running":
            raise RequestError(f"{self.last.by} has started a check that is still running", code="approval_closed")
        check = self.last = Check(state="running", by=person, begun=self._clock())
        newest = (await self._audits.page(TrailQuery(limit=1))).rows
        self.last = replace(check, last=newest[0].id if newest else 0)
        self._task = asyncio.create_task(self._run(self.last))

    async def _run(self, check: Check) -> None:
        try:
            report = await self._audits.verify(progress=self._note)
            ended = replace(check, state="done", report=report, warnings=tuple(warnings_of(report)), row=check.last)
        except ToolcaddieError as error:
            ended = replace(check, state="failed", error=str(error))
        except BaseException as error:
            self.last = replace(check, state="failed", ended=self._clock(), error=f"it was stopped: {error!r}")
            log.error("audit_check_stopped", error=repr(error))
            raise
        self.last = replace(ended, ended=self._clock())

    def _note(self, row: int) -> None:
        """Notes in the thread of the check how far it has come."""
        if self.last is not None:
            self.last = replace(self.last, row=row)
        time.sleep(_REST_SECONDS)
