"""Messages of many chats at once: python -m benchmarks.channels [--quick]

A hundred chats write to a bot through signed requests, each its next message when the last one was answered. Among 10,000
requests are duplicates, ids out of order, strangers, malformed bodies and wrong signatures. Each valid message must be answered
exactly once, and nothing else. Everything is real: HTTP, a runtime with a scripted model, and an SQLite file, which has a message
before its request is answered. Exits 1 if a message was lost, doubled or wrongly answered.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import uvicorn
import uvloop
from msgspec import Struct

from toolcaddie import Message, Runtime
from toolcaddie.app.settings import ChannelSettings
from toolcaddie.core.bots import BotAnswer, BotWork
from toolcaddie.doors.channels.channels import Channels
from toolcaddie.doors.channels.http import ChannelsDoor
from toolcaddie.doors.channels.station import Station
from toolcaddie.doors.channels.webhook import webhook
from toolcaddie.parts import Parts, Secrets
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, say
from toolcaddie.testing.webhooks import ScriptedProgram

FULL, QUICK, CHATS = 10_000, 1_000, 100
_SHARES: Sequence[tuple[str, float]] = (
    ("valid", 0.70),
    ("duplicate", 0.15),
    ("malformed", 0.05),
    ("unsigned", 0.05),
    ("stranger", 0.05),
)
_STATUS = {"valid": 202, "duplicate": 202, "stranger": 202, "malformed": 400, "unsigned": 401}

Kind = Literal["valid", "duplicate", "malformed", "unsigned", "stranger"]


class Result(Struct, frozen=True, kw_only=True):
    """The outcome. Times are in milliseconds from the request to the answer."""

    requests: int
    valid: int
    answered: int
    doubled: int
    wrong: int
    """Answers to anything but a valid message, and requests that got another status than they should."""
    seconds: float
    p50: float
    p95: float

    @property
    def holds(self) -> bool:
        return self.answered == self.valid and not self.doubled and not self.wrong


class Talk:
    """Answers on a runtime. Only what this benchmark needs of `ports.BotTalk`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def answer(self, work: BotWork) -> BotAnswer:
        message = Message(role="user", content=work.message)
        result = await self._runtime.run([message], principal=work.principal, conversation=work.chat)
        return BotAnswer(run_id=result.run_id, status="completed", text=result.text or "")


class Chat:
    """One chat: writes its messages, and waits for the answers."""

    def __init__(self, number: int, program: ScriptedProgram, url: str) -> None:
        self._name = f"chat-{number}"
        self._program = program
        self._url = url
        self._waiting: dict[str, asyncio.Event] = {}
        self.sent: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.wrong = 0
        self._number = 0

    def reply(self, reply: dict[str, Any]) -> None:
        event = self._waiting.get(reply["text"].removeprefix("echo "))
        if event is not None:
            event.set()

    async def run(self, kinds: Sequence[str]) -> None:
        for kind in kinds:
            status = await getattr(self, f"_{kind}")()
            self.wrong += status != _STATUS[kind]

    async def _valid(self) -> int:
        self._number += 1
        # Numbers go up and down: no order of ids can be relied on.
        key = f"{self._name}-{self._number ^ 1}"
        message = {"id": key, "chat": self._name, "person": "member", "text": key}
        event = self._waiting[key] = asyncio.Event()
        self.sent.append(message)
        begun = time.perf_counter()
        status = await self._program.post(self._url, message)
        async with asyncio.timeout(60):
            await event.wait()
        self.times.append((time.perf_counter() - begun) * 1_000)
        return status

    async def _duplicate(self) -> int:
        if not self.sent:
            return await self._valid()
        return await self._program.post(self._url, random.choice(self.sent))

    async def _malformed(self) -> int:
        return await self._program.post(self._url, random.choice([b"{", b"[]", b'{"id": 3}', b"\xff\xfe", b""]))

    async def _unsigned(self) -> int:
        message = {"id": random.randbytes(8).hex(), "chat": self._name, "person": "member", "text": "unsigned"}
        return await self._program.post(self._url, message, signature="v1,bm90IGEgc2lnbmF0dXJl")

    async def _stranger(self) -> int:
        message = {"id": random.randbytes(8).hex(), "chat": self._name, "person": "stranger", "text": "stranger"}
        return await self._program.post(self._url, message)


def kinds_of(requests: int) -> list[str]:
    kinds = [kind for kind, share in _SHARES for _ in range(int(requests * share))]
    random.shuffle(kinds)
    return kinds


async def measured(requests: int, chats: int) -> Result:
    kinds = kinds_of(requests)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        of_chats: dict[str, Chat] = {}
        program = ScriptedProgram(on_reply=lambda reply: of_chats[reply["chat"]].reply(reply))
        await stack.enter_async_context(program)
        url = await _server(stack, folder, program)
        for number in range(chats):
            of_chats[f"chat-{number}"] = Chat(number, program, url)
        begun = time.perf_counter()
        await asyncio.gather(*(chat.run(kinds[at::chats]) for at, chat in enumerate(of_chats.values())))
        seconds = time.perf_counter() - begun
        await asyncio.sleep(1)  # a doubled answer would come after the right one
    times = sorted(time for chat in of_chats.values() for time in chat.times)
    texts = Counter(reply["text"] for reply in program.received.values())
    valid = {f"echo {message['text']}" for chat in of_chats.values() for message in chat.sent}
    return Result(
        requests=len(kinds),
        valid=len(valid),
        answered=len(valid & texts.keys()),
        doubled=program.accepted - len(texts),
        wrong=len(texts.keys() - valid) + len(program.wrong) + sum(chat.wrong for chat in of_chats.values()),
        seconds=seconds,
        p50=times[len(times) // 2],
        p95=times[int(len(times) * 0.95)],
    )


async def _server(stack: AsyncExitStack, folder: Path, program: ScriptedProgram) -> str:
    """Starts the channel and its server. Returns the address of the webhook."""
    provider = ScriptedProvider(lambda request: say(f"echo {request.messages[-1].text}"))
    runtime = await stack.enter_async_context(Runtime(provider=provider))
    database = await stack.enter_async_context(Database(f"sqlite:///{folder / 'channels.sqlite'}"))
    parts = Parts(secrets=Secrets({"HOOK_SECRET": program.secret}))
    service = webhook(secret_env="HOOK_SECRET", reply_url=program.url, parts=parts)
    station = Station(settings=ChannelSettings(name="hook", allow=("member",)), type="webhook", service=service)
    channels = Channels([station], Talk(runtime), database.store)  # type: ignore[arg-type]  # no calls wait here
    await stack.enter_async_context(channels)
    await channels.until_leading()
    config = uvicorn.Config(ChannelsDoor(channels), port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.01)

    async def stop() -> None:
        server.should_exit = True
        await task

    stack.push_async_callback(stop)
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/channels/hook"


def main() -> int:
    requests = QUICK if "--quick" in sys.argv else FULL
    for chats in (1, CHATS):
        result = uvloop.run(measured(min(requests, 500) if chats == 1 else requests, chats))
        print(
            f"{chats:>4} chats  {result.requests:>6,} requests in {result.seconds:.1f} s  "
            f"{result.answered:,} of {result.valid:,} valid ones answered, {result.doubled} doubled, {result.wrong} wrong  "
            f"answer p50 {result.p50:.1f} ms, p95 {result.p95:.1f} ms"
        )
        if not result.holds:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
