"""A process that puts and does work with limits for each tenant, and writes each piece to a file."""

from __future__ import annotations

import asyncio
import sys

from toolcaddie.jobs.queue import DurableQueue, WorkKind
from toolcaddie.storage.database import Database

KIND = "pieces"


def queue_of(url: str, database: Database, path: str, pause: float, *, at_once: int, waiting: int) -> DurableQueue:
    async def do(payload: bytes) -> bytes:
        name = payload.decode()
        _write(path, f"begun {name}")
        await asyncio.sleep(pause)
        _write(path, f"ended {name}")
        return payload

    kind = WorkKind(do=do, at_once=10, tenant_at_once=at_once, tenant_waiting=waiting)
    return DurableQueue(url, database.store, {KIND: kind})


async def _main(url: str, path: str, pause: float, at_once: int, *names: str) -> None:
    async with (
        Database(url, lease=1.0) as database,
        queue_of(url, database, path, pause, at_once=at_once, waiting=100) as queue,
    ):
        for name in names:
            await queue.put(KIND, name, name.encode(), tenant=name[0])
        print("ready", flush=True)
        await asyncio.Event().wait()


def _write(path: str, line: str) -> None:
    with open(path, "a") as file:
        file.write(f"{line}\n")


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:]))
