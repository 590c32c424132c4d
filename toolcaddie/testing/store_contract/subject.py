"""The store that is checked, and other processes that use it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from toolcaddie.ports import Store

PATIENCE = 60.0
"""Seconds after which another process counts as hanging."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A store, and how to open it."""

    name: str
    opened: Callable[[str], AbstractAsyncContextManager[Store]]
    """Opens the store at a place: an address, a file, a name. With a lease of a second or less, or the checks take long."""
    new_place: Callable[[], str]
    """Names an empty place; called once for each check."""
    factory: str = ""
    """`module:attribute` of `opened`, for other processes. Empty: only this process can reach the store, and two stores that are
    opened at one place share nothing."""
    pass_time: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Lets seconds pass for the store's clock."""

    def __str__(self) -> str:
        return self.name


def is_shared(subject: Subject) -> bool:
    return bool(subject.factory)


@asynccontextmanager
async def opened(subject: Subject) -> AsyncIterator[Store]:
    """Yields the store at an empty place."""
    async with subject.opened(subject.new_place()) as store:
        yield store


@asynccontextmanager
async def worker(subject: Subject, place: str, job: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Yields another process that does one of the jobs of `jobs.py` on the store at `place`; it is killed at the end."""
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
