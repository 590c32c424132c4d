"""Follows the process that measures for an evaluation, and tells how far it is."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from toolcaddie.app.evaluation_values import Evaluation
from toolcaddie.app.measuring_process import Measurement, send, started

_BEAT = 0.5
"""Seconds between two looks at the store and two writes of the progress."""


async def followed(
    evaluation: Evaluation,
    measurement: Measurement,
    *,
    write: Callable[[Evaluation], Awaitable[None]],
    is_cancelled: Callable[[], Awaitable[bool]],
    clock: Callable[[], float],
) -> Evaluation:
    """Measures in a process of its own, and returns the evaluation as it is at its end. `write` gets its progress on the way;
    `is_cancelled` says whether it is to end."""
    process = await asyncio.to_thread(started)
    try:
        return await _followed(evaluation, measurement, process, write, is_cancelled, clock)
    finally:
        process.kill()
        threading.Thread(target=_reap, args=(process,), daemon=True).start()


async def _followed(
    evaluation: Evaluation,
    measurement: Measurement,
    process: subprocess.Popen[bytes],
    write: Callable[[Evaluation], Awaitable[None]],
    is_cancelled: Callable[[], Awaitable[bool]],
    clock: Callable[[], float],
) -> Evaluation:
    written, began = 0.0, clock()
    async with aclosing(_messages(process, measurement)) as messages:
        async for message in messages:
            now = clock()
            if "outcome" in message:
                return replace(evaluation, status="done", outcome=message["outcome"])
            if "error" in message:
                return replace(evaluation, status="failed", error=message["error"])
            evaluation = replace(evaluation, **message)
            if now < written + _BEAT:
                continue
            if await is_cancelled():
                return replace(evaluation, status="cancelled")
            if now > began + measurement.seconds:
                error = f"it took longer than {measurement.seconds / 60:g} minutes"
                return replace(evaluation, status="failed", error=error)
            written, evaluation = now, replace(evaluation, beat=now)
            await write(evaluation)
    return replace(evaluation, status="failed", error="its process ended; the server's log may say why")


async def _messages(process: subprocess.Popen[bytes], measurement: Measurement) -> AsyncGenerator[dict[str, Any], None]:
    """Yields what a process says, and an empty message whenever it is silent for a while."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[bytes]()
    assert process.stdin is not None
    assert process.stdout is not None
    source, target = process.stdout, process.stdin

    def read() -> None:
        with suppress(OSError, RuntimeError, ValueError):  # the process or the loop has ended
            send(measurement, target)
            for line in source:
                loop.call_soon_threadsafe(lines.put_nowait, line)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lines.put_nowait, b"")

    threading.Thread(target=read, name="toolcaddie-evaluation", daemon=True).start()
    while True:
        try:
            line = await asyncio.wait_for(lines.get(), _BEAT)
        except TimeoutError:
            yield {}
            continue
        if not line:
            return
        yield msgspec.json.decode(line)


def _reap(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
