"""The calls of DBOS, each of which blocks: everything that `queue` needs of it, and nothing else imports it.

DBOS is imported when it starts, because that takes half a second and most processes have no durable work. On PostgreSQL its
tables are in a schema `dbos` beside ours; if a connection names the schema of ours, in one named after it. On SQLite they are in
a file beside the database: DBOS holds the one write lock of SQLite while it talks to Python, and the trail, on the way of every
request, would wait for it.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine as SqlEngine
from sqlalchemy import create_engine, event, make_url

from toolcaddie.core.errors import ConfigError
from toolcaddie.jobs.installed import PACKAGE, REMEDY
from toolcaddie.jobs.tenants import require_room
from toolcaddie.jobs.unfinished import UNFINISHED, schema_of, work_file

_APPLICATION = "toolcaddie"
_VERSION = "1"
"""The same for all versions of Toolcaddie, so that each continues the work of all others."""
_WORK = "work"
_STARTS = 20
"""Number of times that a piece of work is begun, after crashes, until it is given up: it may be what crashes."""
_POLL_SECONDS = 0.1
_THREADS = 8
_CONNECTIONS = 20
_BUSY_SECONDS = 5.0
_SQLITE_WAIT_MILLISECONDS = 30_000
_AT_ONCE = 500

Begin = Callable[[str, str, bytes], Future[bytes]]
"""Begins a piece of work of a kind, by id and payload, and returns its future."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The limits of the queue of one kind of work; None: any number."""

    is_done_here: bool = True
    """False: this process puts such work, and leaves it to others."""
    at_once: int | None = None
    """The largest number of pieces that one process does at the same time."""
    tenant_at_once: int | None = None
    """The largest number of pieces of one tenant that all processes together do at the same time. If it is set, each piece has a
    tenant."""
    tenant_waiting: int | None = None
    """The largest number of pieces of one tenant that wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a piece of work: its result, or the reason why there is none."""

    result: bytes | None = None
    problem: str = ""


class Engine:
    """`lanes`: the limits of each kind of work. Raises `ConfigError`."""

    def __init__(self, database_url: str, lanes: Mapping[str, Lane]) -> None:
        self._url, self._schema = _places(database_url)
        self._lanes = dict(lanes)
        self._dbos: Any = None
        self._client: Any = None
        self._sql: SqlEngine | None = None
        """Connections to DBOS's tables, for DBOS and for our own transactions."""

    def start(self, executor: str, begin: Begin) -> None:
        """Begins to do work under that executor id."""
        dbos = self._dbos = _imported()
        logging.getLogger("dbos").addHandler(logging.NullHandler())  # otherwise DBOS adds one that prints
        logging.getLogger("dbos").setLevel(logging.ERROR)
        serializer = dbos.DBOSPortableJSONSerializer()
        self._sql = _sql_engine(self._url)
        dbos.DBOS(
            config={
                "name": _APPLICATION,
                "system_database_engine": self._sql,
                "dbos_system_schema": self._schema,
                "executor_id": executor,
                "application_version": _VERSION,
                "serializer": serializer,
                "log_level": "ERROR",
                "max_executor_threads": _THREADS,
                "use_listen_notify": False,
                "scheduler_polling_interval_sec": 3_600.0,
            }
        )

        @dbos.DBOS.workflow(name=_WORK, max_recovery_attempts=_STARTS)  # type: ignore[untyped-decorator]
        async def work(kind: str, payload: str) -> str:
            """Returns `+` and the result in base64, or `-` and the reason of the failure."""
            future = begin(kind, dbos.DBOS.workflow_id, base64.b64decode(payload))
            try:
                result: bytes = await asyncio.wrap_future(future)
                return "+" + base64.b64encode(result).decode()
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001  whatever it is, it is the outcome of the work
                return f"-has failed: {type(error).__name__}: {error}"

        done_here = {name: lane for name, lane in self._lanes.items() if lane.is_done_here}
        dbos.DBOS.listen_queues(list(done_here))
        dbos.DBOS.launch()
        _lock_from_the_beginning(self._sql)
        for name, lane in done_here.items():
            dbos.DBOS.register_queue(
                name,
                worker_concurrency=lane.at_once,
                partition_concurrency=lane.tenant_at_once,
                polling_interval_sec=_POLL_SECONDS,
                on_conflict="always_update",
            )
        self._client = dbos.DBOSClient(
            system_database_engine=self._sql,
            dbos_system_schema=self._schema,
            serializer=serializer,
            application_name=_APPLICATION,
        )

    def stop(self) -> None:
        """Stops the work of this process as a crash would, so that it is recovered."""
        if self._dbos is not None:
            self._dbos.DBOS.destroy(destroy_registry=True)
        if self._sql is not None:
            self._sql.dispose()
        self._dbos = self._client = self._sql = None

    def put(self, kind: str, work: Sequence[tuple[str, bytes]], delay: float, tenant: str | None = None) -> None:
        """Raises `QueueFullError` if the tenant has too many pieces that wait."""
        options: dict[str, Any] = {
            "workflow_name": _WORK,
            "queue_name": kind,
            "app_version": _VERSION,
            "application_name": _APPLICATION,
        }
        if delay > 0:
            options["delay_seconds"] = delay
        assert self._sql is not None, "`start` opens it"
        if tenant is not None:
            options["queue_partition_key"] = tenant
        with self._sql.begin() as connection:
            if tenant is not None and (most := self._lanes[kind].tenant_waiting) is not None:
                require_room(connection, self._schema, kind, tenant, most=most)
            for work_id, payload in work:
                encoded = base64.b64encode(payload).decode()
                self._client.enqueue_in_transaction(connection, {**options, "workflow_id": work_id}, kind, encoded)

    def ending(self, work_id: str) -> Ending | None:
        """Returns the end of a piece of work; None: it has not ended."""
        found = self._client.list_workflows(workflow_ids=[work_id], load_input=False)
        if not found:
            return Ending(problem="was never put, or is forgotten")
        status, output = found[0].status, found[0].output
        if status in UNFINISHED:
            return None
        if status != "SUCCESS":
            return Ending(problem="was cancelled" if status == "CANCELLED" else f"was given up ({status})")
        if output.startswith("+"):
            return Ending(result=base64.b64decode(output[1:]))
        return Ending(problem=output[1:])

    def over(self, work_ids: Sequence[str]) -> list[str]:
        """Returns those pieces of work that are not to be done any more."""
        over: list[str] = []
        for start in range(0, len(work_ids), _AT_ONCE):
            ids = list(work_ids[start : start + _AT_ONCE])
            found = self._client.list_workflows(workflow_ids=ids, load_input=False, load_output=False)
            over += [each.workflow_id for each in found if each.status not in UNFINISHED]
        return over

    def cancel(self, work_ids: Sequence[str]) -> None:
        self._client.cancel_workflows(list(work_ids))

    def executors(self, own: str) -> list[str]:
        """Returns the ids of the other processes that have begun work that has not ended."""
        pending = self._client.list_workflows(status="PENDING", load_input=False, load_output=False)
        return sorted({each.executor_id for each in pending if each.executor_id not in (None, "", own)})

    def recover(self, executors: Sequence[str]) -> int:
        """Puts the work of dead processes back into its queues. Returns its amount.

        The public `resume_workflows` would not do: it also takes work that a living process has begun meanwhile, and forgets how
        often the work was begun.
        """
        return len(self._dbos.DBOS._recover_pending_workflows(list(executors)))

    def clean(self, age: float) -> None:
        """Removes what ended long ago."""
        before = (datetime.now(UTC) - timedelta(seconds=age)).isoformat()
        while old := self._client.list_workflows(
            completed_before=before, limit=_AT_ONCE, load_input=False, load_output=False
        ):
            self._client.delete_workflows([each.workflow_id for each in old])


def _places(database_url: str) -> tuple[str, str]:
    """Returns the URL of DBOS's tables and their schema. Makes the file of SQLite."""
    url = make_url(database_url)
    if url.get_backend_name() == "postgresql":
        return url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False), schema_of(url)
    if url.database in (None, "", ":memory:"):
        raise ConfigError(
            "database_url: durable work needs a database on disk, such as sqlite:///data/toolcaddie.sqlite"
        )
    path = work_file(url)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # its texts are what people wrote
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS)
    connection.execute(
        "PRAGMA journal_mode = WAL"
    )  # it stays: DBOS itself would not set it, and take four times as long
    connection.close()
    return f"sqlite:///{path}", "dbos"


def _sql_engine(url: str) -> SqlEngine:
    """Returns the connections to DBOS's tables, as DBOS itself would make them."""
    if not url.startswith("sqlite"):
        return create_engine(url, pool_size=_CONNECTIONS, max_overflow=0, pool_pre_ping=True)
    engine = create_engine(url, pool_size=_CONNECTIONS, max_overflow=0)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = "IMMEDIATE"  # so that one writer waits for the other, instead of failing
        connection.execute(f"PRAGMA busy_timeout = {_SQLITE_WAIT_MILLISECONDS}")
        connection.execute("PRAGMA foreign_keys = ON")

    return engine


def _lock_from_the_beginning(engine: SqlEngine) -> None:
    """Makes each transaction on SQLite take the lock before it reads. The driver takes it before the first change only, so two
    processes could both count what runs, and begin more together than may run. DBOS makes its tables before, in its own way."""
    if engine.dialect.name == "sqlite":
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))


def _imported() -> Any:
    try:
        return importlib.import_module(PACKAGE)
    except ModuleNotFoundError as error:
        raise ConfigError(f"this installation can neither run jobs nor let bots ask other bots; {REMEDY}") from error
