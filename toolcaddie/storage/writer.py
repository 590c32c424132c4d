"""The one thread that writes to the database. It groups queued pieces of work into one commit.

A durable commit costs a disk write whatever its size, so hundreds of rows a second are possible only if they share commits.
A piece of work is a function that takes a connection; the writer does not know what the function writes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DataError, IntegrityError, OperationalError, SQLAlchemyError

from toolcaddie.core.errors import StorageError
from toolcaddie.ports import StorageWatch
from toolcaddie.storage.files import FileGoneError
from toolcaddie.storage.patience import Transactions
from toolcaddie.storage.reasons import reason_of
from toolcaddie.storage.watch import UNWATCHED

T = TypeVar("T")

_GROUP = 256
"""Largest number of pieces of work in one commit."""
_ATTEMPTS = 5
"""Largest number of attempts at one piece of work that runs into deadlocks."""
_DEADLOCK = "40P01"
"""PostgreSQL's code for a deadlock."""
LINGER = 0.025
"""Seconds for which work that is not urgent may wait for more work. A commit costs as much as writing the rows of several
requests, but the writing of larger groups delays requests: 50 ms added 1 to 2 ms to the 99th percentile of their duration."""

Completion = Callable[[], None]
"""Completes the future of one piece of work, with its result or an error."""


class Writer:
    """Runs submitted work in groups, each in order. A group is one transaction; its futures are done once it is on disk.

    `linger`: seconds for which work that is not urgent may wait for more work. `check` is called in each transaction before
    the commit and raises `FileGoneError` if the commit would be lost. `watch` hears of each transaction.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        check: Callable[[], None],
        linger: float = LINGER,
        watch: StorageWatch = UNWATCHED,
    ) -> None:
        self._transactions = Transactions(engine, is_over=lambda: self._state == "closed")
        self._watch = watch
        self._check = check
        self._linger = linger
        self._queue: list[_Job[Any]] = []
        self._urgent = False
        self._state: Literal["new", "open", "closed"] = "new"
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="toolcaddie-writer", daemon=True)

    def start(self) -> None:
        self._state = "open"
        self._thread.start()

    def submit(self, work: Callable[[Connection], T], *, urgent: bool = True, last: bool = False) -> Future[T]:
        """Queues work. The future fails with the work's exception, or with `StorageError` if the database failed.

        Work that is not `urgent` may wait for more work. `last`: the work is done after the other work of its group. Work may
        run several times: again by itself if other work of its group failed, and again after a deadlock or a broken connection.

        Raises `StorageError` before `start` and after `close`.
        """
        job = _Job(work, last)
        with self._wake:
            if self._state != "open":
                raise StorageError(f"the database is {'not open yet' if self._state == 'new' else 'closed'}")
            self._queue.append(job)
            urgent = urgent or len(self._queue) >= _GROUP
            self._urgent = self._urgent or urgent
            if (
                urgent or len(self._queue) == 1
            ):  # otherwise the thread waits for more work; waking it would only cost the GIL
                self._wake.notify()
        return job.done

    def hurry(self) -> None:
        """Makes the thread write the queue now, because a caller waits for it. Returns at once."""
        with self._wake:
            self._urgent = True
            self._wake.notify()

    def close(self) -> None:
        """Writes everything queued, then ends the thread. Blocks; calling it again does nothing."""
        with self._wake:
            running = self._state == "open"
            self._state = "closed"
            self._wake.notify()
        if running:
            self._thread.join()

    def _run(self) -> None:
        for group in self._groups():
            for complete in self._commit(group):
                complete()

    def _groups(self) -> Generator[list[_Job[Any]], None, None]:
        """Yields groups of queued work, as soon as there is urgent work or others have waited long enough. Ends when the writer
        is closed and the queue is empty."""
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._queue or self._state == "closed")
                self._wake.wait_for(lambda: self._urgent or self._state == "closed", timeout=self._linger)
                group, self._queue = self._queue[:_GROUP], self._queue[_GROUP:]
                self._urgent = bool(self._queue)
            if not group:
                return
            yield group

    def _commit(self, group: list[_Job[Any]], *, attempts: int = _ATTEMPTS) -> list[Completion]:
        """Commits a group in one transaction. Returns functions that complete the futures of the group.

        There are no savepoints, because work nearly never fails. If a piece of work failed, every piece is repeated in a
        transaction of its own, so that only the faulty one fails. The same happens after a deadlock with another process,
        because a single piece locks few rows. If the database failed, the whole group fails: SQLite may have rolled back
        everything by itself, and a later commit would store only a part of the group.
        """
        in_order = sorted(group, key=attrgetter("last"))

        def work(connection: Connection) -> list[Completion]:
            completions = [job.run(connection) for job in in_order]
            self._check()
            return completions

        began = time.perf_counter()
        try:
            completions = self._transactions.write(work)
        except Exception as error:  # noqa: BLE001  the outermost frame of the thread, which must outlive any failure
            if len(group) > 1 and (_is_of_the_work(error) or _is_deadlock(error)):
                return [completion for job in group for completion in self._commit([job])]
            if attempts > 1 and _is_deadlock(error):
                return self._commit(group, attempts=attempts - 1)
            if not _is_of_the_work(error):
                self._watch.failed()
            return [partial(job.done.set_exception, _outcome_error(error)) for job in group]
        self._watch.committed(time.perf_counter() - began)
        return completions


@dataclass(frozen=True, slots=True, eq=False)
class _Job(Generic[T]):
    """A piece of work and the future of its outcome."""

    work: Callable[[Connection], T]
    last: bool
    done: Future[T] = field(default_factory=Future)

    def run(self, connection: Connection) -> Completion:
        """Does the work. The returned function completes the future; it is called once the group is committed."""
        return partial(self.done.set_result, self.work(connection))


def _is_of_the_work(error: Exception) -> bool:
    """Returns True if one piece of work caused the error, so the rest of the group may still succeed."""
    is_of_a_value = isinstance(error, IntegrityError | DataError)  # PostgreSQL stores no NUL character
    return is_of_a_value or not isinstance(error, SQLAlchemyError | FileGoneError)


def _is_deadlock(error: Exception) -> bool:
    """Returns True if PostgreSQL aborted this transaction, so that that of another process could continue."""
    return isinstance(error, OperationalError) and getattr(error.orig, "sqlstate", None) == _DEADLOCK


def _outcome_error(error: Exception) -> Exception:
    return _storage_error(error) if isinstance(error, SQLAlchemyError) else error


def _storage_error(error: SQLAlchemyError) -> StorageError:
    wrapped = StorageError(f"the database cannot be written: {reason_of(error)}")
    wrapped.__cause__ = error
    return wrapped


async def outcome(done: Future[T]) -> T:
    """Waits for submitted work. Cancelling the wait does not cancel the work, whose group may contain other work."""
    return await asyncio.shield(asyncio.wrap_future(done))
