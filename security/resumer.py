"""A process that resumes all runs that wait in a database until it is killed: python -m security.resumer URL. `security.resumes`
starts it."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from typing import Any

from security import tools
from security.model import answer_in_process
from security.recorded import Book
from toolcaddie import Decision, Runtime
from toolcaddie.audit.trail import Trail
from toolcaddie.core.call_request import CallRequest
from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, RunError
from toolcaddie.core.storage import RunQuery
from toolcaddie.storage.database import Database
from toolcaddie.storage.runs import StoredRuns
from toolcaddie.testing import ScriptedProvider

LEASE = 1.0
TOGETHER = 4


class AsksOnce:
    """A policy that asks a person about the first entry of each request."""

    version = "1"

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        return None

    async def decide(self, request: CallRequest) -> Decision:
        asks = str(request.arguments.get("entry", "")).endswith("-1")
        return Decision(verdict="ask" if asks else "allow", rule="first entries are asked about")


def runtime_over(database: Database, script: Any, **options: Any) -> Runtime:
    return Runtime(
        provider=ScriptedProvider(script),
        sources=[tools.write_entry, tools.count_entries],
        trail=Trail(database.events),
        documents=database.store,
        **options,
    )


def finished(book: Book) -> Sequence[str]:
    """Returns the runs that are not completed."""
    return [str(run_id) for (run_id,) in book.rows("select run_id from runs where status <> 'completed'")]


async def main(url: str) -> None:
    async with Database(url, lease=LEASE) as database:
        await database.leases.own()
        print("ready", flush=True)
        runtime = runtime_over(database, answer_in_process, policy=AsksOnce())
        await asyncio.gather(*(_resume_all(database, runtime) for _ in range(TOGETHER)))


async def _resume_all(database: Database, runtime: Runtime) -> None:
    while True:
        runs = [run.run_id for run in await database.events.runs(RunQuery(limit=1_000)) if run.status != "completed"]
        random.shuffle(runs)
        for run_id in runs:
            await _resume(database, runtime, run_id)
        await asyncio.sleep(0.05)


async def _resume(database: Database, runtime: Runtime, run_id: str) -> None:
    try:
        stored = await StoredRuns(database.store).find(run_id, None)
        approvals = {item.call.id: True for item in stored.state.pending if item.waiting}
        await runtime.resume(run_id, approvals=approvals)
    except (RequestError, RunError) as error:  # another process was faster, or the run no longer exists
        print(run_id, type(error).__name__, error, file=sys.stderr, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
