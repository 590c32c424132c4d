"""Heavy work beside the event loop, one piece at a time.

    tools = await aside(read, body)

A thread that computes takes the interpreter in turns with the loop, some milliseconds each. Several at once would take it
in turns with each other as well, and the loop would wait for all of them; so there is one for the whole process.
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
    """Returns or raises what the job does, once those before it are done. A job that has begun is not cancelled."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_worker, partial(context.run, job, *args, **kwargs))
