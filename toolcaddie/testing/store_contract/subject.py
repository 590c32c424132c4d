"""The elements of the contract suite of stores: the store under test, and other processes that use the same store."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from toolcaddie.ports import Store

PATIENCE = 60.0
"""Seconds after which a check regards another process as hanging."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The store under test."""

    name: str
    """The store's name in error messages."""
    opened: Callable[[str], AbstractAsyncContextManager[Store]]
    """Opens the store at a place, which is an address, a file or a name. Its leases should last a second or less: checks wait for
    their end."""
    new_place: Callable[[], str]
    """Returns a place where nothing is stored yet. Each check calls it once."""
    factory: str = ""
    """`module:attribute` of `opened`, with which other processes open the store. Empty: only this process can reach the store,
    and two stores that are opened at the same place share nothing."""
    pass_time: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Lets this number of seconds pass for the clock of the store."""

    def __str__(self) -> str:
        return self.name


def is_shared(subject: Subject) -> bool:
    """Returns whether other processes can reach the store."""
    return bool(subject.factory)


@asynccontextmanager
async def opened(subject: Subject) -> AsyncIterator[Store]:
    """Yields the store, opened at a place where nothing is stored yet."""
    async with subject.opened(subject.new_place()) as store:
        yield store


@asynccontextmanager
async def worker(subject: Subject, place: str, job: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Yields another process, which does one of the jobs of `jobs.py` with the store at `place`. At the end it is killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "toolcaddie.testing.store_contract.jobs", subject.factory, place, job, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_of(process: asyncio.subprocess.Process) -> str:
    """Returns the next line that another process prints."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return (await process.stdout.readline()).decode().strip()


async def ended(process: asyncio.subprocess.Process) -> int:
    """Waits for another process, and returns its exit status."""
    async with asyncio.timeout(PATIENCE):
        return await process.wait()
