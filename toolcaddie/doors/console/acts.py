"""Records what people do in the console in the trail: who did what, with which fields, and how it ended.

Each act has a row before it is done, so nothing happens unrecorded, and one after it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from toolcaddie.core.storage import EventRecord
from toolcaddie.doors.console.forms import TOKEN
from toolcaddie.doors.console.requests import Visit
from toolcaddie.ports import EventLog

BEGUN = "console_act"
ENDED = "console_act_ended"

_SECRET_FIELDS = frozenset({TOKEN, "key"})
_LONGEST_VALUE = 2_000


class Acts:
    """The acts of people. `clock`: seconds since the epoch."""

    def __init__(self, log: EventLog, *, clock: Callable[[], float] = time.time) -> None:
        self._log = log
        self._clock = clock

    async def begin(self, visit: Visit) -> str:
        """Records that a person is about to do something, and returns its id when that is on disk. Raises `AuditError`."""
        act_id = f"act_{secrets.token_hex(12)}"
        fields = {name: value[:_LONGEST_VALUE] for name, value in visit.form.items() if name not in _SECRET_FIELDS}
        person = visit.person
        await self._write(
            act_id,
            BEGUN,
            {
                "path": visit.request.path[:_LONGEST_VALUE],
                "fields": fields,
                "principal": person.id,
                "tenant": person.tenant,
                "role": person.role,
                "client": visit.request.client,
            },
        )
        return act_id

    async def end(self, act_id: str, *, status: int, error: str = "") -> None:
        """Records how an act ended. `status`: that of the answer to the browser."""
        await self._write(act_id, ENDED, {"status": status, "error": error[:_LONGEST_VALUE]})

    async def _write(self, act_id: str, kind: str, data: Mapping[str, Any]) -> None:
        seq = 0 if kind == BEGUN else 1
        self._log.append(EventRecord(run_id=act_id, seq=seq, at=self._clock(), kind=kind, data=data))
        await self._log.flush(act_id)
