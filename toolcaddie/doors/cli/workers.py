"""Several processes behind one port, for `toolcaddie serve --workers N`: starts them, replaces those that die, and ends them.

A worker is one of the processes. The parent serves no request itself. Workers are started in a fresh interpreter, so they
inherit no threads and no locks. Each watches its parent: if the parent is killed, it finishes its requests and ends too.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.resource_tracker import ensure_running
from types import FrameType
from typing import Any

import click

from toolcaddie.core.errors import ToolcaddieError
from toolcaddie.doors.cli.failure import Failure, Reported, failure_of
from toolcaddie.util.log import Logger
from toolcaddie.util.waiting import wait_up_to

log = Logger(__name__)

PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0)
"""Seconds before a worker that ended soon after its start, or did not start at all, is started again: the first, second, ... time
in a row. After the last one the server gives up."""

_SOON = 10.0
"""A worker that ends within this many seconds after its start ended soon."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""Signals that a worker may get while it starts, before it can handle them."""

Report = Callable[[Any], None]
"""Function that tells the parent that a worker is ready, with a value for the parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """The message of a worker that can serve requests."""

    value: Any


@dataclass(slots=True, kw_only=True)
class _Worker:
    """A worker, as the parent sees it."""

    number: int
    process: SpawnProcess
    reports: Connection
    began: float = field(default_factory=time.monotonic)
    ready: _Ready | None = None
    failure: Failure | None = None
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the worker is ready, has failed, or has ended."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def look(self) -> None:
        """Notices that the process has ended."""
        if not self.process.is_alive():
            self.read()
            self.answered.set()
            self.ended.set()

    def read(self) -> None:
        """Reads the messages that have arrived."""
        with suppress(EOFError, OSError):
            while self.reports.poll():
                match self.reports.recv():
                    case _Ready() as ready:
                        self.ready = ready
                    case Failure() as failure:
                        self.failure = failure
                self.answered.set()

    def send(self, kind: signal.Signals) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, kind)

    @property
    def error(self) -> Failure | None:
        """The report of a worker that has failed; None: it ended by itself, or because of SIGTERM."""
        if self.failure is not None or self.process.exitcode in (None, 0, -signal.SIGTERM):
            return self.failure
        message = f"worker {self.number} ended with exit code {self.process.exitcode}; the log has its last lines"
        return Failure(kind="CommandFailed", message=message, exit_code=1)


def _nothing(pid: int) -> None:
    """Does nothing about a worker that has ended."""


class Workers:
    """The processes that serve one port.

    `work(number, report, *arguments)` runs in each of them until a signal stops it; `report(value)` says that it is ready. The
    function and its arguments must be picklable. `announce` receives the value of the first worker once all are ready.
    `stopping` is called at the first signal, and `lost` with the process id of a worker that has ended by itself. `pauses`: see
    `PAUSES`.
    """

    def __init__(
        self,
        work: Callable[..., None],
        arguments: Sequence[Any],
        count: int,
        *,
        announce: Callable[[Any], None],
        stopping: Callable[[], None],
        lost: Callable[[int], None] = _nothing,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._work = work
        self._arguments = tuple(arguments)
        self._count = count
        self._announce = announce
        self._on_stopping = stopping
        self._on_lost = lost
        self._pauses = pauses
        self._workers: dict[int, _Worker] = {}
        self._stopped_workers: list[_Worker] = []
        """The workers that were alive at the first signal."""
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Serves until a signal, SIGTERM or SIGINT, has stopped all workers. A second signal ends their open requests at once.
        SIGHUP is passed on to the workers.

        Raises `Reported` if a worker cannot start, fails again and again, or fails at its end.
        """
        ensure_running()  # a process of Python's own; started later, it would change the signals that are blocked
        loop = asyncio.get_running_loop()
        for kind in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(kind, self._stopped)
        loop.add_signal_handler(signal.SIGHUP, self._passed_on)
        loop.add_signal_handler(signal.SIGCHLD, self._looked)
        try:
            # The first one starts alone: it finds the mistakes in the settings, and prepares the database for the others.
            await self._first_start(1)
            await asyncio.gather(*map(self._first_start, range(2, self._count + 1)))
            if not self._stop.is_set():
                self._announce(self._workers[1].ready.value if self._workers[1].ready else None)
                await self._kept()
        finally:
            await self._ended()
        if failures := [worker.error for worker in self._stopped_workers if worker.error is not None]:
            raise Reported(failures[0])

    # --- signals -----------------------------------------------------------------------------------------------------

    def _stopped(self) -> None:
        """Stops all workers. The first signal lets them finish their requests; another one reaches them as SIGINT, which cancels
        the requests."""
        hurry = self._stop.is_set()
        if not hurry:
            self._stop.set()
            self._stopped_workers = [worker for worker in self._workers.values() if not worker.ended.is_set()]
            self._on_stopping()
        for worker in self._workers.values():
            worker.send(signal.SIGINT if hurry else signal.SIGTERM)

    def _looked(self) -> None:
        """Looks which processes have ended, after the signal that one has."""
        for worker in self._workers.values():
            worker.look()

    def _passed_on(self) -> None:
        for worker in self._workers.values():
            if worker.ready is not None:
                worker.send(signal.SIGHUP)

    # --- the life of a worker ----------------------------------------------------------------------------------------

    async def _first_start(self, number: int) -> None:
        """Starts a worker. Raises `Reported` if it cannot start, because another attempt would fail too."""
        if self._stop.is_set():
            return
        worker = await self._start(number)
        if worker.ready is None and not self._stop.is_set():
            await worker.ended.wait()
            raise Reported(worker.error or _ended_early(worker))

    async def _start(self, number: int) -> _Worker:
        """Starts a worker and waits until it is ready or has failed."""
        reports, report = SPAWN.Pipe(duplex=False)
        process = SPAWN.Process(
            target=_run, args=(self._work, number, report, self._arguments), name=f"toolcaddie worker {number}"
        )
        with _signals_blocked():
            process.start()
        report.close()  # the worker has it now
        self._workers[number] = worker = _Worker(number=number, process=process, reports=reports)
        loop = asyncio.get_running_loop()
        loop.add_reader(reports.fileno(), worker.read)
        worker.look()
        await worker.answered.wait()
        loop.remove_reader(reports.fileno())
        return worker

    async def _kept(self) -> None:
        """Starts workers that end again, until a signal comes or a worker fails too often."""
        keepers = [asyncio.create_task(self._keep(number)) for number in self._workers]
        done, _ = await asyncio.wait(keepers, return_when=asyncio.FIRST_EXCEPTION)
        for keeper in keepers:
            keeper.cancel()
        for keeper in done:
            keeper.result()

    async def _keep(self, number: int) -> None:
        """Starts a worker again whenever it ends. Raises `Reported` after the last of the pauses."""
        failures = 0
        while True:
            worker = self._workers[number]
            await worker.ended.wait()
            worker.reports.close()
            if self._stop.is_set():
                return
            soon = worker.ready is None or time.monotonic() - worker.began < _SOON
            failures = failures + 1 if soon else 1
            if worker.process.pid is not None:
                self._on_lost(worker.process.pid)
            error = worker.error
            if failures > len(self._pauses):
                raise Reported(error or _ended_early(worker))
            pause = self._pauses[failures - 1]
            log.error(
                "worker_ended",
                worker=number,
                pid=worker.process.pid,
                exit_code=worker.process.exitcode,
                error=error.message if error else "",
                starts_again_in=pause,
            )
            await wait_up_to(pause, self._stop)
            if self._stop.is_set():
                return
            await self._start(number)

    async def _ended(self) -> None:
        """Stops the workers that are left, and waits until all have ended."""
        if not self._stop.is_set():
            self._stopped()
        for worker in self._workers.values():
            await worker.ended.wait()


SPAWN = multiprocessing.get_context("spawn")


def _ended_early(worker: _Worker) -> Failure:
    return Failure(
        kind="CommandFailed",
        message=f"worker {worker.number} ended soon after its start, and nothing told it to",
        exit_code=1,
    )


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Starts processes with blocked signals: they wait until the process can handle them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in the worker


def _run(work: Callable[..., None], number: int, reports: Connection, arguments: Sequence[Any]) -> None:
    """Runs a worker. An expected error goes to the parent, which prints it as one process alone would."""
    os.setsid()  # a Ctrl-C reaches the parent only, which passes it on
    for kind in _SIGNALS:
        if kind != signal.SIGTERM:
            # A handler rather than SIG_IGN, which the processes that a worker starts would inherit.
            signal.signal(kind, _ignored)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(number, lambda value: reports.send(_Ready(value=value)), *arguments)
    except (ToolcaddieError, click.ClickException) as error:
        failure = failure_of(error)
        with suppress(OSError):  # the parent was killed
            reports.send(failure)
        sys.exit(failure.exit_code)


def _ignored(kind: int, frame: FrameType | None) -> None:
    """Ignores a signal that the worker does not handle yet."""


def parent_is_gone() -> bool:
    """Returns True in a worker whose parent was killed."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


def _end_with_parent() -> None:
    """Waits until the parent has ended, and stops this worker like the signal of a parent."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
