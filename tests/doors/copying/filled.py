"""A database in which every table has rows, written by the product's own parts, and what the product answers from it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.doors.commandline import CommandLine
from toolcaddie.control.policy.cedar import CedarPolicy
from toolcaddie.core.control import Principal
from toolcaddie.core.jobs import Every, NewJob
from toolcaddie.core.key_limits import Amounts, KeyLimits, KeyUsage
from toolcaddie.jobs.desk import JobDesk
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, calls, say

ROOT = Path(__file__).parents[3]
DAY = 86_400.0
LEASE = 0.3
ODD_KEY = "ann/\0 \1 \N{SNOWMAN} \U0001f980"
VALUE = bytes(range(256))


def filled(folder: Path) -> str:
    """Fills the new database `filled.sqlite` in a process that is killed in the end, and returns the secret of a key."""
    url = f"sqlite:///{folder}/filled.sqlite"
    command = [sys.executable, "-c", f"from tests.doors.copying.filled import fill; fill({url!r})"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 9
    return done.stdout.split()[-1]


def fill(url: str) -> None:
    """Fills a database, prints the secret of a key, and leaves a lease behind as a process does that is killed."""
    line = CommandLine(Path.cwd())
    for message in ("freeze John's membership", "hello"):
        line.ok("run", message, "--catalog", "gym", "--database-url", url)
    asyncio.run(_prune(url))
    line.ok("run", "show John's invoices \N{SNOWMAN}", "--catalog", "gym", "--database-url", url)
    print(asyncio.run(_fill(url)), flush=True)
    asyncio.run(_die(url))


def answers(line: CommandLine, url: str) -> dict[str, Any]:
    """Answers of commands from a database."""
    words = {
        "runs": ("trail",),
        "approvals": ("approvals", "list"),
        "keys": ("keys", "list"),
        "jobs": ("jobs", "list"),
        "check": ("audit", "verify"),
    }
    found = {name: line.json(*command, "--database-url", url) for name, command in words.items()}
    held = line.json("db", "stats", "--database-url", url)
    for size in ("size", "free"):
        del held["held"][size]
    return {**found, "held": held, "rows": line.ok("audit", "export", "--database-url", url), **asyncio.run(_read(url))}


async def _prune(url: str) -> None:
    async with Database(url, clock=lambda: time.time() + 100 * DAY) as database:
        assert (await database.retention.prune(90 * DAY, by="ann")).runs == 2


async def _fill(url: str) -> str:
    @tool(destructive=True)
    def remove(name: str) -> str:
        """Remove somebody."""
        return f"removed {name}"

    async with Database(url) as database:
        store = database.store
        runtime = Runtime(
            provider=ScriptedProvider([calls(("remove", {"name": "john"})), say("done")]),
            sources=[remove],
            documents=store,
            policy=CedarPolicy(),
        )
        await runtime.run("remove john", principal=Principal(id="ann", role="admin"))
        key, secret = await database.keys.add("laptop", Principal(id="ann"), limits={"requests_per_day": 10})
        await database.meter.reserve(key.id, Amounts(requests=1), KeyLimits(requests_per_day=10))
        database.meter.record(
            KeyUsage(
                key_id=key.id, day="2026-11-28", model="m", requests=1, input_tokens=2**40, output_tokens=1,
                cached_tokens=0, money=1, unpriced=0, estimated=0,
            )
        )  # fmt: skip
        await store.put("draft", ODD_KEY, VALUE)
        await store.put("draft", "expiring", b"x", ttl=3600)
        await store.append("notes", [b"first", VALUE])
        desk = JobDesk(rows=database.jobs, store=store, zone="UTC")
        owner = Principal(id="ann", bot="reception")
        job = await desk.add(NewJob(text="Drink water", name="Water", schedule=Every(every_ms=3_600_000), owner=owner))
        await database.jobs.request(job.id, 1_000_000.0)
        await database.figures.advance(lambda model: None)
        return secret


async def _die(url: str) -> None:
    async with Database(url, lease=LEASE) as database:
        await database.leases.own()
        os._exit(9)


async def _read(url: str) -> dict[str, Any]:
    async with Database(url) as database:
        store = database.store
        return {
            "document": await store.get("draft", ODD_KEY),
            "documents": [(each.key, each.value) for each in (await store.scan("draft")).documents],
            "log": await store.read("notes"),
            "tools": await database.figures.names("tools", "all", None),
            "progress": await database.figures.progress(),
            "usage": await database.meter.usage(first="2026-11-01", last="2026-12-01"),
            "slots": await database.jobs.open_slots(),
        }
