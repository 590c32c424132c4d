"""What a model call costs this process: CPU of `OpenAIChat` beside the official SDK, plain and as a stream of 20 events.

python -m benchmarks.provider
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import openai
import uvloop

from benchmarks.upstream import Upstream
from toolcaddie.message import Message, ModelRequest
from toolcaddie.providers.openai_chat import OpenAIChat

ROUNDS = 7
CALLS = 200
GOALS_MS = {"plain": 0.18, "stream": 0.40}

Call = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """CPU milliseconds of one call, medians over the rounds."""

    kind: str
    ours_ms: float
    forward_ms: float
    """The raw pass-through, read to its end."""
    sdk_ms: float
    goal_ms: float

    @property
    def ratio(self) -> float:
        return self.sdk_ms / self.ours_ms


def run(rounds: int = ROUNDS, calls: int = CALLS) -> list[Row]:
    """Both clients in turns within one process, so that whatever disturbs the machine disturbs both."""
    with Upstream() as upstream:
        return uvloop.run(_measured(upstream.base_url, rounds, calls))


async def _measured(base_url: str, rounds: int, calls: int) -> list[Row]:
    provider = OpenAIChat(base_url, "sk-benchmark")
    async with openai.AsyncOpenAI(base_url=base_url, api_key="sk-benchmark") as sdk:
        rows = [
            await _row("plain", (_plain(provider), _forward(provider, False), _sdk_plain(sdk)), rounds, calls),
            await _row("stream", (_stream(provider), _forward(provider, True), _sdk_stream(sdk)), rounds, calls),
        ]
    await provider.close()
    return rows


async def _row(kind: str, contestants: tuple[Call, Call, Call], rounds: int, calls: int) -> Row:
    times: list[list[float]] = [[] for _ in contestants]
    for call in contestants:
        await _cpu_ms(call, calls // 4)  # connections, caches
    for _ in range(rounds):
        for found, call in zip(times, contestants, strict=True):
            found.append(await _cpu_ms(call, calls))
    ours, forward, sdk = (statistics.median(found) for found in times)
    return Row(kind=kind, ours_ms=ours, forward_ms=forward, sdk_ms=sdk, goal_ms=GOALS_MS[kind])


async def _cpu_ms(call: Call, calls: int) -> float:
    gc.collect()
    started = time.process_time()
    for _ in range(calls):
        await call()
    return (time.process_time() - started) * 1000 / calls


_REQUEST = ModelRequest(model="bench", messages=(Message(role="user", content="freeze John's membership"),))
_WIRE_MESSAGES: list[Any] = [{"role": "user", "content": "freeze John's membership"}]
_BODIES = {
    False: b'{"model":"bench","messages":[{"role":"user","content":"freeze John\'s membership"}]}',
    True: b'{"model":"bench","stream":true,"messages":[{"role":"user","content":"freeze John\'s membership"}]}',
}


def _plain(provider: OpenAIChat) -> Call:
    async def call() -> None:
        await provider.complete(_REQUEST)

    return call


def _stream(provider: OpenAIChat) -> Call:
    async def call() -> None:
        async for _ in provider.stream(_REQUEST):
            pass

    return call


def _forward(provider: OpenAIChat, stream: bool) -> Call:
    async def call() -> None:
        async with await provider.forward("POST", "/chat/completions", _BODIES[stream]) as response:
            while await response.content.readany():
                pass

    return call


def _sdk_plain(sdk: openai.AsyncOpenAI) -> Call:
    async def call() -> None:
        await sdk.chat.completions.create(model="bench", messages=_WIRE_MESSAGES)

    return call


def _sdk_stream(sdk: openai.AsyncOpenAI) -> Call:
    async def call() -> None:
        async for _ in await sdk.chat.completions.create(model="bench", messages=_WIRE_MESSAGES, stream=True):
            pass

    return call


def main(arguments: Sequence[str] = ()) -> list[Row]:
    rows = run(rounds=3) if "--quick" in arguments else run()
    print("CPU of one model call, ms (median)")
    print(f"{'':<10}{'toolcaddie':>12}{'raw forward':>13}{'openai SDK':>12}{'SDK / ours':>12}{'goal':>8}")
    for row in rows:
        print(
            f"{row.kind:<10}{row.ours_ms:>12.3f}{row.forward_ms:>13.3f}{row.sdk_ms:>12.2f}{row.ratio:>12.1f}"
            f"{row.goal_ms:>8.2f}"
        )
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
