"""Leases: which processes are living, by numbers that no two processes ever share.

A process that runs something owns a row of `owners` and moves its `beat` several times within the lease's length, from a
thread of its own, so that a stalled event loop loses nothing. Whoever sees a beat stand still over `LOOKS` of its own looks
removes the row, and settles what the owner left open in the same transaction. Every write that needs the lease looks for
the row in its own transaction: a process that wakes up too late writes nothing.

No clock is compared with another one, and none of the wall is read: a look counts only after this process has written its
own beat, so a database that nobody can write takes nobody's lease.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from toolcaddie.core.errors import StorageError
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.tables import owners
from toolcaddie.storage.writer import Writer, outcome
from toolcaddie.util.log import Logger

LEASE_SECONDS = 3.0
LONGEST_LEASE = 3_600
"""A killed process's runs stand open for as long, so more is a slip of the pen."""
LOOKS = 3
"""Looks in a row at a beat that stands still, after the first, until its owner counts as gone; more where its lease is longer
than ours."""

_GLANCES = 4
"""Reads of a beat in the time between two looks, where somebody waits to know."""

log = Logger(__name__)

T = TypeVar("T")

Settle = Callable[[Connection, int], None]
"""Ends what an owner left open, in the transaction that removes its row."""

# Built once: making a statement costs more than running it. The weakest lock that a removal waits for: beats do not.
_THERE = select(owners.c.number).where(owners.c.number == bindparam("n")).with_for_update(read=True, key_share=True)
_TAKE = insert(owners).returning(owners.c.number)
_BEAT = update(owners).where(owners.c.number == bindparam("n")).values(beat=owners.c.beat + 1)
_BEATS = select(owners.c.number, owners.c.beat, owners.c.seconds)
_LABELS = select(owners.c.number, owners.c.label)
_BEAT_OF = select(owners.c.beat).where(owners.c.number == bindparam("n"))


class LeaseLostError(StorageError):
    """Another process took this one for gone: its runs are settled, and nothing of them may be written any more."""

    def __init__(self) -> None:
        super().__init__(
            "this process did not renew its lease in time and another one has settled its runs; new runs go on"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sight:
    """An owner as it was last seen, and how many looks ago its beat moved."""

    beat: int
    still: int = 0


class DatabaseLeases:
    """`ports.Leases` on the database. `alone`: no other process can reach it, so there is nobody to look at or to tell.

    `generation` counts the leases that were lost: what was begun in an earlier one may not be written.
    """

    def __init__(
        self, writer: Writer, reader: Reader, *, settle: Settle, seconds: float = LEASE_SECONDS, alone: bool = False
    ) -> None:
        self.generation = 0
        self._writer = writer
        self._reader = reader
        self._settle = settle
        self._seconds = seconds
        self._interval = seconds / LOOKS
        self._alone = alone
        self._number: int | None = None
        self._durable = False
        """The row of `_number` was committed; until then a missing row only means that it was rolled back."""
        self._sights: dict[int, _Sight] = {}
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    async def own(self) -> int:
        number = self._number
        if number is None or not self._durable:
            number = await outcome(self._submit(self.check))
        return number

    async def holds(self, number: int) -> bool:
        if number == await self.own():
            return True
        first = await self._beat_of(number)
        if self._alone or first is None:
            return False
        for _ in range(_GLANCES * 2 * LOOKS):
            await asyncio.sleep(self._interval / _GLANCES)
            if (beat := await self._beat_of(number)) != first:
                return beat is not None
        return True  # nobody could write for so long; nobody has taken it

    async def labels(self) -> Mapping[int, str]:
        """The processes that own a lease, as people know them."""
        return {row.number: row.label for row in await self._reader.all(_LABELS)}

    def check(self, connection: Connection) -> int:
        """The number that may write in this transaction; a new one where there is none, or none any more. In the writer's
        thread."""
        number = self._number
        if number is not None:
            if _is_there(connection, number):
                return number
            if self._durable:
                self._lost()
        row = {"beat": 0, "seconds": self._seconds, "label": _label(), "started": time.time()}
        self._number = connection.execute(_TAKE, row).scalar_one()
        return self._number

    def require(self, connection: Connection, number: int) -> None:
        """Raise `LeaseLostError` unless that number may write in this transaction. In the writer's thread."""
        if _is_there(connection, number):
            return
        if self._durable and number == self._number:
            self._lost()
        raise LeaseLostError

    def committed(self) -> None:
        """A transaction in which `check` passed is on disk. In the writer's thread, before its next group."""
        if self._number is None or self._durable:
            return
        self._durable = True
        if self._thread is None and not self._alone:
            self._thread = threading.Thread(target=self._keep, name="toolcaddie-lease", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Give the lease up, so that whoever comes next need not wait. Blocks; calling it again does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._number is not None and self._durable:
            self._writer.submit(partial(self._remove, number=self._number)).exception()

    # --- in the thread that renews -----------------------------------------------------------------------------------

    def _keep(self) -> None:
        while True:
            try:
                self._look()
            except StorageError as error:
                log.warning("lease_not_renewed", error=str(error))
            except Exception:  # the outermost frame of the thread, which must go on whatever somebody left behind
                log.exception("sweep_failed")
            if self._closing.wait(self._interval):
                return

    def _look(self) -> None:
        """Renew, look at the others, and settle what those left who are gone."""
        beats = self._submit(self._renew).result()
        for number, beat in self._gone(beats):
            if self._writer.submit(partial(self._remove, number=number, beat=beat)).result():
                log.warning("abandoned_runs_settled", owner=number)

    def _gone(self, beats: Iterable[tuple[int, int, float]]) -> Sequence[tuple[int, int]]:
        """The owners whose beat has not moved for so many looks that they are gone, each with that beat."""
        sights: dict[int, _Sight] = {}
        gone = []
        for number, beat, seconds in beats:
            before = self._sights.get(number)
            still = 0 if before is None or before.beat != beat else before.still + 1
            sights[number] = _Sight(beat=beat, still=still)
            if still >= max(LOOKS, seconds / self._interval):
                gone.append((number, beat))
        self._sights = sights
        return gone

    # --- in the writer's thread --------------------------------------------------------------------------------------

    def _renew(self, connection: Connection) -> Sequence[tuple[int, int, float]]:
        own = self.check(connection)
        connection.execute(_BEAT, {"n": own})
        return [(row.number, row.beat, row.seconds) for row in connection.execute(_BEATS) if row.number != own]

    def _remove(self, connection: Connection, *, number: int, beat: int | None = None) -> bool:
        """Take a number out and settle what it left. False: somebody else did, or it has moved."""
        same = owners.c.number == number
        if beat is not None:
            same &= owners.c.beat == beat
        if not connection.execute(delete(owners).where(same)).rowcount:
            return False
        self._settle(connection, number)
        return True

    def _lost(self) -> None:
        self._number, self._durable = None, False
        self.generation += 1
        log.warning("lease_lost")

    # -----------------------------------------------------------------------------------------------------------------

    def _submit(self, work: Callable[[Connection], T]) -> Future[T]:
        """Work that passes `check`."""
        done = self._writer.submit(work)
        done.add_done_callback(lambda done: self.committed() if done.exception() is None else None)
        return done

    async def _beat_of(self, number: int) -> int | None:
        rows = await self._reader.all(_BEAT_OF, n=number)
        return rows[0].beat if rows else None


def _is_there(connection: Connection, number: int) -> bool:
    if connection.dialect.name == "sqlite":  # it has no row locks, and by its driver alone this costs a tenth
        driver: Any = connection.connection.driver_connection
        return driver.execute("SELECT 1 FROM owners WHERE number = ?", (number,)).fetchone() is not None
    return connection.execute(_THERE, {"n": number}).first() is not None


def _label() -> str:
    """The process, for people."""
    return f"{socket.gethostname()[:200]} process {os.getpid()}"
