"""The process that measures configurations for a server, so that nothing of it runs beside the server's event loop.

It reads a `Measurement` from standard input, writes how far it is as lines of JSON to standard output, and last the outcome or
an error. It ends when its parent does, because its standard input ends then.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, Generic, TypeVar

import msgspec

from toolcaddie.app.build import existing
from toolcaddie.app.measuring import Configuration, finders
from toolcaddie.core.catalog import Catalog, Category
from toolcaddie.core.errors import ConfigError, ToolcaddieError
from toolcaddie.core.tool import Tool
from toolcaddie.evaluation.assess import Assessed, assess
from toolcaddie.evaluation.datasets import LabelledRequest, requests_in
from toolcaddie.evaluation.metrics import recall
from toolcaddie.evaluation.recorded import labelled, read_log
from toolcaddie.evaluation.records import checked_requests, comparisons_of, evaluation_record, interval_of, rounded

_NICE = 10
"""Lowers the priority to a tenth of that of other processes."""
_PAUSE = 0.2
"""Seconds between two lines about the progress."""
_LENGTH = 8
"""The number of bytes before a measurement that say how long it is."""
_MISSES = 100
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from toolcaddie.app.measuring_process import main; main()"
)

C = TypeVar("C")
Report = Callable[[str, int, int], None]


class MeasurementOf(msgspec.Struct, Generic[C], frozen=True, kw_only=True):
    """The requests and the configurations to measure. `C`: the form of a configuration; another one is stored."""

    configurations: tuple[C, ...]
    tools: tuple[Tool, ...]
    categories: tuple[Category, ...]
    requests: bytes | None
    """Labelled requests, one JSON object a line; None: those of the trail."""
    tenant: str | None
    """The tenant whose runs of the trail are read; None: all."""
    most: int
    """The largest number of requests; of the trail, the newest ones are taken."""
    runs: int
    """The largest number of runs of the trail that are read."""
    at: int = 5
    """The number of places that count for the recall."""
    seconds: float = 1_800.0
    """Seconds after which it is ended."""


Measurement = MeasurementOf[Configuration]


def started() -> subprocess.Popen[bytes]:
    """Starts the process without asyncio, which with uvloop would fork the whole server."""
    path = msgspec.json.encode([each for each in sys.path if each]).decode()
    return subprocess.Popen((sys.executable, "-c", _PROGRAM, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def send(measurement: Measurement, to: IO[bytes]) -> None:
    """Sends a measurement to the process. Its standard input stays open as long as it shall go on."""
    data = pickle.dumps(measurement)
    to.write(len(data).to_bytes(_LENGTH) + data)
    to.flush()


def main() -> None:
    """Measures what standard input says."""
    if sys.platform != "win32":
        os.nice(_NICE)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints to standard output writes to the log instead

    def write(message: dict[str, Any]) -> None:
        answers.write(msgspec.json.encode(message) + b"\n")
        answers.flush()

    source = sys.stdin.buffer
    # The server itself has written it, and nobody else can write to this pipe.
    measurement: Measurement = pickle.loads(source.read(int.from_bytes(source.read(_LENGTH))))
    threading.Thread(target=_end_with_parent, args=(source,), daemon=True).start()
    try:
        write({"outcome": asyncio.run(_outcome(measurement, _reporting(write)))})
    except (ToolcaddieError, ValueError) as error:
        write({"error": str(error)})
    os._exit(0)


def _end_with_parent(source: IO[bytes]) -> None:
    source.read()
    os._exit(1)


def _reporting(write: Callable[[dict[str, Any]], None]) -> Report:
    """Returns a function that writes how far the process is, not more often than is useful."""
    last_stage, last_time = "", 0.0

    def report(stage: str, completed: int, total: int) -> None:
        nonlocal last_stage, last_time
        now = time.monotonic()
        if stage == last_stage and completed < total and now < last_time + _PAUSE:
            return
        last_stage, last_time = stage, now
        write({"stage": stage, "completed": completed, "total": total})

    return report


async def _outcome(measurement: Measurement, report: Report) -> dict[str, Any]:
    catalog = Catalog.of(measurement.tools, measurement.categories, check_schemas=False)
    requests = await _requests(measurement, catalog, report)
    origin = "the trail" if measurement.requests is None else "the list"
    checked_requests(requests, catalog, origin=origin)
    report("preparing", 0, len(requests))
    async with finders(measurement.configurations, catalog, requests) as opened:
        assessed = [
            assess(finder, requests, on_progress=lambda n, all_, name=finder.name: report(name, n, all_))  # type: ignore[misc]
            for finder in opened
        ]
    report("computing the intervals", len(requests), len(requests))
    comparisons = comparisons_of(assessed, measurement.at)
    return {
        "record": evaluation_record(assessed, comparisons, catalog, requests, measurement.at),
        "verdicts": [each.verdict for each in comparisons],
        "curves": [_curve(each) for each in assessed],
        "misses": _misses(assessed, measurement.at),
    }


async def _requests(measurement: Measurement, catalog: Catalog, report: Report) -> Sequence[LabelledRequest]:
    if measurement.requests is not None:
        return requests_in(measurement.requests.splitlines(), origin="the list")[: measurement.most]
    async with existing(measurement.configurations[0].settings) as database:
        log = await read_log(
            database.events,
            limit=measurement.runs,
            tenant=measurement.tenant,
            on_progress=lambda n, all_: report("reading the trail", n, all_),
        )
    requests = labelled(log.runs, catalog)[-measurement.most :]
    if not requests:
        raise ConfigError(
            f"of {len(log.runs):,} recorded runs none called a tool of this catalog, so nothing says which tools were right"
        )
    return requests


def _curve(assessed: Assessed) -> dict[str, Any]:
    """Returns the recall at 1, 2, ... places, each with its interval."""
    points = [(rounded(each.value), *interval_of(each)) for each in assessed.recall_curve()]
    return {"name": assessed.name, "points": points}


def _misses(assessed: Sequence[Assessed], at: int) -> list[dict[str, Any]]:
    """Returns the requests that the first configuration served worst, with the places at which each configuration ranks their
    right tools."""
    rows = []
    by_request = [dict(zip(map(id, each.requests), each.outcomes, strict=True)) for each in assessed]
    for request, _ in assessed[0].misses(_MISSES):
        outcomes = [outcomes[id(request)] for outcomes in by_request]
        rows.append(
            {
                "request": request.messages[-1].text,
                "run_id": request.run_id,
                "tools": [
                    {
                        "name": name,
                        "places": [each.names.index(name) + 1 if name in each.names else None for each in outcomes],
                    }
                    for name in sorted(request.gold)
                ],
                "recall": [rounded(recall(each.names, request.gold, at)) for each in outcomes],
            }
        )
    return rows
