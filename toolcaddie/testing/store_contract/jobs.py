"""Jobs that the contract suite of stores lets another process do with the store under test.

It starts `python -m toolcaddie.testing.store_contract.jobs FACTORY PLACE JOB ...`; `FACTORY` is the `module:attribute` that opens
the store, and the arguments after `JOB` are those of the job's function.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from itertools import count

from toolcaddie.core.errors import StorageError
from toolcaddie.ports import Store

KIND = "contract"
"""The kind of all documents in the checks."""


async def increment(store: Store, key: str, times: str) -> None:
    """Adds 1 to the number in a document `times` times, with `compare_and_set` only."""
    for _ in range(int(times)):
        while True:
            before = await store.get(KIND, key)
            after = b"%d" % (int(before or b"0") + 1)
            if await store.compare_and_set(KIND, key, after, expected=before):
                break


async def append(store: Store, stream: str, name: str, times: str) -> None:
    """Appends `times` pairs of entries. Each entry has the name of this process, the number of the pair, and `a` or `b`."""
    for number in range(int(times)):
        await store.append(stream, [f"{name} {number} {half}".encode() for half in ("a", "b")])


async def write_pairs(store: Store) -> None:
    """Writes two documents together, over and over, until it is killed."""
    for number in count():
        await store.put_many(KIND, {"left": b"%d" % number, "right": b"%d" % number})
        if number == 0:
            _say("writing")


async def hold(store: Store) -> None:
    """Takes a lease and prints its number. When it reads a line, it writes under the lease and prints `written` or `refused`."""
    number = await store.lease()
    _say(str(number))
    await asyncio.to_thread(sys.stdin.readline)
    try:
        await store.put(KIND, "late", b"x", owner=number)
    except StorageError:
        _say("refused")
    else:
        _say("written")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


JOBS: Mapping[str, Callable[..., Awaitable[None]]] = {
    job.__name__: job for job in (increment, append, write_pairs, hold)
}


async def main(factory: str, place: str, job: str, *arguments: str) -> None:
    module, _, attribute = factory.partition(":")
    async with getattr(import_module(module), attribute)(place) as store:
        await JOBS[job](store, *arguments)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
