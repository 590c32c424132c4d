"""The client of the gateway benchmark. It has several connections; each sends its next request as soon as the last one is
answered."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import aiohttp

from benchmarks.servers import Server


class WrongAnswerError(Exception):
    """A server gave a wrong answer, so its figures would mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Figures of one block of requests to one server, in milliseconds."""

    requests: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    cpu_ms: float
    """CPU of the server's process per request."""
    per_second: float


class Load:
    """Sends the same bodies to servers. The connections of `session` stay open between blocks of requests, as those of clients
    do."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def block(
        self, server: Server, bodies: Sequence[bytes], *, connections: int, requests: int, seconds: float
    ) -> Measured:
        """Sends at most `requests` requests, none of which begins after `seconds`. Raises `WrongAnswerError` if an answer is not
        the expected one."""
        times: list[float] = []
        waiting = itertools.islice(itertools.cycle(bodies), requests)
        cpu, started = server.cpu_seconds(), time.perf_counter()
        workers = (self._worker(server, waiting, started + seconds, times) for _ in range(connections))
        await asyncio.gather(*workers)
        wall, cpu = time.perf_counter() - started, server.cpu_seconds() - cpu
        times.sort()
        return Measured(
            requests=len(times),
            p50_ms=times[len(times) // 2] * 1e3,
            p95_ms=times[int(len(times) * 0.95)] * 1e3,
            p99_ms=times[int(len(times) * 0.99)] * 1e3,
            cpu_ms=cpu / len(times) * 1e3,
            per_second=len(times) / wall,
        )

    async def _worker(self, server: Server, waiting: Iterator[bytes], until: float, times: list[float]) -> None:
        for body in waiting:
            started = time.perf_counter()
            await self._ask(server, body)
            ended = time.perf_counter()
            times.append(ended - started)
            if ended > until:
                return

    async def _ask(self, server: Server, body: bytes) -> None:
        url = f"{server.base_url}/chat/completions"
        async with self._session.post(url, data=body, headers=server.headers) as answer:
            data = await answer.read()
        ended = b"[DONE]" in data[-40:] if b'"stream":true' in body else b"frozen" in data
        if answer.status != 200 or not ended:
            raise WrongAnswerError(f"{server.name} answered {answer.status}: {data[-300:].decode(errors='replace')}")
