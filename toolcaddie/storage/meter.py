"""Counts what API keys use: the requests, tokens and money of their windows, and their use by day and model.

A window is one row, to which every process adds. Adding returns the sums, and the row stays locked until the end of the
transaction, so two processes never both see the last free place. What exceeds a limit is subtracted again at once.

Commits do not wait for the disk (see `Database`): a process that is killed loses no counts, a power cut may lose the last ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from sqlalchemy import Connection, bindparam, delete, select, update

from toolcaddie.core.errors import StorageError
from toolcaddie.core.key_limits import (
    COUNTED,
    SPANS,
    Admission,
    Allowance,
    Amounts,
    KeyLimits,
    KeyUsage,
    Reservation,
    Span,
)
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.tables import key_usage, key_windows
from toolcaddie.storage.upsert import add_to_row
from toolcaddie.storage.writer import Writer, outcome
from toolcaddie.util.log import Logger

log = Logger(__name__)

_FLUSH_SECONDS = 1.0
"""Longest time for which recorded use waits in memory."""
_KEPT_SECONDS: Mapping[Span, int] = {"minute": 3_600, "day": 7 * 86_400}
"""Age at which the row of a window is removed. A request that takes longer is settled in its usage only."""

_ONE = (
    (key_windows.c.key_id == bindparam("a_key"))
    & (key_windows.c.span == bindparam("a_span"))
    & (key_windows.c.start == bindparam("a_start"))
)
_ADD = (
    update(key_windows)
    .where(_ONE)
    .values(
        requests=key_windows.c.requests + bindparam("more_requests"),
        tokens=key_windows.c.tokens + bindparam("more_tokens"),
        money=key_windows.c.money + bindparam("more_money"),
    )
)
_REMOVE = delete(key_windows).where(
    key_windows.c.key_id == bindparam("a_key"),
    key_windows.c.span == bindparam("a_span"),
    key_windows.c.start < bindparam("before"),
)


class Meter:
    """Implements `ports.KeyMeter` on the database. `clock` returns seconds since the epoch."""

    def __init__(self, writer: Writer, reader: Reader, *, clock: Callable[[], float] = time.time) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._recorded: dict[tuple[str, str, str], KeyUsage] = {}
        """Use that is not written yet, by key, day and model."""
        self._timer: asyncio.TimerHandle | None = None

    async def reserve(self, key_id: str, amounts: Amounts, limits: KeyLimits) -> Admission:
        """Counts the amounts in the present windows, if no limit is exceeded by them. Raises `StorageError`."""
        now = self._clock()
        amounts = amounts.within(limits)
        return await outcome(self._writer.submit(lambda connection: _reserve(connection, key_id, amounts, limits, now)))

    def settle(self, reservation: Reservation, used: Amounts) -> None:
        """Replaces reserved amounts by those that were used."""
        difference = used - reservation.amounts
        if difference != Amounts():
            self._writer.submit(lambda connection: _add(connection, reservation, difference), urgent=False)

    def record(self, usage: KeyUsage) -> None:
        """Adds to the use of a key. It is written in a second, together with that of other requests, because most gateways have
        keys without limits, whose requests should not write at all."""
        at = (usage.key_id, usage.day, usage.model)
        before = self._recorded.get(at)
        self._recorded[at] = usage if before is None else _sum(before, usage)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self._flush)

    async def usage(self, *, first: str, last: str, key_id: str | None = None) -> Sequence[KeyUsage]:
        """Returns the use from one day to another, by day, key and model. Raises `StorageError`."""
        columns = key_usage.c
        statement = select(key_usage).where(columns.day >= first, columns.day <= last)
        if key_id is not None:
            statement = statement.where(columns.key_id == key_id)
        rows = await self._reader.all(statement.order_by(columns.day, columns.key_id, columns.model))
        return [KeyUsage(**row._mapping) for row in rows]

    async def close(self) -> None:
        """Writes what is recorded."""
        if self._recorded:
            self._flush()

    def _flush(self) -> None:
        """Starts to write what is recorded."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        # In the order of keys, so that two processes lock rows in the same order.
        rows = [asdict(self._recorded[at]) for at in sorted(self._recorded)]
        self._recorded = {}
        try:
            done = self._writer.submit(lambda connection: _add_usage(connection, rows), urgent=False)
        except StorageError as error:
            log.error("key_usage_lost", error=str(error))
            return
        done.add_done_callback(
            lambda done: log.error("key_usage_lost", error=str(done.exception())) if done.exception() else None
        )


def day_of(moment: float) -> str:
    """Returns the day (UTC) of a moment in seconds since the epoch."""
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


def _reserve(connection: Connection, key_id: str, amounts: Amounts, limits: KeyLimits, now: float) -> Admission:
    """Adds the amounts to the windows of `now`, and subtracts them again if a limit is exceeded."""
    counted = asdict(amounts)
    windows: dict[Span, int] = {}
    allowances: list[Allowance] = []
    for span, seconds in SPANS.items():  # always in this order, so that two processes lock rows in the same order
        spans_limits = [(name, limit) for name in COUNTED if (limit := limits.of(name, span)) is not None]
        if not spans_limits:
            continue
        start = windows[span] = int(now // seconds) * seconds
        row = add_to_row(connection, key_windows, {"key_id": key_id, "span": span, "start": start, **counted})
        if row.requests == amounts.requests:
            _forget_old(connection, key_id, span, start)
        sums = Amounts(requests=row.requests, tokens=row.tokens, money=row.money)
        allowances += [
            Allowance(counted=name, span=span, limit=limit, used=sums.of(name), resets=start + seconds)
            for name, limit in spans_limits
        ]
    reservation = Reservation(key_id=key_id, amounts=amounts, windows=windows)
    exceeded = tuple(allowance for allowance in allowances if allowance.used > allowance.limit)
    if not exceeded:
        return Admission(allowances=tuple(allowances), reservation=reservation)
    _add(connection, reservation, Amounts() - amounts)
    before = tuple(
        Allowance(
            counted=each.counted,
            span=each.span,
            limit=each.limit,
            used=each.used - amounts.of(each.counted),
            resets=each.resets,
        )
        for each in allowances
    )
    names = {(each.counted, each.span) for each in exceeded}
    return Admission(allowances=before, exceeded=tuple(each for each in before if (each.counted, each.span) in names))


def _add(connection: Connection, reservation: Reservation, amounts: Amounts) -> None:
    """Adds amounts, which may be negative, to the windows of a reservation."""
    for span, start in reservation.windows.items():
        connection.execute(
            _ADD,
            {
                "a_key": reservation.key_id,
                "a_span": span,
                "a_start": start,
                **{f"more_{name}": number for name, number in asdict(amounts).items()},
            },
        )


def _forget_old(connection: Connection, key_id: str, span: Span, start: int) -> None:
    """Removes windows that nothing counts in any more."""
    connection.execute(_REMOVE, {"a_key": key_id, "a_span": span, "before": start - _KEPT_SECONDS[span]})


def _add_usage(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    for row in rows:
        add_to_row(connection, key_usage, row)


def _sum(first: KeyUsage, second: KeyUsage) -> KeyUsage:
    return KeyUsage(
        key_id=first.key_id,
        day=first.day,
        model=first.model,
        requests=first.requests + second.requests,
        input_tokens=first.input_tokens + second.input_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        cached_tokens=first.cached_tokens + second.cached_tokens,
        money=first.money + second.money,
        unpriced=first.unpriced + second.unpriced,
        estimated=first.estimated + second.estimated,
    )
