"""The time of `toolcaddie db copy`: python -m benchmarks.db_copy [EVENTS]

A database is filled with a run of the gym, many times, until it has that many events (100,000). It is copied from a file to a
PostgreSQL server that is started for it, and back to a file. Each copy is a process of its own. Printed are rows, seconds and the
largest memory of the process; the figures are of the machine that runs it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile

from tests import postgresql
from toolcaddie.audit.trail import Trail
from toolcaddie.runtime import Runtime
from toolcaddie.samples import gym
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, calls, say
from toolcaddie.util.replacing import replace

_AT_ONCE = 20
_COPY = """
import json, re, sys
from pathlib import Path
from toolcaddie.storage.copying import copy_database

copy = copy_database(sys.argv[1], sys.argv[2])
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1_024
print(json.dumps([sum(copy.tables.values()), copy.verification.checked, copy.seconds, peak]))
"""


async def _fill(url: str, events: int) -> None:
    """Records one run of the gym under as many ids as there are events for."""
    async with Database(url) as database:
        script = [calls(("show_membership", {"client_id": 10883})), say("Done.")]
        runtime = Runtime(provider=ScriptedProvider(script), sources=[gym.source()], trail=Trail(database.events))
        run = await runtime.run("show John's membership")
        await database.events.flush()
        records = await database.events.events(run.run_id)
        for number in range(events // len(records)):
            for record in records:
                database.events.append(replace(record, run_id=f"run_{number}"))
            if number % _AT_ONCE == 0:
                await database.events.flush()


def _copy(name: str, source: str, target: str) -> None:
    done = subprocess.run([sys.executable, "-c", _COPY, source, target], stdout=subprocess.PIPE, check=True)
    rows, checked, seconds, peak = json.loads(done.stdout)
    print(f"{name:24} {rows:>9,} rows, {checked:>9,} of the trail checked, {seconds:6.1f} s, {peak:4.0f} MB")


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder, postgresql.server() as server, postgresql.schema(server) as schema:
        source = f"sqlite:///{folder}/source.sqlite"
        asyncio.run(_fill(source, events))
        _copy("SQLite to PostgreSQL", source, schema)
        _copy("PostgreSQL to SQLite", schema, f"sqlite:///{folder}/back.sqlite")


if __name__ == "__main__":
    main()
