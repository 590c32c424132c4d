"""The book of calls, in the store: a row for each call, written before anybody is rung, and the counts of each day.

A telephone service has no key by which it recognises a request that it has received already. So the row is what keeps a call from
being made twice: it says `unknown` until the service has answered, and whoever comes with the same key later finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from toolcaddie.core.errors import StorageError
from toolcaddie.core.schema import digest
from toolcaddie.ports import CallReport, Store
from toolcaddie.tools.phone.settings import CallLimits

_ROWS, _DAYS = "phone-call", "phone-day"
_ROW_SECONDS = 90 * 86_400.0
_DAY_SECONDS = 3 * 86_400.0
_TRIES = 50
"""The largest number of times that a change is repeated because another call changed the document meanwhile."""


class CallRow(Struct, frozen=True, kw_only=True):
    """A call."""

    order: str
    """Digest of number, message and number of repetitions."""
    status: Literal["unknown", "placed", "refused"] = "unknown"
    """`unknown`: the service was asked, or was about to be, and has not answered."""
    reason: str = ""
    """Why it was refused."""
    id: str = ""
    """The service's own id."""
    report: str = ""
    """What the service has reported last, such as `completed`."""
    is_over: bool = False
    seconds: int | None = None


class DayCount(Struct, frozen=True, kw_only=True):
    """What was used of a day."""

    bots: dict[str, int] = {}
    """Calls by the key of a bot."""
    numbers: dict[str, int] = {}
    """Calls by the digest of a number."""
    dollars: float = 0.0


class CallBook:
    """Reads and writes the rows and counts, together with all processes that use the same store."""

    def __init__(self, store: Store, limits: CallLimits) -> None:
        self._store = store
        self._limits = limits

    async def begin(self, key: str, order: str) -> CallRow | None:
        """Writes the row of a call. Returns the row that is there already; None: there was none, and the call may be made."""
        row = msgspec.json.encode(CallRow(order=order))
        if await self._store.compare_and_set(_ROWS, key, row, expected=None, ttl=_ROW_SECONDS):
            return None
        earlier = await self._row(key)
        if earlier is None:
            raise StorageError("the row of this call has just disappeared; it is not known whether the call was made")
        return earlier

    async def refused(self, key: str, reason: str) -> None:
        """Notes that the call was certainly not made."""
        await self._change_row(key, lambda row: msgspec.structs.replace(row, status="refused", reason=reason))

    async def placed(self, key: str, call_id: str) -> None:
        """Notes that the service has taken on the call."""
        await self._change_row(key, lambda row: msgspec.structs.replace(row, status="placed", id=call_id))

    async def reported(self, key: str, report: CallReport) -> bool:
        """Notes what the service says of a call. Its last word counts, whatever comes late. Returns False if there is no row, or
        it is about another call."""
        row = await self._row(key)
        if row is None or (row.id and row.id != report.id):
            return False

        def changed(row: CallRow) -> CallRow:
            if row.is_over:
                return row
            values = {"report": report.status, "is_over": report.is_final, "seconds": report.seconds}
            return msgspec.structs.replace(row, status="placed", id=report.id, **values)

        await self._change_row(key, changed)
        return True

    async def count(self, day: str, bot: str, number: str) -> str:
        """Counts a call. Returns the limit that it would exceed, and then counts nothing; empty: none."""
        limits, called = self._limits, digest(number)
        for _ in range(_TRIES):
            before, held = await self._day(day)
            if held.bots.get(bot, 0) >= limits.calls_per_day:
                return f"this bot may make {limits.calls_per_day} calls in a day, and has made them"
            if held.numbers.get(called, 0) >= limits.calls_per_number:
                return f"the same number may be called {limits.calls_per_number} times in a day, and has been"
            if held.dollars + limits.dollars_per_call > limits.dollars_per_day:
                return f"calls may cost ${limits.dollars_per_day:.2f} in a day, and this one could exceed that"
            if await self._count(day, before, _added(held, bot, called, 1, limits.dollars_per_call)):
                return ""
        raise StorageError("calls are counted by others all the time; try again")

    async def uncount(self, day: str, bot: str, number: str) -> None:
        """Takes back a counted call that was certainly not made."""
        for _ in range(_TRIES):
            before, held = await self._day(day)
            if await self._count(day, before, _added(held, bot, digest(number), -1, -self._limits.dollars_per_call)):
                return

    async def _row(self, key: str) -> CallRow | None:
        value = await self._store.get(_ROWS, key)
        return None if value is None else msgspec.json.decode(value, type=CallRow)

    async def _change_row(self, key: str, changed: Callable[[CallRow], CallRow]) -> None:
        for _ in range(_TRIES):
            before = await self._store.get(_ROWS, key)
            if before is None:
                return
            value = msgspec.json.encode(changed(msgspec.json.decode(before, type=CallRow)))
            if await self._store.compare_and_set(_ROWS, key, value, expected=before, ttl=_ROW_SECONDS):
                return

    async def _day(self, day: str) -> tuple[bytes | None, DayCount]:
        value = await self._store.get(_DAYS, day)
        return value, DayCount() if value is None else msgspec.json.decode(value, type=DayCount)

    async def _count(self, day: str, before: bytes | None, count: DayCount) -> bool:
        value = msgspec.json.encode(count)
        return await self._store.compare_and_set(_DAYS, day, value, expected=before, ttl=_DAY_SECONDS)


def _added(count: DayCount, bot: str, number: str, calls: int, dollars: float) -> DayCount:
    return DayCount(
        bots={**count.bots, bot: max(0, count.bots.get(bot, 0) + calls)},
        numbers={**count.numbers, number: max(0, count.numbers.get(number, 0) + calls)},
        dollars=max(0.0, round(count.dollars + dollars, 6)),
    )
