"""Clients that send requests at a steady rate, each with an idempotency key, and try again as the official packages do."""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from benchmarks.replicas.model import KINDS, request_text

_ATTEMPTS = 12
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 4.0
_TIMEOUT = aiohttp.ClientTimeout(total=60)
_TOO_EARLY = (408, 409, 429)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One request on the wire. `outcome`: the status, or the kind of failure."""

    began: float
    ended: float
    outcome: str


@dataclass(slots=True, kw_only=True)
class Asked:
    """One request of a client, with its attempts."""

    request: str
    kind: str
    began: float
    attempts: list[Attempt] = field(default_factory=list)
    answer: str = ""

    @property
    def outcome(self) -> str:
        return self.attempts[-1].outcome if self.attempts else "none"

    @property
    def seconds(self) -> float:
        return self.attempts[-1].ended - self.began


class Load:
    """Sends `rate` requests a second to `address` until `stop` is called, whatever becomes of earlier ones. `keys`: each has an
    idempotency key."""

    def __init__(self, address: str, rate: float, *, seed: int = 1, keys: bool = True) -> None:
        self._url = f"{address}/v1/chat/completions"
        self._rate = rate
        self._keys = keys
        self._random = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self.asked: list[Asked] = []

    async def run(self) -> Sequence[Asked]:
        """Sends requests until `stop` is called, waits for their answers and returns all of them."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session:
            began, sent = time.monotonic(), 0
            while not self._stopping.is_set():
                due = int((time.monotonic() - began) * self._rate)
                for _ in range(due - sent):
                    self._send(session)
                sent = max(sent, due)
                await asyncio.sleep(1 / self._rate)
            while self._tasks:
                await asyncio.wait(set(self._tasks))
        return self.asked

    def stop(self) -> None:
        self._stopping.set()

    @property
    def under_way(self) -> int:
        return len(self._tasks)

    def _send(self, session: aiohttp.ClientSession) -> None:
        [kind] = self._random.choices(list(KINDS), list(KINDS.values()))
        asked = Asked(request=uuid.uuid4().hex, kind=kind, began=time.monotonic())
        self.asked.append(asked)
        task = asyncio.create_task(self._ask(session, asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, session: aiohttp.ClientSession, asked: Asked) -> None:
        text = request_text(asked.request, asked.kind)
        body = {"model": "gpt-test", "messages": [{"role": "user", "content": text}]}
        headers = {"idempotency-key": asked.request} if self._keys else {}
        for number in range(_ATTEMPTS):
            began, pause = time.monotonic(), 0.0
            try:
                async with session.post(self._url, json=body, headers=headers) as response:
                    answer = await response.read()
                    outcome = f"{response.status}"
                    if response.status != 200:
                        outcome += f" {_code(answer)}"
                        pause = float(response.headers.get("retry-after", 0))
                    again = response.status in _TOO_EARLY or response.status >= 500
                    again = again and response.headers.get("x-should-retry") != "false"
            except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
                outcome, again = type(error).__name__, True
            asked.attempts.append(Attempt(began=began, ended=time.monotonic(), outcome=outcome))
            if outcome == "200":
                asked.answer = json.loads(answer)["choices"][0]["message"]["content"]
            if not again:
                return
            await asyncio.sleep(
                max(pause, min(_FIRST_PAUSE * 2**number, _LONGEST_PAUSE) * self._random.uniform(0.75, 1))
            )


def _code(answer: bytes) -> str:
    try:
        error = json.loads(answer)["error"]
        return str(error.get("code") or error.get("type"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return "no JSON"
