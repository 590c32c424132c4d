"""`web_fetch` against servers that want to hold it up or fill its memory: each call ends in time, and memory grows little."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from security.hostile_pages import HOSTILE
from security.internet import Names, Wire, served
from tests.durations import shortest
from toolcaddie import PracticeModel, Runtime
from toolcaddie.guards.net import AddressInfo, guarded_client
from toolcaddie.parts import Parts
from toolcaddie.tools.web.settings import FetchSettings
from toolcaddie.tools.web.source import WebSource

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system does not tell its peak memory"),
]

ROOT = Path(__file__).parents[2]
TIMEOUT = 1.0
GRACE = 0.5
MOST_MEMORY = 64 * 1024 * 1024
READABLE = {"nests JSON", "has only brackets", "has a million links", "imitates markers", "nests formatting"}
"""Pages that are odd, and read all the same where the machine is fast enough."""


@pytest.fixture(scope="module")
def ports() -> Iterator[Mapping[str, int]]:
    """The ports of the hostile servers, which run in a process of their own, so that their memory is not counted."""
    process = subprocess.Popen(
        [sys.executable, "-m", "security.hostile_pages"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())
    process.communicate()


def source(port: int) -> WebSource:
    """A source for which every public name leads to a port of this machine."""
    names = Names()

    def client(**options: Any) -> Any:
        return guarded_client(resolver=names, open_socket=Wire(port), **options)

    return WebSource(None, fetch=FetchSettings(timeout=TIMEOUT, cache_ttl=0), parts=Parts(guarded_client=client))


@contextmanager
def little_memory() -> Iterator[None]:
    """Fails if the process grows in the block by more than it may."""
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    yield
    assert memory("VmHWM") - before < MOST_MEMORY


def memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


async def fetched(port: int) -> tuple[float, Any]:
    """The seconds that a call takes, and its result."""
    async with Runtime(provider=PracticeModel(), sources=[source(port)]) as runtime:
        began = time.monotonic()
        result = await runtime.call("web_fetch", {"url": "http://example.com/"})
        return time.monotonic() - began, result


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_server_is_left_in_time_and_with_little_memory(name: str, ports: Mapping[str, int]) -> None:
    async def duration() -> float:
        with little_memory():
            seconds, result = await fetched(ports[name])
        assert len(result.text) < 60_000
        assert result.is_error or name in READABLE
        return seconds

    assert await shortest(duration, under=TIMEOUT + GRACE) < TIMEOUT + GRACE


async def test_all_of_them_at_once_end_in_time_and_with_little_memory_and_hold_up_no_good_page(
    ports: Mapping[str, int],
) -> None:

    class Anywhere(Wire):
        def __call__(self, address: AddressInfo) -> Any:
            self._port = address[4][1]
            return super().__call__(address)

    def client(**options: Any) -> Any:
        return guarded_client(resolver=Names(), open_socket=Anywhere(), **options)

    async with served(lambda _: web.Response(text="fine")) as good:
        settings = FetchSettings(timeout=TIMEOUT, cache_ttl=0, ports=(good, *ports.values()))
        web_source = WebSource(None, fetch=settings, parts=Parts(guarded_client=client))
        async with Runtime(provider=PracticeModel(), sources=[web_source]) as runtime:

            async def seconds_of(port: int) -> float:
                began = time.monotonic()
                await runtime.call("web_fetch", {"url": f"http://example.com:{port}/"})
                return time.monotonic() - began

            async def duration() -> float:
                with little_memory():
                    hostile = [asyncio.create_task(seconds_of(port)) for port in ports.values()]
                    waits = [await seconds_of(good) for _ in range(20)]
                    medians.append(sorted(waits)[10])
                    return max(await asyncio.gather(*hostile))

            # Twice the goal, because the readers' processes may take all of a small machine.
            medians: list[float] = []
            most = TIMEOUT + 2 * GRACE
            assert await shortest(duration, under=most) < most
            assert min(medians) < 0.5
