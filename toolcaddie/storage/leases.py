"""Leases of living processes, under numbers that no two processes ever share.

A process that runs something owns a row of `owners` and moves its `beat` several times within the lease's length, from a
thread of its own, so that a stalled event loop loses nothing. A process that sees a beat stand still over `LOOKS` of its
own looks removes the row and settles the owner's open runs in the same transaction. Every write that needs the lease
looks for the row in its own transaction: a process that wakes up too late writes nothing.

Clocks of two processes are never compared, and no wall clock is read: a look counts only after this process has written
its own beat, so no lease is lost while the database cannot be written.
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
"""Seconds. A killed process's runs stay open as long as its lease, so more must be a mistake."""
LOOKS = 3
"""Looks in a row, after the first, at a beat that stands still until its owner counts as dead; more if its lease is
longer than ours."""

_GLANCES = 4
"""Reads of a beat between two looks while a caller waits for the result."""

log = Logger(__name__)

T = TypeVar("T")

Settle = Callable[[Connection, int], None]
"""Ends an owner's open runs in the transaction that removes its row."""

# Built once: making a statement costs more than running it. The weakest lock that a removal waits for: beats do not.
_EXISTS = select(owners.c.number).where(owners.c.number == bindparam("n")).with_for_update(read=True, key_share=True)
_TAKE = insert(owners).returning(owners.c.number)
_BEAT = update(owners).where(owners.c.number == bindparam("n")).values(beat=owners.c.beat + 1)
_BEATS = select(owners.c.number, owners.c.beat, owners.c.seconds)
_LABELS = select(owners.c.number, owners.c.label)
_BEAT_OF = select(owners.c.beat).where(owners.c.number == bindparam("n"))


class LeaseLostError(StorageError):
    """Another process counted this one as dead and settled its runs, so nothing more of them may be written."""

    def __init__(self) -> None:
        super().__init__(
            "this process did not renew its lease in time and another one has settled its runs; new runs go on"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sight:
    """An owner's beat at the last look, and the number of looks since it moved."""

    beat: int
    still: int = 0


class DatabaseLeases:
    """Implements `ports.Leases` on the database. `alone`: no other process can reach it, so there are no others to watch.

    `generation` counts lost leases: a run that began in an earlier one must not be written.
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
        """True once the row of `_number` is committed; until then a missing row only means that it was rolled back."""
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
        return True  # no process could write for so long, so none has taken it

    async def labels(self) -> Mapping[int, str]:
        """Returns the processes that own a lease, by number, as people know them."""
        return {row.number: row.label for row in await self._reader.all(_LABELS)}

    def check(self, connection: Connection) -> int:
        """Returns the number that may write in this transaction, a new one if there is none or it is lost.

        Runs in the writer's thread.
        """
        number = self._number
        if number is not None:
            if _exists(connection, number):
                return number
            if self._durable:
                self._lost()
        row = {"beat": 0, "seconds": self._seconds, "label": _label(), "started": time.time()}
        self._number = connection.execute(_TAKE, row).scalar_one()
        return self._number

    def require(self, connection: Connection, number: int) -> None:
        """Raises `LeaseLostError` unless that number may write in this transaction. Runs in the writer's thread."""
        if _exists(connection, number):
            return
        if self._durable and number == self._number:
            self._lost()
        raise LeaseLostError

    def committed(self) -> None:
        """Notes that a transaction in which `check` passed is on disk. Runs in the writer's thread, previous its next group."""
        if self._number is None or self._durable:
            return
        self._durable = True
        if self._thread is None and not self._alone:
            self._thread = threading.Thread(target=self._renew_until_closed, name="toolcaddie-lease", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Gives up the lease, so that the next process need not wait. Blocks; repeating it does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._number is not None and self._durable:
            self._writer.submit(partial(self._remove, number=self._number)).exception()

    # --- in the thread that renews -----------------------------------------------------------------------------------

    def _renew_until_closed(self) -> None:
        while True:
            try:
                self._look()
            except StorageError as error:
                log.warning("lease_not_renewed", error=str(error))
            except Exception:  # the outermost frame of the thread, which must outlive any failure
                log.exception("sweep_failed")
            if self._closing.wait(self._interval):
                return

    def _look(self) -> None:
        """Renews the lease, looks at the other owners and settles the runs of dead ones."""
        beats = self._submit(self._renew).result()
        for number, beat in self._dead_owners(beats):
            if self._writer.submit(partial(self._remove, number=number, beat=beat)).result():
                log.warning("abandoned_runs_settled", owner=number)

    def _dead_owners(self, beats: Iterable[tuple[int, int, float]]) -> Sequence[tuple[int, int]]:
        """Returns the owners whose beat has stood still for too many looks, each with that beat."""
        sights: dict[int, _Sight] = {}
        dead = []
        for number, beat, seconds in beats:
            previous = self._sights.get(number)
            still = 0 if previous is None or previous.beat != beat else previous.still + 1
            sights[number] = _Sight(beat=beat, still=still)
            if still >= max(LOOKS, seconds / self._interval):
                dead.append((number, beat))
        self._sights = sights
        return dead

    # --- in the writer's thread --------------------------------------------------------------------------------------

    def _renew(self, connection: Connection) -> Sequence[tuple[int, int, float]]:
        number = self.check(connection)
        connection.execute(_BEAT, {"n": number})
        return [(row.number, row.beat, row.seconds) for row in connection.execute(_BEATS) if row.number != number]

    def _remove(self, connection: Connection, *, number: int, beat: int | None = None) -> bool:
        """Removes an owner and settles its open runs. False: another process did, or its beat has moved."""
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
        """Submits work that passes `check`."""
        done = self._writer.submit(work)
        done.add_done_callback(lambda done: self.committed() if done.exception() is None else None)
        return done

    async def _beat_of(self, number: int) -> int | None:
        rows = await self._reader.all(_BEAT_OF, n=number)
        return rows[0].beat if rows else None


def _exists(connection: Connection, number: int) -> bool:
    if connection.dialect.name == "sqlite":  # without row locks; through the driver alone this costs a tenth
        driver: Any = connection.connection.driver_connection
        return driver.execute("SELECT 1 FROM owners WHERE number = ?", (number,)).fetchone() is not None
    return connection.execute(_EXISTS, {"n": number}).first() is not None


def _label() -> str:
    """Returns a text that lets people recognise this process."""
    return f"{socket.gethostname()[:200]} process {os.getpid()}"
