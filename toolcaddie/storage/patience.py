"""Transactions that outlive a short absence of a PostgreSQL server: a restart, a failover, a lost network.

A transaction whose connection breaks is begun again until the server is back, for `PATIENCE_SECONDS` at most. If the connection
broke while the commit was under way, nobody was told whether it succeeded, and doing it again could do it twice. So each
transaction that writes leaves a mark of its own in the same commit: afterwards the mark says whether it was committed. SQLite
has no server that could be away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError

from toolcaddie.storage.marks import Marks

T = TypeVar("T")

PATIENCE_SECONDS = 10.0
"""Seconds for which a transaction waits for a server that is away."""

_PAUSE = 0.05
"""Seconds between two attempts to reach it."""
_GONE = ("08", "57P01", "57P02", "57P03")
"""Beginnings of PostgreSQL's codes for a connection that broke, and for a server that shuts down, has crashed, or starts."""


class Transactions:
    """Runs transactions of an engine. `is_over`: returns True once nobody wants to wait any more, because the process ends."""

    def __init__(self, engine: Engine, *, is_over: Callable[[], bool] = lambda: False) -> None:
        self._engine = engine
        self._is_over = is_over
        self._can_be_away = engine.dialect.name == "postgresql"
        self._marks = Marks()

    def read(self, work: Callable[[Connection], T]) -> T:
        """Returns the result of a transaction that writes nothing. Raises what it raises."""
        waiting = _Waiting()
        while True:
            try:
                with self._engine.begin() as connection:
                    return work(connection)
            except DBAPIError as error:
                self._wait(error, waiting)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Returns the result of a transaction, which was committed once. `work` may run several times. Raises what it raises; an
        error of the connection says that nothing, or an unknown part, was committed."""
        if not self._can_be_away:
            with self._engine.begin() as connection:
                return work(connection)
        waiting = _Waiting()
        while True:
            mark = self._marks.next()
            committing = False
            try:
                with self._engine.begin() as connection:
                    mark.announce(connection)
                    result = work(connection)
                    mark.leave(connection)  # before the commit is sent, so that its row is locked from then on
                    committing = True
                return result
            except DBAPIError as error:
                self._wait(error, waiting)
            if committing and self.read(mark.is_committed):
                return result

    def _wait(self, error: DBAPIError, waiting: _Waiting) -> None:
        """Waits a moment for a server that is away. Raises the error if that is not its reason, or the patience is over."""
        if not self._can_be_away or not _is_gone(error) or self._is_over() or waiting.is_over():
            raise error
        waiting.pause()


class _Waiting:
    """One wait for a server. The first pause is none: a connection that was idle may be lost, and the server be there."""

    def __init__(self) -> None:
        self._deadline: float | None = None

    def is_over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def pause(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + PATIENCE_SECONDS
        else:
            time.sleep(_PAUSE)


def _is_gone(error: DBAPIError) -> bool:
    """Returns True if the server did not refuse the work, but was not there to do it."""
    if error.connection_invalidated:
        return True
    code = getattr(error.orig, "sqlstate", None)
    return isinstance(error, OperationalError) and (code is None or code.startswith(_GONE))
