"""Runs heavy work beside the event loop, one job at a time.

    tools = await aside(read, body)

A computing thread and the loop take turns with the interpreter, some milliseconds each. Several threads would take turns
with each other as well, and the loop would wait for all of them; so there is one for the whole process.
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
    """Runs a job after those queued before it, and returns or raises its outcome. A started job cannot be cancelled."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_worker, partial(context.run, job, *args, **kwargs))
