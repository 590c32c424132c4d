"""Runs heavy work beside the event loop, one job at a time.

    tools = await aside(read, body)

Only one thread of a process executes Python at a time: a computing thread and the event loop alternate every few milliseconds.
With several computing threads the loop would wait for each of them, so the whole process has a single one.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="toolcaddie-aside")


async def aside(job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs `job(*args, **kwargs)` in the thread, after the jobs that were queued before, and returns its result or raises its
    exception. A job that has started cannot be cancelled."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_worker, partial(context.run, job, *args, **kwargs))
