"""The interpreter Monty: a Python written for programs of models, in processes without access to files, network, environment and
clock of the host.

The time and the random numbers of a program are given, sleeping takes no time, and its sets and hashes do not depend on the
process, so that a program runs the same way again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import FunctionType
from typing import Any, TypeVar

import pydantic_monty
from pydantic_monty import (
    CollectString,
    FunctionSnapshot,
    FutureSnapshot,
    MontyComplete,
    MontyCrashedError,
    MontyError,
    MontyTypingError,
    NameLookupSnapshot,
)

from toolcaddie.core.errors import InterpreterError
from toolcaddie.core.programs import Ended, Program, ProgramCall, ProgramLimits, ProgramResult, ProgramStep, Waiting

T = TypeVar("T")

_SUSPENSIONS = 10_000
"""The largest number of stops of a program, among them each look at a name and each call."""
_GRACE = 5.0
"""Seconds beyond its limit after which a worker that does not answer is killed."""


class Monty:
    """Runs programs in worker processes, which are started when they are needed.

    The workers are driven from threads: the asynchronous interface of the package (1.4) at times aborts a process that ends.
    """

    def __init__(self, *, workers: int) -> None:
        self._workers = workers
        self._pool: pydantic_monty.Monty | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._opening = threading.Lock()
        self._free: asyncio.Semaphore | None = None
        """Counts the free workers, in the event loop of the first program."""

    @asynccontextmanager
    async def session(self, program: Program) -> AsyncIterator[MontySession]:
        """Returns the session of a program in a worker of its own."""
        if self._free is None or self._threads is None:
            self._free, self._threads = asyncio.Semaphore(self._workers), ThreadPoolExecutor(self._workers)
        async with self._free:  # so no thread ever waits for a worker
            session = MontySession(program, self._threads)
            try:
                await session.open(self._open_pool)
                yield session
            finally:
                await asyncio.shield(session.close())

    async def close(self) -> None:
        """Ends all workers. The next program starts new ones."""
        pool, threads = self._pool, self._threads
        self._pool = self._threads = self._free = None
        if pool is not None:
            await asyncio.to_thread(pool.__exit__, None, None, None)
        if threads is not None:
            threads.shutdown()

    def _open_pool(self) -> pydantic_monty.Monty:
        with self._opening:
            if self._pool is None:
                pool = pydantic_monty.Monty(max_processes=self._workers, feed_duration_limit_grace=_GRACE)
                try:
                    self._pool = pool.__enter__()
                except (MontyError, OSError, RuntimeError) as error:
                    raise InterpreterError(f"Monty could not be started: {error}") from error
            return self._pool


class MontySession:
    """One program in a worker. Its steps run in threads, one at a time."""

    def __init__(self, program: Program, threads: ThreadPoolExecutor) -> None:
        self._program = program
        self._threads = threads
        self._turn = threading.Lock()
        self._output = CollectString(max_bytes=program.limits.output_bytes)
        self._session: pydantic_monty.MontySession | None = None
        self._snapshot: Any = None
        self._ids: dict[int, int] = {}
        """Monty's ids of the unanswered calls, by our numbers."""
        self._next = 0

    async def open(self, pool: Callable[[], pydantic_monty.Monty]) -> None:
        await self._in_thread(lambda: self._check_out(pool()))

    async def start(self) -> ProgramStep:
        return await self._in_thread(self._start)

    async def go_on(self, results: Mapping[int, ProgramResult]) -> ProgramStep:
        answers: dict[int, Any] = {self._ids.pop(number): _answer(result) for number, result in results.items()}
        return await self._in_thread(lambda: self._until_waiting(lambda: self._snapshot.resume(answers)))

    async def close(self) -> None:
        """Returns the worker. A step on its way ends first, at the latest when the time of the program is over."""
        await self._in_thread(self._check_in)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def alone() -> T:
            with self._turn:
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._threads, alone)

    def _check_out(self, pool: pydantic_monty.Monty) -> None:
        program, limits = self._program, self._program.limits
        session = pool.checkout(
            script_name="program.py",
            limits={
                "max_memory": limits.memory_bytes,
                "max_feed_duration_secs": limits.seconds,
                "max_suspensions": _SUSPENSIONS,
            },
            type_check=bool(program.stubs),
            type_check_stubs=program.stubs or None,
            type_check_format="concise",
            os_policy={
                "datetime": datetime.fromtimestamp(program.now, UTC),
                "sleep": "zero",
                "random_start": {"seed": program.seed},
            },
        )
        self._session = session.__enter__()

    def _check_in(self) -> None:
        if self._session is not None:
            self._session.__exit__(None, None, None)

    def _start(self) -> ProgramStep:
        assert self._session is not None, "a session is opened before it starts"
        session = self._session
        return self._until_waiting(lambda: session.feed_start(self._program.code, print_callback=self._output))

    def _until_waiting(self, turn: Callable[[], Any]) -> ProgramStep:
        """Runs on until every task of the program waits for calls. Errors of the program are its end."""
        calls: list[ProgramCall] = []
        try:
            snapshot = turn()
            while True:
                match snapshot:
                    case MontyComplete():
                        return Ended(output=self._output.output, value=snapshot.output)
                    case FutureSnapshot():
                        self._snapshot = snapshot
                        return Waiting(calls=tuple(calls))
                    case NameLookupSnapshot():
                        snapshot = _looked_up(snapshot)
                    case FunctionSnapshot(is_os_function=True):
                        snapshot = snapshot.resume_not_handled()
                    case FunctionSnapshot():
                        calls.append(self._call(snapshot))
                        snapshot = snapshot.resume({"future": ...})
                    case _:
                        raise TypeError(f"Monty stopped with a {type(snapshot).__name__}")
        except MontyError as error:
            return Ended(output=self._output.output, error=_explained(error, self._program.limits))

    def _call(self, snapshot: FunctionSnapshot) -> ProgramCall:
        number, self._next = self._next, self._next + 1
        self._ids[number] = snapshot.call_id
        return ProgramCall(
            number=number, function=str(snapshot.function_name), args=snapshot.args, arguments=snapshot.kwargs
        )


def _looked_up(snapshot: NameLookupSnapshot) -> Any:
    """Returns the next stop after a function was named without being called, as in `find = find_order`."""
    if snapshot.object_id is not None:
        return snapshot.resume()
    return snapshot.resume(value=_function(snapshot.variable_name))


def _function(name: str) -> Any:
    """Returns a function of this name; it stands for a tool and is never called here."""
    return FunctionType(_nothing.__code__, {}, name)


def _nothing(**arguments: Any) -> None:
    """Does nothing."""


def _answer(result: ProgramResult) -> Any:
    return {"exception": RuntimeError(result.error)} if result.error else {"return_value": result.value}


def _explained(error: MontyError, limits: ProgramLimits) -> str:
    """Returns what went wrong, as the model reads it."""
    if isinstance(error, MontyTypingError):
        return f"The program was not run, because its types are wrong:\n{error.display()}"
    if isinstance(error, MontyCrashedError):
        return f"The program broke its interpreter, or took far longer than {limits.seconds:g} s: {error}"
    display = getattr(error, "display", None)
    return str(error) if display is None else str(display("traceback"))
