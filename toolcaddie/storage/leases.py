"""Leases: a process that continues runs shows through the database that it is alive.

Such a process is an owner: it has a row in the table `owners`, under a number that no other process ever gets. A thread of
its own raises the row's `beat` several times within the length of the lease, so that a stalled event loop does not lose the
lease. The same thread reads the beats of all other owners; one such reading is a look. If a beat has not changed for `LOOKS`
looks, its owner counts as dead: this process removes the owner's row and, in the same transaction, settles the owner's open
runs (they become paused or failed). Every write that needs a lease checks in its own transaction that the row exists, so a
process that wakes up too late writes nothing.

Clocks of two processes are never compared, and no decision depends on a wall clock. A look counts only after this process
has written its own beat, so no lease is lost while the database cannot be written.
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

from sqlalchemy import Connection, bindparam, delete, insert, select, text, update

from toolcaddie.core.errors import StorageError
from toolcaddie.ports import StorageWatch
from toolcaddie.storage.marks import LEAVE_MARK, due_mark
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.tables import owners, runs
from toolcaddie.storage.watch import UNWATCHED
from toolcaddie.storage.writer import Writer, outcome
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

LEASE_SECONDS = 3.0
"""Default length of a lease in seconds."""
LONGEST_LEASE = 3_600
"""Largest length of a lease in seconds. The runs of a killed process stay open for as long, so more must be a mistake."""
LOOKS = 3
"""Number of consecutive looks, after the first one, that must read the same beat until its owner counts as dead. An owner
whose lease is longer than that of this process gets more looks."""

_GLANCES = 4
"""Number of reads of a beat in the time between two looks, while a caller of `holds` waits for the result."""

log = Logger(__name__)

T = TypeVar("T")

Settle = Callable[[Connection, int], None]
"""Ends an owner's open runs in the transaction that removes its row."""

# The statements are built once, because building one costs more than running it. `_EXISTS` takes the weakest lock that
# makes a removal of the row wait; a change of the beat does not wait for it.
_EXISTS = select(owners.c.number).where(owners.c.number == bindparam("n")).with_for_update(read=True, key_share=True)
_EXISTS_WITH_MARK = text(f"WITH mark AS ({LEAVE_MARK}) SELECT number FROM owners WHERE number = :n FOR KEY SHARE")
_TAKE = insert(owners).returning(owners.c.number)
_BEAT = update(owners).where(owners.c.number == bindparam("n")).values(beat=owners.c.beat + 1)
_BEATS = select(owners.c.number, owners.c.beat, owners.c.seconds)
_LABELS = select(owners.c.number, owners.c.label)
_OWNERS = (
    select(owners.c.number, owners.c.label, owners.c.started, owners.c.seconds).order_by(owners.c.number).limit(200)
)
_BEAT_OF = select(owners.c.beat).where(owners.c.number == bindparam("n"))
_WITH_RUNS = select(owners.c.number).where(owners.c.number.in_(select(runs.c.owner).where(runs.c.owner.is_not(None))))


class LeaseLostError(StorageError):
    """Another process counted this one as dead and settled its runs, so nothing more of them may be written."""

    def __init__(self) -> None:
        super().__init__(
            "this process did not renew its lease in time, so another process has settled its runs; new runs can start"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process with a lease."""

    number: int
    label: str
    """A text by which people recognise the process."""
    started: float
    """Seconds since the epoch, by the clock of that process."""
    seconds: float
    """Length of its lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sight:
    """An owner's beat at the last look, and the number of looks since the beat changed."""

    beat: int
    since: float
    """The moment at which this process first read this beat (steady)."""
    still: int = 0


class DatabaseLeases:
    """Takes and renews the lease of this process, and settles the runs of processes that no longer renew theirs.

    `DatabaseStore` offers `own` and `holds` as `lease` and `holds` of `ports.Store`.

    `settle` ends the open runs of a dead owner. `seconds` is the length of the lease. `alone`: no other process can reach the
    database, so no thread renews the lease or watches others. `steady` returns seconds that never go back. `watch`
    hears of a lost lease.

    `generation` counts the leases that this process has lost. Nothing may be written for a run that began under an earlier
    generation.
    """

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        *,
        settle: Settle,
        seconds: float = LEASE_SECONDS,
        alone: bool = False,
        steady: Callable[[], float] = time.monotonic,
        watch: StorageWatch = UNWATCHED,
    ) -> None:
        self.generation = 0
        self._writer = writer
        self._reader = reader
        self._settle = settle
        self._seconds = seconds
        self._interval = seconds / LOOKS
        self._alone = alone
        self._steady = steady
        self._beaten_at = 0.0
        """The moment of the last beat that is on disk (steady)."""
        self._beating_at: float | None = None
        """The moment of a beat that is not on disk yet."""
        self._watch = watch
        self._number: int | None = None
        self._durable = False
        """True once the row of `_number` is committed. Until then, a missing row only means that it was rolled back."""
        self._looked: tuple[object, int] | None = None
        """The transaction that has found the row of a number most recently."""
        self._sights: dict[int, _Sight] = {}
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    async def own(self) -> int:
        number = self._number
        if number is None or not self._durable:
            number = await outcome(self._submit(self.check))
        return number

    async def holds(self, number: int) -> bool:
        """Returns True if the process with this number is alive. If it is another process, this waits until its beat changes, its
        row is gone, or the time in which it would have been counted as dead is over."""
        if number == await self.own():
            return True
        first = await self._beat_of(number)
        if self._alone or first is None:
            return False
        for _ in range(_GLANCES * 2 * LOOKS):
            await asyncio.sleep(self._interval / _GLANCES)
            if (beat := await self._beat_of(number)) != first:
                return beat is not None
        return True  # in all this time no process could write, so none has removed the owner

    def is_fresh(self) -> bool:
        """Returns False if this process was stopped for so long that another one may count it as dead since its last beat."""
        return self._alone or self._steady() - self._beaten_at < self._seconds

    async def settle_dead(self) -> None:
        """Waits until each process with open runs has shown that it is alive, or counts as dead and its runs are settled.

        It lasts no longer than a third of a lease if all of them are alive, the length of a lease if one is dead, and no time if
        no other process has open runs.
        """
        others = [row.number for row in await self._reader.all(_WITH_RUNS) if row.number != self._number]
        await asyncio.gather(*(self.holds(number) for number in others))

    async def labels(self) -> Mapping[int, str]:
        """Returns a text by which people recognise each process with a lease, by the number of the lease."""
        return {row.number: row.label for row in await self._reader.all(_LABELS)}

    async def owners(self) -> Sequence[Owner]:
        """Returns the processes with a lease, the oldest first; at most 200."""
        return [Owner(**row._mapping) for row in await self._reader.all(_OWNERS)]

    def ages(self) -> Mapping[int, float]:
        """Returns the seconds since this process last saw each lease renewed, by number. Leases that it has not looked at yet
        are missing."""
        now = self._steady()
        ages = {number: now - sight.since for number, sight in self._sights.items()}
        if self._number is not None and self._durable:
            ages[self._number] = now - self._beaten_at
        return ages

    @property
    def number(self) -> int | None:
        """The number of this process, whose lease may be lost; None: it has none yet."""
        return self._number

    def check(self, connection: Connection, *, exists: bool | None = None) -> int:
        """Returns the number under which this process may write in this transaction. `exists`: whether there is a row with
        `number`, if this transaction has looked and locked it.

        It is a new number if the process has none yet or has lost its lease. Runs in the writer's thread.
        """
        number = self._number
        if number is not None:
            if self._exists(connection, number) if exists is None else exists:
                if self._steady() - self._beaten_at > self._interval:
                    self._beat(connection, number)
                return number
            if self._durable:
                self._lost()
        self._beating_at = self._steady()
        row = {"beat": 0, "seconds": self._seconds, "label": process_label(), "started": time.time()}
        self._number = connection.execute(_TAKE, row).scalar_one()
        return self._number

    def require(self, connection: Connection, number: int) -> None:
        """Raises `LeaseLostError` if the owner with that number has lost its lease. Runs in the writer's thread."""
        if self._exists(connection, number):
            return
        if self._durable and number == self._number:
            self._lost()
        raise LeaseLostError

    def committed(self) -> None:
        """Notes that a transaction in which `check` passed is on disk. Runs in the writer's thread, before its next group."""
        if self._beating_at is not None:
            self._beaten_at, self._beating_at = self._beating_at, None
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
        """The loop of the renewing thread: one look after another until `close` is called."""
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
            if previous is None or previous.beat != beat:
                sights[number] = _Sight(beat=beat, since=self._steady())
            else:
                sights[number] = replace(previous, still=previous.still + 1)
            if sights[number].still >= max(LOOKS, seconds / self._interval):
                dead.append((number, beat))
        self._sights = sights
        return dead

    # --- in the writer's thread --------------------------------------------------------------------------------------

    def _renew(self, connection: Connection) -> Sequence[tuple[int, int, float]]:
        number = self.check(connection)
        self._beat(connection, number)
        return [(row.number, row.beat, row.seconds) for row in connection.execute(_BEATS) if row.number != number]

    def _beat(self, connection: Connection, number: int) -> None:
        self._beating_at = self._steady()
        connection.execute(_BEAT, {"n": number})

    def _exists(self, connection: Connection, number: int) -> bool:
        """Returns True if there is a row with that number. It stays until the transaction ends, so one look is enough."""
        look = (connection.get_transaction(), number)
        if look != self._looked:
            self._looked = look if _exists(connection, number) else None
        return self._looked is not None

    def _remove(self, connection: Connection, *, number: int, beat: int | None = None) -> bool:
        """Removes an owner and settles its open runs.

        Returns False if another process has removed the owner, or if its beat is no longer `beat`.
        """
        self._looked = None
        is_unchanged = owners.c.number == number
        if beat is not None:
            is_unchanged &= owners.c.beat == beat
        if not connection.execute(delete(owners).where(is_unchanged)).rowcount:
            return False
        self._settle(connection, number)
        return True

    def _lost(self) -> None:
        self._number, self._durable = None, False
        self.generation += 1
        self._watch.lease_lost()
        log.warning("lease_lost")

    # -----------------------------------------------------------------------------------------------------------------

    def _submit(self, work: Callable[[Connection], T]) -> Future[T]:
        """Submits work that calls `check`."""
        done = self._writer.submit(work)
        done.add_done_callback(lambda done: self.committed() if done.exception() is None else None)
        return done

    async def _beat_of(self, number: int) -> int | None:
        rows = await self._reader.all(_BEAT_OF, n=number)
        return rows[0].beat if rows else None


def _exists(connection: Connection, number: int) -> bool:
    if connection.dialect.name == "sqlite":  # has no row locks; without SQLAlchemy the read takes a tenth of the time
        driver: Any = connection.connection.driver_connection
        return driver.execute("SELECT 1 FROM owners WHERE number = ?", (number,)).fetchone() is not None
    if mark := due_mark(connection):  # two statements for the price of one
        return connection.execute(_EXISTS_WITH_MARK, {**mark, "n": number}).first() is not None
    return connection.execute(_EXISTS, {"n": number}).first() is not None


def process_label() -> str:
    """Returns a text that lets people recognise this process."""
    return f"{socket.gethostname()[:200]} process {os.getpid()}"
