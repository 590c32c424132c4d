"""If the live list of runs follows without loss: python -m benchmarks.console.live [--rate 500] [--seconds 20]

The trail gets that many runs a second, of ten events each, while several people watch the list over real connections. Each must
be told every run, and its end. A watcher that breaks off in the middle and comes back must miss none. The delay is the time
from the moment at which the end of a run was recorded until the watcher has it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn
from msgspec import Struct

from toolcaddie.app.build import Assembled, assembled
from toolcaddie.app.settings import Settings
from toolcaddie.core.control import Principal
from toolcaddie.core.storage import EventRecord
from toolcaddie.doors.console.complete import console_of
from toolcaddie.doors.gateway.app import create_app

_TICK = 0.02
_PATIENCE = 30.0
"""Seconds for which a watcher is waited for after the last run."""


class Row(Struct, frozen=True, kw_only=True):
    """The news that one person who watches has got."""

    watcher: str
    rate: float
    """Runs a second that were recorded."""
    runs: int
    told: int
    ended: int
    """Runs whose end was told."""
    delay_p50: float
    """Milliseconds."""
    delay_p95: float


async def measured(rate: int, seconds: float, watchers: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            assembled(Settings(database_url=f"sqlite:///{Path(folder) / 'live.sqlite'}")) as parts,
            _served(parts) as url,
        ):
            _, key = await parts.keys.add("bench", Principal(id="ada", role="admin"))
            headers = {"authorization": f"Bearer {key}", "accept": "application/json"}
            total = int(rate * seconds)
            ends: dict[str, float] = {}
            names = [*(f"watcher {number}" for number in range(1, watchers + 1)), "comes back"]
            tasks = [
                asyncio.create_task(_watch(url, headers, total, ends, breaks=name == "comes back")) for name in names
            ]
            begun = time.monotonic()
            await _record(parts, rate, total, ends)
            took = time.monotonic() - begun
            results = await asyncio.gather(*tasks)
        return [_row(name, total / took, total, *result) for name, result in zip(names, results, strict=True)]


@contextlib.asynccontextmanager
async def _served(parts: Assembled) -> AsyncIterator[str]:
    console = console_of(parts, None)
    assert console is not None
    app = create_app(parts, mounts=dict.fromkeys(console.paths, console))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  the server has no event for it
        await asyncio.sleep(_TICK)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        await app.close()


async def _record(parts: Assembled, rate: int, total: int, ends: dict[str, float]) -> None:
    """Records runs at that rate."""
    begun, number = time.monotonic(), 0
    while number < total:
        due = min(total, int((time.monotonic() - begun) * rate) + 1)
        for number in range(number, due):  # noqa: B020
            run_id = f"run_{number:08}"
            for seq, (kind, data) in enumerate(_FACTS, start=1):
                parts.event_log.append(EventRecord(run_id=run_id, seq=seq, at=time.time(), kind=kind, data=data))
            ends[run_id] = time.monotonic()
        number = due
        await asyncio.sleep(_TICK)
    await parts.event_log.flush()


_ONE = {"id": "call_1", "name": "freeze", "arguments": "{}"}
_FACTS: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("run_started", {"message": "freeze John", "principal": {"id": "ann"}, "preset": "default"}),
    ("tools_selected", {"tools": [], "dropped": [], "counts": {"catalog": 0, "selected": 0}}),
    ("tools_delivered", {"round": 1, "strategy": "direct", "tools": [], "meta": []}),
    ("model_asked", {"round": 1, "provider": "p", "model": "m", "tools": 0}),
    ("model_answered", {"round": 1, "text": "", "calls": [_ONE], "usage": {"input": 1, "output": 1, "cached": 0}}),
    ("call_decided", {**_ONE, "verdict": "allow", "reason": "", "rule": "default"}),
    ("call_finished", {**_ONE, "content": "{}", "seconds": 0.1, "number": 1}),
    ("model_asked", {"round": 2, "provider": "p", "model": "m", "tools": 0}),
    ("model_answered", {"round": 2, "text": "done", "calls": [], "usage": {"input": 1, "output": 1, "cached": 0}}),
    ("run_finished", {"status": "completed", "calls": 1, "rounds": 2, "seconds": 0.5, "text": "done"}),
)


async def _watch(
    url: str, headers: Mapping[str, str], total: int, ends: Mapping[str, float], *, breaks: bool
) -> tuple[Mapping[str, str], Sequence[float]]:
    """Returns the last status of each run that was told, and the delays. `breaks`: the connection is closed once in between."""
    statuses: dict[str, str] = {}
    delays: list[float] = []
    last, limit = "0", None
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(sock_read=_PATIENCE)) as web:
        while sum(status == "completed" for status in statuses.values()) < total:
            more = {"last-event-id": last}
            async with web.get(f"{url}/console/runs/live?after=0", headers={**headers, **more}) as answer:
                async for line in answer.content:
                    text = line.decode().rstrip("\n")
                    if text.startswith("id: "):
                        last = text[4:]
                    if not text.startswith("data: "):
                        continue
                    now = time.monotonic()
                    for run in json.loads(text[6:])["runs"]:
                        if run["status"] == "completed" and statuses.get(run["run_id"]) != "completed":
                            delays.append(now - ends.get(run["run_id"], now))
                        statuses[run["run_id"]] = run["status"]
                    ended = sum(status == "completed" for status in statuses.values())
                    if ended >= total or (breaks and limit is None and len(statuses) > total // 2):
                        limit = total
                        break
    return statuses, delays


def _row(name: str, rate: float, total: int, statuses: Mapping[str, str], delays: Sequence[float]) -> Row:
    ordered = sorted(delays) or [0.0]
    return Row(
        watcher=name,
        rate=round(rate, 1),
        runs=total,
        told=len(statuses),
        ended=sum(status == "completed" for status in statuses.values()),
        delay_p50=round(statistics.median(ordered) * 1000, 1),
        delay_p95=round(ordered[int(len(ordered) * 0.95) - 1] * 1000, 1),
    )


def missed(rows: Sequence[Row]) -> Sequence[str]:
    """Returns a sentence for each loss."""
    return [
        f"{row.watcher} was told {row.told} of {row.runs} runs, and {row.ended} ends"
        for row in rows
        if (row.told, row.ended) != (row.runs, row.runs)
    ]


def main(arguments: Sequence[str]) -> Sequence[Row]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--watchers", type=int, default=3)
    options = parser.parse_args(arguments)
    rows = asyncio.run(
        asyncio.wait_for(measured(options.rate, options.seconds, options.watchers), options.seconds * 4 + 60)
    )
    for row in rows:
        print(
            f"{row.watcher:12} {row.rate:7.1f} runs/s  told {row.told}/{row.runs}, ended {row.ended}  "
            f"delay p50 {row.delay_p50} ms, p95 {row.delay_p95} ms"
        )
    for sentence in missed(rows):
        print(f"MISSED: {sentence}")
    return rows


if __name__ == "__main__":
    sys.exit(bool(missed(main(sys.argv[1:]))))
