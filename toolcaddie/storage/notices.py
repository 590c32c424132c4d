"""Tells every process with the same database that something has changed, within a second.

A topic is a short name, such as `settings`. Whoever publishes a document writes a new mark under the name of its topic, in the
same transaction. Every process reads the marks twice a second and calls whoever watches a topic with a new mark. On PostgreSQL
a connection of its own waits for `NOTIFY`, so that there the news takes milliseconds; if that connection is lost, or a proxy in
between does not pass notifications on, the marks are still read, so nothing is missed.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, delete, func, select
from sqlalchemy.exc import SQLAlchemyError

from toolcaddie.core.errors import StorageError
from toolcaddie.storage.reader import Reader
from toolcaddie.storage.tables import documents
from toolcaddie.storage.upsert import upsert
from toolcaddie.storage.writer import Writer, outcome
from toolcaddie.util.log import Logger

log = Logger(__name__)

OnChange = Callable[[], Awaitable[None]]
"""Called after a change of a topic. It must not raise."""

_KIND = "notice"
"""The kind of the documents that hold the marks, under the names of the topics."""
_CHANNEL = "toolcaddie"
"""The channel of PostgreSQL. Databases of other schemas share it; a needless call only reads the marks."""
_EVERY = 0.5
"""Seconds between two readings of the marks."""
_WAIT = 0.5
"""Seconds for which the connection waits for a notification before it looks whether it shall end."""
_PAUSE = 2.0
"""Seconds until a lost connection is opened again."""
_MARK_BYTES = 12

_MARKS = select(documents.c.key, documents.c.value).where(documents.c.kind == bindparam("of_kind"))
_NOTIFY = select(func.pg_notify(_CHANNEL, bindparam("topic")))


class Notices:
    """Publishes documents, and watches topics for this process. `engine` opens the connection that waits for PostgreSQL's
    notifications."""

    def __init__(self, writer: Writer, reader: Reader, engine: Engine) -> None:
        self._writer = writer
        self._reader = reader
        self._engine = engine
        self._watchers: dict[str, OnChange] = {}
        self._marks: dict[str, bytes | None] = {}
        """The mark of each watched topic at the last reading."""
        self._reading: asyncio.Task[None] | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    async def publish(self, topic: str, kind: str, value: bytes | None) -> None:
        """Writes the document of this kind whose key is the topic, or deletes it if `value` is None, and tells all processes of
        it. Raises `StorageError`."""
        is_document = (documents.c.kind == kind) & (documents.c.key == topic)

        def write(connection: Connection) -> None:
            if value is None:
                connection.execute(delete(documents).where(is_document))
            else:
                upsert(connection, documents, _row(kind, topic, value))
            upsert(connection, documents, _row(_KIND, topic, os.urandom(_MARK_BYTES)))
            if connection.dialect.name == "postgresql":
                connection.execute(_NOTIFY, {"topic": topic})

        await outcome(self._writer.submit(write))

    async def watch(self, topic: str, on_change: OnChange) -> None:
        """Calls `on_change` after each change from now on. Raises `StorageError` if the database cannot be read."""
        self._marks[topic] = (await self._read()).get(topic)
        self._watchers[topic] = on_change
        if self._reading is None:
            woken = asyncio.Event()
            self._reading = asyncio.create_task(self._read_forever(woken))
            if self._engine.dialect.name == "postgresql":
                wake = _waker(asyncio.get_running_loop(), woken)
                self._thread = threading.Thread(
                    target=self._listen, args=(wake,), name="toolcaddie-notices", daemon=True
                )
                self._thread.start()

    async def close(self) -> None:
        """Ends the watching. Repeating it does nothing."""
        self._closing.set()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    async def _read(self) -> dict[str, bytes]:
        return {row.key: bytes(row.value) for row in await self._reader.all(_MARKS, of_kind=_KIND)}

    async def _read_forever(self, woken: asyncio.Event) -> None:
        """Reads the marks until it is cancelled. While the database cannot be read, there is no news."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), _EVERY)
            woken.clear()
            with suppress(StorageError):
                await self._compare(await self._read())

    async def _compare(self, marks: dict[str, bytes]) -> None:
        """Calls the watchers of the topics whose marks have changed."""
        changed = [topic for topic in self._watchers if marks.get(topic) != self._marks[topic]]
        for topic in changed:
            self._marks[topic] = marks.get(topic)
            await self._watchers[topic]()

    def _listen(self, wake: Callable[[], None]) -> None:
        """The loop of the listening thread: waits for notifications until `close` is called."""
        while not self._closing.is_set():
            try:
                with closing(self._engine.raw_connection()) as pooled:
                    driver: Any = pooled.driver_connection
                    pooled.detach()  # it must not return to the pool as a connection that listens
                    try:
                        _wait_for_notices(driver, wake, self._closing)
                    finally:
                        driver.close()
            except (SQLAlchemyError, OSError, self._engine.dialect.loaded_dbapi.Error) as error:
                log.info("notices_not_heard", error=str(error))
                self._closing.wait(_PAUSE)


def _row(kind: str, topic: str, value: bytes) -> dict[str, Any]:
    return {"kind": kind, "key": topic, "value": value, "expires": None}


def _wait_for_notices(driver: Any, wake: Callable[[], None], closing_event: threading.Event) -> None:
    driver.autocommit = True
    driver.execute(f"LISTEN {_CHANNEL}")
    wake()  # for what was told before the connection listened
    while not closing_event.is_set():
        for _ in driver.notifies(timeout=_WAIT, stop_after=1):
            wake()


def _waker(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> Callable[[], None]:
    """Returns a function that sets the event from another thread."""

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(woken.set)

    return wake
