"""Kills a server with six clients at random moments, starts it again, and counts what the kills damaged."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from security.counted import Count, none_of, tried
from security.goals import Goal
from security.model import answer_on_wire, request_text
from security.recorded import (
    Book,
    calls_made,
    cut_short,
    doubled,
    few_unknown,
    of_all_runs,
    open_calls,
    ownerless,
    stuck,
)
from security.tools import EFFECTS
from tests.free_port import free_port
from toolcaddie.testing.upstream import ScriptedUpstream

CLIENTS = 6
SETTLED_AFTER = 5.0
"""Seconds after a restart after which no run and no call of the killed server may be left open."""

_START_SECONDS = 60.0
_MOST = 4
"""The server is killed at most so many times as often as was asked, if the clients have not made enough calls before."""
_RETRIES = 400
_ASKED_AGAIN = 0.3
"""Share of the answered requests that are sent once more with the same key."""
_KEY = "test-key"


def killed(times: int, *, keys: bool, quick: bool, durable: bool = False, calls: int = 0) -> Sequence[Count | Goal]:
    """Kills a server `times` times, or more often until enough calls were made, and returns the counts.

    `keys`: the clients send an idempotency key and repeat requests that failed; without it they send each request once. `quick`:
    the database is checked only after the last kill. `durable`: the server has the setting `durable = "answer"`. `calls`: the
    number of calls that must be made; 0: any.
    """
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # the upstream's clients are killed all the time
    with tempfile.TemporaryDirectory(prefix="security-") as folder:
        return asyncio.run(_Siege(Path(folder), keys=keys, quick=quick, durable=durable, calls=calls).run(times))


@dataclass(slots=True)
class _Findings:
    """The damage that the checks noticed. Damage that two checks notice counts once."""

    ownerless: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    open_calls: set[str] = field(default_factory=set)
    differing: set[str] = field(default_factory=set)


class _Siege:
    def __init__(self, folder: Path, *, keys: bool, quick: bool, durable: bool, calls: int) -> None:
        self.durable = durable
        self.calls = calls
        self.answered: set[str] = set()
        """Texts of the requests that got a whole answer."""
        self.book = Book(database=folder / "served.sqlite", effects=folder / "effects")
        self.book.effects.touch()
        self.keys = keys
        self.longest = 3.0 if quick else SETTLED_AFTER + 3.0
        self.log = folder / "server.log"
        self.port = free_port()
        self.server: subprocess.Popen[bytes] | None = None
        self.answers: Counter[str] = Counter()
        self.asked_again = 0
        self.findings = _Findings()
        self.checks = 0
        self.over = False

    async def run(self, times: int) -> Sequence[Count | Goal]:
        async with ScriptedUpstream(answer_on_wire, api_key=_KEY) as upstream:
            clients: list[asyncio.Task[None]] = []
            try:
                await self.start(upstream.base_url)
                clients += [asyncio.create_task(self.client()) for _ in range(CLIENTS)]
                kills = 0
                while kills < times or (kills < _MOST * times and not await asyncio.to_thread(self.has_calls)):
                    await self.wait_for_the_moment()
                    self.kill()
                    kills += 1
                    await self.start(upstream.base_url)
                    upstream.requests.clear()
                self.over = True
                await asyncio.wait(clients)
                await asyncio.sleep(SETTLED_AFTER)
                await self.check()
            finally:
                for client in clients:
                    client.cancel()
                await asyncio.to_thread(self.end)
        return self.counts(kills)

    def has_calls(self) -> bool:
        """Returns True if the clients have made enough calls: moments that are all short leave little time for them."""
        return calls_made(self.book) >= self.calls

    async def wait_for_the_moment(self) -> None:
        """Waits a random time: often so short that the new server has not yet cleaned up after the last kill, otherwise until
        after a check."""
        moment = random.uniform(0.2, self.longest)
        if moment > SETTLED_AFTER:
            await asyncio.sleep(SETTLED_AFTER)
            await self.check()
            moment = random.uniform(0.0, 0.5)
        await asyncio.sleep(moment)

    async def check(self) -> None:
        """Collects what earlier kills left open. The current server is the only living process."""
        assert self.server is not None
        self.checks += 1
        self.findings.ownerless |= set(await asyncio.to_thread(ownerless, self.book, [self.server.pid]))
        self.findings.stuck |= set(await asyncio.to_thread(stuck, self.book))
        self.findings.open_calls |= set(await asyncio.to_thread(open_calls, self.book))

    def counts(self, times: int) -> Sequence[Count | Goal]:
        retried = "with their keys" if self.keys else "without a client's retry"
        durable = ' with durable = "answer"' if self.durable else ""
        calls = calls_made(self.book)
        return [
            tried(f"servers killed{durable}", times),
            Goal(
                name="calls of these servers",
                figure=f"{calls:,}",
                goal=f"at least {self.calls:,}",
                met=calls >= self.calls,
            ),
            few_unknown(self.book, times * CLIENTS),
            *self.lost(),
            tried("checks after a restart", self.checks),
            tried("runs", self.book.number("select count(*) from runs")),
            tried("of them settled", self.book.number("select count(*) from events where data like '%Abandoned%'")),
            tried("effects", len(self.book.entries())),
            *(tried(f"requests that ended: {how}", number) for how, number in sorted(self.answers.items())),
            none_of("5 s after a restart: running without a living owner", sorted(self.findings.ownerless)),
            none_of("5 s after a restart: pending and cannot be resumed", sorted(self.findings.stuck)),
            none_of("5 s after a restart: calls neither done, failed nor unknown", sorted(self.findings.open_calls)),
            *of_all_runs(self.book, [], what="after the last server"),
            none_of(f"doubled effects {retried}", doubled(self.book)),
            tried("answered requests sent again with their key", self.asked_again),
            none_of("of them with another answer than before", sorted(self.findings.differing)),
        ]

    def lost(self) -> Sequence[Count]:
        """Counts lost rows of answered requests, if none may be lost."""
        if not self.durable:
            return ()
        lost = cut_short(self.book, self.answered)
        return (
            tried("answered requests", len(self.answered)),
            none_of('answered requests of which a row is lost, with durable = "answer"', lost),
        )

    # --- the server --------------------------------------------------------------------------------------------------

    async def start(self, upstream: str) -> None:
        self.server = await asyncio.to_thread(self.spawned, upstream)
        until = time.monotonic() + _START_SECONDS
        async with aiohttp.ClientSession() as session:
            while not await _is_there(session, self.port):
                if self.server.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the server did not start: {self.log.read_text()[-2000:]}")
                await asyncio.sleep(0.05)

    def spawned(self, upstream: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "toolcaddie", "serve", "--json", "--port", str(self.port)]
        command += ["--catalog", "python:security.tools", "--upstream", upstream, "--model", "gpt-test"]
        command += ["--database-url", f"sqlite:///{self.book.database}"]
        if self.durable:
            settings = self.log.with_name("durable.toml")
            settings.write_text('[storage]\ndurable = "answer"\n')
            command[3:3] = ["--config", str(settings)]
        environment = {**os.environ, "OPENAI_API_KEY": _KEY, EFFECTS: str(self.book.effects)}
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env=environment)

    def kill(self) -> None:
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            self.server = None

    def end(self) -> None:
        """Stops the last server in an orderly way."""
        if self.server is not None:
            self.server.terminate()
            try:
                self.server.wait(_START_SECONDS)
            finally:
                self.kill()

    # --- the clients -------------------------------------------------------------------------------------------------

    async def client(self) -> None:
        async with aiohttp.ClientSession() as session:
            while not self.over:
                request = uuid.uuid4().hex
                ended = await self.ask(session, request)
                self.answers[ended] += 1
                if ended == "lost":  # no server is running
                    await asyncio.sleep(random.uniform(0.0, 0.3))

    async def ask(self, session: aiohttp.ClientSession, request: str) -> str:
        """Sends a request and returns how it ended. With a key it is repeated until it is answered."""
        text = request_text(request, random.randint(1, 3))
        body = {
            "model": "gpt-test",
            "stream": random.random() < 0.5,
            "messages": [{"role": "user", "content": text}],
        }
        headers = {"idempotency-key": request} if self.keys else {}
        for _ in range(_RETRIES if self.keys else 1):
            ended, answer = await self.send(session, body, headers)
            if ended == "200":
                self.answered.add(text)
            if not ended.startswith(("lost", "409", "5")):
                if self.keys and random.random() < _ASKED_AGAIN:
                    await self.ask_again(session, body, headers, answer)
                return ended
            await asyncio.sleep(random.uniform(0.1, 0.5))
        return ended

    async def ask_again(
        self, session: aiohttp.ClientSession, body: object, headers: dict[str, str], before: str
    ) -> None:
        """Sends an answered request again. It must get the same answer, even from another server."""
        ended, answer = await self.send(session, body, headers)
        if not ended.startswith("lost"):
            self.asked_again += 1
            if answer != before:
                self.findings.differing.add(headers["idempotency-key"])

    async def send(self, session: aiohttp.ClientSession, body: object, headers: dict[str, str]) -> tuple[str, str]:
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        try:
            async with session.post(url, json=body, headers=headers) as response:
                answer = await response.text()
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return "lost", ""
        whole = response.status != 200 or _is_whole(answer)
        return (f"{response.status}" if whole else "lost in its stream"), answer


def _is_whole(answer: str) -> bool:
    if answer.startswith("data:"):
        return answer.rstrip().endswith("[DONE]")
    return "choices" in json.loads(answer)


async def _is_there(session: aiohttp.ClientSession, port: int) -> bool:
    try:
        async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
            return response.status == 200
    except (aiohttp.ClientError, ConnectionError):
        return False
