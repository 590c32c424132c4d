"""The cost of the tool-calling loop itself: CPU of one round with 24 tools, a model and a tool that take nearly no time.

python -m benchmarks.loop

A round is one model call and one tool call with all checks. Its cost is the difference between runs of four rounds and of one
round, divided by three. The cost of a whole run of one round (with selection, first and last event, the answer)
is printed too. CPU is that of the whole process, so the thread that writes the trail counts.

The second table is the cost of the start of a request among hundreds of tools: CPU from the call of `run` to the first model
request, the peak memory of the request, and the memory still in use after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import uvloop
from prometheus_client import CollectorRegistry

from benchmarks.selection import catalog
from toolcaddie.audit.trail import Trail
from toolcaddie.core.message import ModelRequest
from toolcaddie.runtime import Runtime
from toolcaddie.sources.definitions import DefinitionSource
from toolcaddie.sources.functions import FunctionSource, tool
from toolcaddie.storage.database import Database
from toolcaddie.telemetry.logs import StructlogSink, configure_logging
from toolcaddie.telemetry.metrics import PrometheusSink
from toolcaddie.testing import ScriptedProvider, call, say

TOOLS = 24
GOAL_MS = 1.0
REPETITIONS = 7
RUNS = 25
"""Runs of each length in a repetition."""

MANY_TOOLS = (500, 1_000)
STARTS = 50
"""Requests whose start is timed."""

_MANY = 4
"""Rounds of the long runs; the short runs have one."""
_MEMORY_RUNS = 10
"""Requests whose memory is measured one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """CPU milliseconds, medians over the repetitions."""

    sinks: str
    """The receivers of the run's events, or `none`."""
    tools: str
    """`read` if the called tool only reads, otherwise `write`."""
    round_ms: float
    """CPU of one round: a model call and a tool call."""
    run_ms: float
    """CPU of a whole run with one round and an answer."""
    goal_ms: float = GOAL_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start of a request among many tools. The figures are medians, except `left_bytes`."""

    tools: int
    preset: str
    first_ms: float
    """CPU of the first request of a process, which builds the index."""
    start_ms: float
    """CPU of a later request until the request to the model."""
    most_kb: float
    """Peak memory of one request."""
    left_bytes: float
    """Memory still in use after a request, mean over all requests."""


def run(repetitions: int = REPETITIONS, runs: int = RUNS) -> list[Row]:
    """Measures a tool that reads and a tool that writes. The intent of a writing call must be on disk before the tool runs."""
    with _discarded_log():
        return [
            uvloop.run(_row(sinks, read_only, repetitions, runs))
            for sinks in (False, True)
            for read_only in (True, False)
        ]


async def _row(sinks: bool, read_only: bool, repetitions: int, runs: int) -> Row:
    """Measures runs of one round and of four rounds in turns; `sinks`: with trail, metrics and log."""
    script = _Script()
    provider = ScriptedProvider(script)
    async with _runtime(provider, sinks=sinks, read_only=read_only) as runtime:
        costs: list[tuple[float, float]] = []
        for _ in range(repetitions + 1):
            one = await _cpu_ms(runtime, provider, script, rounds=1, runs=runs)
            many = await _cpu_ms(runtime, provider, script, rounds=_MANY, runs=runs)
            costs.append(((many - one) / (_MANY - 1), one))
        rounds, whole = zip(*costs[1:], strict=True)  # the first one warms caches
    return Row(
        sinks="trail, metrics, log" if sinks else "none",
        tools="read" if read_only else "write",
        round_ms=statistics.median(rounds),
        run_ms=statistics.median(whole),
    )


def starts(requests: int = STARTS) -> list[Start]:
    """Measures the start of requests for two presets with 500 and 1,000 tools."""
    with _discarded_log():
        return [
            uvloop.run(_start(tools, preset, requests)) for tools in MANY_TOOLS for preset in ("compact", "default")
        ]


async def _start(tools: int, preset: str, requests: int) -> Start:
    """Measures first the time of requests, then their peak memory, then the memory that they leave in use."""
    asked_at: list[float] = []

    def answer(request: ModelRequest) -> Any:
        asked_at[:] = [time.process_time()]
        return say("That is done.")

    provider = ScriptedProvider(answer)
    runtime = Runtime(provider=provider, sources=[_many_tools(tools)], preset=preset, model="bench")
    costs = [await _started_ms(runtime, asked_at, number) for number in range(requests + 1)]
    tracemalloc.start()
    try:
        highest = [await _highest_bytes(runtime, provider, number) for number in range(_MEMORY_RUNS)]
        for number in range(2 * requests):
            if number == requests:  # by now numpy has filled its small caches
                before = await _traced(provider)
            await runtime.run(_message(number))
        left = await _traced(provider) - before
    finally:
        tracemalloc.stop()
    return Start(
        tools=tools,
        preset=preset,
        first_ms=costs[0],
        start_ms=statistics.median(costs[1:]),
        most_kb=statistics.median(highest) / 1024,
        left_bytes=max(0.0, left / requests),
    )


async def _started_ms(runtime: Runtime, asked_at: list[float], number: int) -> float:
    """Returns the CPU milliseconds from the start of a run to its model call. The scripted model writes the time of the call into
    `asked_at`."""
    started = time.process_time()
    await runtime.run(_message(number))
    return (asked_at[-1] - started) * 1000


async def _highest_bytes(runtime: Runtime, provider: ScriptedProvider, number: int) -> float:
    """Returns the peak memory of one run beyond the memory that was in use before it."""
    before = await _traced(provider)
    tracemalloc.reset_peak()
    await runtime.run(_message(number))
    return tracemalloc.get_traced_memory()[1] - before


async def _traced(provider: ScriptedProvider) -> int:
    """Returns the bytes in use after the event loop has dropped the timers of finished requests."""
    provider.requests.clear()
    await asyncio.sleep(0)
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _message(number: int) -> str:
    """Returns one of a few messages. Their words are looked up only once, so that this cost does not count."""
    return f"count the invoices of customer {number % _MEMORY_RUNS}"


def _many_tools(count: int) -> DefinitionSource:
    """Returns tools of the selection benchmark, all different."""
    return DefinitionSource("many", list(catalog(count)), origin="the benchmark")


class _Script:
    """A model that calls a tool for `rounds` rounds, then answers."""

    def __init__(self) -> None:
        self.rounds = 1
        self._asked = 0

    def __call__(self, request: ModelRequest) -> Any:
        self._asked += 1
        if self._asked % (self.rounds + 1) == 0:
            return say("That is done.")
        return call("count_invoice", {"number": self._asked})


async def _cpu_ms(runtime: Runtime, provider: ScriptedProvider, script: _Script, *, rounds: int, runs: int) -> float:
    """Returns the CPU milliseconds of one run with this number of rounds, mean over the runs."""
    script.rounds, script._asked = rounds, 0
    provider.requests.clear()
    gc.collect()
    started = time.process_time()
    for number in range(runs):
        await runtime.run(f"count the invoices of customer {number}")
    await asyncio.sleep(0.1)  # rows written after the answers count too
    return (time.process_time() - started) * 1000 / runs


@contextlib.asynccontextmanager
async def _runtime(provider: ScriptedProvider, *, sinks: bool, read_only: bool) -> AsyncIterator[Runtime]:
    sources = [FunctionSource("bench", _functions(read_only))]
    if not sinks:
        yield Runtime(provider=provider, sources=sources, model="bench")
        return
    with tempfile.TemporaryDirectory() as folder:
        async with Database(f"sqlite:///{folder}/bench.sqlite") as database:
            runtime = Runtime(
                provider=provider,
                sources=sources,
                model="bench",
                trail=Trail(database.events),
                sinks=(PrometheusSink(CollectorRegistry()), StructlogSink()),
                documents=database.store,
            )
            yield runtime
            await runtime.close()


def _functions(read_only: bool) -> Sequence[Callable[..., Coroutine[Any, Any, str]]]:
    things = ("invoice", "customer", "order", "shipment", "ticket", "employee", "project", "meeting")
    names = [f"{doing}_{thing}" for doing in ("count", "search", "list") for thing in things]
    return [
        tool(_function(name), name=name, category=name.split("_")[1], read_only=read_only) for name in names[:TOOLS]
    ]


def _function(name: str) -> Callable[..., Coroutine[Any, Any, str]]:
    """Returns a tool's function that answers at once."""

    async def answer(number: int, state: str = "open") -> str:
        return f"{number} {state}"

    answer.__doc__ = f"""{name.replace("_", " ").capitalize()}.

    Args:
        number: Number of the customer.
        state: Only entries in this state.
    """
    return answer


@contextlib.contextmanager
def _discarded_log() -> Any:
    """Makes log lines as the server does, and writes them to /dev/null."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        configure_logging()
        yield
    logging.getLogger().handlers.clear()


def missed(rows: Sequence[Row | Start]) -> list[str]:
    """Returns the goals that the rows miss."""
    return [
        f"{row.sinks} {row.tools}: {row.round_ms:.3f} ms a round"
        for row in rows
        if isinstance(row, Row) and row.round_ms >= row.goal_ms
    ]


def main(arguments: Sequence[str] = ()) -> list[Row | Start]:
    quick = "--quick" in arguments
    rows = run(repetitions=3) if quick else run()
    print(f"{'sinks':<22}{'tool':<8}{'a round, ms':>12}{'a run of one round, ms':>24}{'goal':>8}")
    for row in rows:
        met = "met" if row.round_ms < row.goal_ms else "MISSED"
        print(f"{row.sinks:<22}{row.tools:<8}{row.round_ms:>12.3f}{row.run_ms:>24.3f}{row.goal_ms:>8.1f} {met}")
    begun = starts(requests=40) if quick else starts()
    print(f"\n{'tools':>7} {'preset':<8}{'first, ms':>12}{'start, ms':>12}{'holds, KB':>12}{'left, bytes':>13}")
    for start in begun:
        print(
            f"{start.tools:>7,} {start.preset:<8}{start.first_ms:>12.1f}{start.start_ms:>12.3f}"
            f"{start.most_kb:>12.0f}{start.left_bytes:>13.0f}"
        )
    return [*rows, *begun]


if __name__ == "__main__":
    main(sys.argv[1:])
