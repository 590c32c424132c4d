"""How long pages of the console take on a large database: python -m benchmarks.console_pages [--runs 100000] [--database FILE]

Makes an SQLite database with runs of ten events each (or uses one that an earlier call made), starts the console in this process,
and opens every page of `PAGES` one after the other. A page is served by the product's own application, without a network. The
goal is a 95th percentile below 100 ms for each.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import sqlite3
import statistics
import sys
import time
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolcaddie.app.build import assembled
from toolcaddie.app.settings import Settings
from toolcaddie.core.control import Principal
from toolcaddie.doors.cli.serve import COLLECTIONS
from toolcaddie.doors.console.complete import console_of
from toolcaddie.storage.database import Database

GOAL = 100.0
"""Milliseconds."""
EVENTS = 10
"""Events of a run."""

PAGES: Sequence[str] = (
    "/console/runs",
    "/console/runs?before={middle},run_x",
    "/console/runs?status=failed",
    "/console/runs?status=pending",
    "/console/runs?principal=person_7",
    "/console/runs?principal=nobody",
    "/console/runs?bot=desk",
    "/console/runs?tool=tool_3",
    "/console/runs?tool=rare_tool",
    "/console/runs?tool=tool_3&status=failed&principal=person_7&bot=desk",
    "/console/runs?text=needle",
    "/console/runs?text=not+in+any+message",
    "/console/runs?since=2026-01-01T00:00&until=2026-01-02T00:00",
    "/console/runs/{run}",
    "/console/runs/{run}?tool=tool_3",
    "/console/runs/{run}/events",
    "/console/runs/{long}",
    "/console/runs/{whole}",
)
"""The pages. `{middle}` is the start of a run in the middle of the list, `{run}` the id of a run, `{long}` that of one with 4,000
events, `{whole}` that of a run to which 10,000 tools were sent."""

_FIRST = 1_767_225_600.0
_SPACING = 20.0
"""Seconds between the starts of two runs."""
_TOOLS = 200
_LONG, _WHOLE = "run_long", "run_whole"


class Row(Struct, frozen=True, kw_only=True):
    """The times of a page in milliseconds, and its size in kilobytes."""

    page: str
    status: int
    p50: float
    p95: float
    worst: float
    kilobytes: float


def fill(path: Path, runs: int) -> None:
    """Makes the database."""
    asyncio.run(_migrate(path))
    chance = random.Random(17)
    with sqlite3.connect(path) as database:
        database.execute("pragma synchronous = off")
        for start in range(0, runs, 5_000):
            numbers = range(start, min(runs, start + 5_000))
            made = [_run(number, chance) for number in numbers]
            _insert(database, made)
        _insert(database, [_long_run(runs), _whole_run(runs + 1)])
    with sqlite3.connect(path) as database:
        database.execute("pragma wal_checkpoint(truncate)")


async def _migrate(path: Path) -> None:
    async with Database(f"sqlite:///{path}"):
        pass


Made = tuple[tuple[Any, ...], list[tuple[str, int, float, str, str]], set[str]]
"""The row of a run, the rows of its events, and its tools."""


def _insert(database: sqlite3.Connection, made: Sequence[Made]) -> None:
    columns = "run_id, started, message, status, principal, preset, calls, rounds, seconds, owner, tenant, bot"
    marks = ", ".join("?" * 12)
    database.executemany(f"insert into runs ({columns}) values ({marks})", [run for run, _, _ in made])
    events = [event for _, events, _ in made for event in events]
    database.executemany("insert into events (run_id, seq, at, kind, data) values (?, ?, ?, ?, ?)", events)
    tools = [(run[0], tool, run[1]) for run, _, names in made for tool in names]
    database.executemany("insert into run_tools (run_id, tool, started) values (?, ?, ?)", tools)


def _run(number: int, chance: random.Random) -> Made:
    run_id, at = f"run_{number:032x}", _FIRST + number * _SPACING
    status = chance.choices(("completed", "failed", "pending"), (94, 5, 1))[0]
    person, bot = f"person_{chance.randrange(500)}", chance.choice(("desk", "hall", None))
    message = (
        f"please {'find the needle' if number % 40_000 == 7 else 'freeze the membership'} of client {number}, "
        + ("and tell me what it costs. " * chance.randrange(6))
    )
    tool = "rare_tool" if number % 50_000 == 11 else f"tool_{chance.randrange(6)}"
    row = (run_id, at, message, status, person, "default", 1, 2, 1.5, None, "default", bot)
    facts = list(_facts(message, person, bot, tool, [f"tool_{n}" for n in range(20)], status))
    return row, _events(run_id, at, facts), {tool}


def _facts(
    message: str, person: str, bot: str | None, tool: str, names: Sequence[str], status: str
) -> Iterator[tuple[str, Any]]:
    one = {"id": "call_1", "name": tool, "arguments": '{"client": "John"}'}
    usage = {"input": 900, "output": 40, "cached": 500, "written": 0, "reasoning": 0}
    principal = {"id": person, "bot": bot, "role": None, "tenant": "default", "channel": "gateway"}
    yield (
        "run_started",
        {"principal": principal, "preset": "default", "model": "m", "message": message, "catalog_size": _TOOLS},
    )
    yield (
        "tools_selected",
        {
            "tools": [
                {"name": name, "category": "clients", "score": 0.5, "reasons": ["keyword: client"]} for name in names
            ],
            "dropped": [
                {"name": f"tool_{n}", "stage": "floor", "detail": "0.1 is below", "score": 0.1} for n in range(150, 200)
            ],
            "dropped_by_stage": {"floor": 50, "no_match": 130},
            "counts": {"catalog": _TOOLS, "selected": len(names)},
            "seconds": 0.01,
        },
    )
    delivery = {
        "round": 1,
        "strategy": "direct",
        "meta": [],
        "tools": list(names),
        "tokens": {"all": 9000, "sent": 900},
    }
    yield "tools_delivered", delivery | {"note": "the best of the selection", "later_by": "array"}
    yield "model_asked", {"round": 1, "provider": "openai", "model": "m", "tools": len(names)}
    yield "model_answered", {"round": 1, "text": "", "calls": [one], "usage": usage, "model": "m", "seconds": 0.7}
    yield "call_decided", {**one, "verdict": "allow", "reason": "", "rule": "default"}
    yield "call_finished", {**one, "content": "{}", "seconds": 0.1, "number": 1}
    yield "model_asked", {"round": 2, "provider": "openai", "model": "m", "tools": len(names)}
    yield (
        "model_answered",
        {"round": 2, "text": "It is done.", "calls": [], "usage": usage, "model": "m", "seconds": 0.6},
    )
    yield "run_finished", {"status": status, "text": "It is done.", "calls": 1, "rounds": 2, "seconds": 1.5}


def _long_run(number: int) -> Made:
    at = _FIRST + number * _SPACING
    head = list(_facts("a long one", "ann", None, "tool_1", ["tool_1"], "completed"))
    rounds = [fact for _ in range(1_000) for fact in head[3:7]]
    row = (_LONG, at, "a long one", "completed", "ann", "default", 1_000, 1_000, 99.0, None, "default", None)
    return row, _events(_LONG, at, [*head[:3], *rounds, *head[-3:]]), {"tool_1"}


def _whole_run(number: int) -> Made:
    at = _FIRST + number * _SPACING
    facts = list(_facts("all tools", "ann", None, "tool_1", [f"tool_{n}" for n in range(10_000)], "completed"))
    row = (_WHOLE, at, "all tools", "completed", "ann", "default", 1, 2, 1.0, None, "default", None)
    return row, _events(_WHOLE, at, facts), {"tool_1"}


def _events(run_id: str, at: float, facts: Sequence[tuple[str, Any]]) -> list[tuple[str, int, float, str, str]]:
    return [
        (run_id, seq, at + seq * 0.1, kind, json.dumps(data, separators=(",", ":")))
        for seq, (kind, data) in enumerate(facts, start=1)
    ]


async def measured(path: Path, runs: int, repetitions: int) -> list[Row]:
    """Returns the times of all pages."""
    async with assembled(Settings(database_url=f"sqlite:///{path}"), create=False) as parts:
        console = console_of(parts, None)
        assert console is not None
        _, key = await parts.keys.add(f"bench {time.time()}", Principal(id="ada", role="admin"))
        words = {
            "middle": _FIRST + runs // 2 * _SPACING,
            "run": f"run_{runs // 2:032x}",
            "long": _LONG,
            "whole": _WHOLE,
        }
        cookie = await _signed_in(console, key)
        gc.freeze()  # as `toolcaddie serve` does when it has started
        gc.set_threshold(*COLLECTIONS)
        rows = []
        for page in PAGES:
            address = page.format(**words)
            times = []
            for _ in range(repetitions):
                begun = time.perf_counter()
                status, body, _ = await _asked(console, "GET", address, cookie=cookie)
                times.append((time.perf_counter() - begun) * 1000)
            rows.append(
                Row(
                    page=page,
                    status=status,
                    p50=round(statistics.median(times), 1),
                    p95=round(sorted(times)[max(0, int(len(times) * 0.95) - 1)], 1),
                    worst=round(max(times), 1),
                    kilobytes=round(len(body) / 1024, 1),
                )
            )
        return rows


async def _signed_in(console: Any, key: str) -> str:
    """Returns the cookies of a person who signed in."""
    _, body, cookies = await _asked(console, "GET", "/console/sign-in")
    token = body.decode().partition('name="token" value="')[2].partition('"')[0]
    form = f"token={token}&key={key}&next=/console/runs".encode()
    _, _, more = await _asked(console, "POST", "/console/sign-in", cookie=cookies, body=form)
    return "; ".join(filter(None, (cookies, more)))


async def _asked(
    console: Any, method: str, address: str, *, cookie: str = "", body: bytes = b""
) -> tuple[int, bytes, str]:
    """Returns the status, the body and the cookies of an answer."""
    path, _, query = address.partition("?")
    headers = [(b"host", b"127.0.0.1"), (b"accept", b"text/html"), (b"cookie", cookie.encode())]
    if method == "POST":
        headers += [(b"origin", b"http://127.0.0.1"), (b"content-type", b"application/x-www-form-urlencoded")]
        headers += [(b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": headers}
    scope |= {"client": ("127.0.0.1", 1), "scheme": "http"}
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await console(scope, receive, send)
    cookies = [value.decode().partition(";")[0] for name, value in sent[0]["headers"] if name == b"set-cookie"]
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]), "; ".join(cookies)


def missed(rows: Sequence[Row]) -> Sequence[str]:
    """Returns a sentence for each goal that was missed."""
    failed = [f"{row.page} answers with status {row.status}" for row in rows if row.status != 200]
    return [*failed, *(f"{row.page} takes {row.p95} ms (p95), the goal is {GOAL:g}" for row in rows if row.p95 >= GOAL)]


def main(arguments: Sequence[str]) -> Sequence[Row]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--database", type=Path, default=Path("console_pages.sqlite"))
    options = parser.parse_args(arguments)
    if not options.database.exists():
        fill(options.database, options.runs)
    rows = asyncio.run(measured(options.database, options.runs, options.repetitions))
    for row in rows:
        print(f"{row.p50:8.1f} {row.p95:8.1f} {row.worst:8.1f} ms {row.kilobytes:8.1f} kB  {row.status}  {row.page}")
    for sentence in missed(rows):
        print(f"MISSED: {sentence}")
    return rows


if __name__ == "__main__":
    sys.exit(bool(missed(main(sys.argv[1:]))))
