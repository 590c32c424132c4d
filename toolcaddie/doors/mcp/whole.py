"""Runs a job in a task of its own, so that a cancellation reaches it once and it can record its end.

The package `mcp` cancels by anyio's scopes, which cancel again at every await. The end of a cancelled call is written to the
trail, and these writes must not be cancelled too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def whole(job: Coroutine[Any, Any, T]) -> T:
    """Returns the result of a job. If the caller is cancelled, cancels the job once and waits for its end."""
    task = asyncio.create_task(job)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task})
    return task.result()
