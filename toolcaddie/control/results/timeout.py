"""Middleware that ends the call of a tool that takes too long."""

from __future__ import annotations

import asyncio
import time

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.guards.processes import commands_ended
from toolcaddie.ports import CallNext, Invocation
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

GRACE_SECONDS = 1.0
"""Seconds that a cancelled call has to clean up; then it is abandoned."""


class Timeout:
    """Cancels a call after `invocation.seconds`, and returns a failed result of kind 'timeout' instead.

    `most` limits the timeout of every tool, even if the tool has set a longer one; None: no limit. `grace` is the number of
    seconds that a cancelled call has to clean up.

    The call runs in a task of its own, because a tool may ignore its cancellation (as a retry loop around a bare `except`
    does): such a call is abandoned after `grace`, and the run continues. Commands that the call started through
    `guards.processes` are killed in any case, with all their descendants, even if the call runs in a thread, which cannot be
    cancelled.

    This is the innermost layer of middleware, so each repetition of a call has the whole timeout.
    """

    def __init__(self, *, most: float | None = None, grace: float = GRACE_SECONDS) -> None:
        if most is not None and not most > 0:
            raise ConfigError(f"the longest timeout must be more than 0 seconds, not {most}")
        self._most = most
        self._grace = grace
        # The event loop holds its tasks weakly; an abandoned task must not be collected while it runs.
        self._abandoned: set[asyncio.Task[ToolResult]] = set()

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult:
        if self._most is not None and invocation.seconds > self._most:
            invocation = replace(invocation, seconds=self._most)
        deadline = time.monotonic() + invocation.seconds
        invocation = replace(invocation, context=replace(invocation.context, deadline=deadline))
        with commands_ended():
            return await self._in_time(invocation, call_next)

    async def _in_time(self, invocation: Invocation, call_next: CallNext) -> ToolResult:
        task = asyncio.ensure_future(call_next(invocation))
        try:
            done, _ = await asyncio.wait({task}, timeout=invocation.seconds)
        except asyncio.CancelledError:
            await self._stop(task, invocation)
            raise
        if done:
            return task.result()
        await self._stop(task, invocation)
        name, seconds = invocation.tool.name, invocation.seconds
        return failed(f"{name} gave no answer within {seconds:g} s and was given up{_aftermath(invocation)}", "timeout")

    async def _stop(self, task: asyncio.Task[ToolResult], invocation: Invocation) -> None:
        task.cancel()
        _, running = await asyncio.wait({task}, timeout=self._grace)
        if running:
            log.warning("cancellation_ignored", tool=invocation.tool.name, run_id=invocation.context.run_id)
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)


def _aftermath(invocation: Invocation) -> str:
    if invocation.tool.annotations.read_only:
        return ""
    return "; whether it took effect is not known, so check before you call it again"
