"""Executes an admitted call: passes it through the middleware to the tool's source, and records the outcome.

The gates before the call are in `control.admission`, and `batch` records the intent to call. They are separate from the execution
so that the limits are checked for all calls of an answer, in their order, before any of them starts. So the outcome never depends
on timing.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from toolcaddie.control.admission import Admitted, changed_tool
from toolcaddie.core.catalog import tool_digest
from toolcaddie.core.events import CallFinished, CallProgressed, Emit
from toolcaddie.core.run import Limits, RunContext
from toolcaddie.core.tool import Finish, Tool, ToolCall, ToolResult, failed
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.ports import CallNext, Invocation, Middleware, ToolSource
from toolcaddie.util.log import Logger

log = Logger(__name__)


class Executor:
    """Executes admitted calls. It knows nothing about rounds, messages or gates."""

    def __init__(self, *, source_of: Callable[[str], ToolSource], middleware: Sequence[Middleware] = ()) -> None:
        """`source_of` returns the source that runs the tools of a tenant."""
        self._invoke = _around(self._call_source, middleware, source_of)

    async def carry_out(
        self, admitted: Admitted, context: RunContext, limits: Limits, number: int, emit: Emit
    ) -> ToolResult:
        """Executes an admitted call and returns its result. Whatever the tool does, there is a result; only a cancellation is
        raised. `number`: the number of the call among the executed calls of the run."""
        call, tool = admitted.call, admitted.tool
        started = time.perf_counter()
        progress = _Progress(call, context.run_id, emit)
        try:
            result = await self._invoke(
                Invocation(
                    call=call,
                    tool=tool,
                    arguments={**admitted.arguments, **context.injected},
                    context=replace(context, on_progress=progress),
                    whole=admitted.whole,
                    seconds=tool.timeout if tool.timeout is not None else limits.tool_seconds,
                    approved=admitted.approved,
                )
            )
        finally:
            progress.over = True
        result = _with_permitted_effect(result, tool)
        seconds = time.perf_counter() - started
        await emit(
            CallFinished(
                run_id=context.run_id, call=call, result=result, source=tool.source, seconds=seconds, number=number
            )
        )
        return result

    @staticmethod
    async def _call_source(source_of: Callable[[str], ToolSource], invocation: Invocation) -> ToolResult:
        """Calls the source. An exception of the source becomes a failed result for the model, and its traceback is logged.

        An approved call is compared with the source's current tool here, at the last moment: nothing is awaited in between.
        """
        try:
            source = source_of(invocation.context.principal.tenant)
            if invocation.approved and not _has_tool(source, invocation.tool):
                return changed_tool(invocation.tool.name)
            result: Any = await source.call_tool(invocation.tool, invocation.arguments, invocation.context)
            if isinstance(result, ToolResult):
                return result
            raise TypeError(f"its source gave a {type(result).__name__}, not a ToolResult")
        except Exception as error:  # a source may raise anything; the model gets a result, the log the traceback
            log.exception("tool_raised", tool=invocation.tool.name, source=invocation.tool.source)
            return failed(KNOWN.redact(f"{invocation.tool.name} failed: {type(error).__name__}: {error}")[:2000])


def _with_permitted_effect(result: ToolResult, tool: Tool) -> ToolResult:
    """Returns the result without an effect that the tool may not have: only the engine's own meta tools may change a run, and a
    tool with `ends_run` may end it with a successful result."""
    if result.effect is None:
        return result
    if result.is_error or not tool.ends_run or not isinstance(result.effect, Finish):
        return dataclasses.replace(result, effect=None)
    if result.effect.is_valid:
        return result
    log.error("wrong_finish", tool=tool.name, source=tool.source, effect=repr(result.effect)[:200])
    return failed(f"{tool.name} did not end the run, because its Finish needs a text and an ending that exists.")


def _has_tool(source: ToolSource, tool: Tool) -> bool:
    """Returns True if the source has the tool exactly as it is here."""
    current = next((current for current in source.tools() if current.name == tool.name), None)
    return current is tool or (current is not None and tool_digest(current) == tool_digest(tool))


class _Progress:
    """Turns the progress reports of a call into events while the call runs. Reports of an abandoned call that come later are
    dropped."""

    def __init__(self, call: ToolCall, run_id: str, emit: Emit) -> None:
        self._call, self._run_id, self._emit = call, run_id, emit
        self.over = False

    async def __call__(self, done: float, total: float | None, message: str) -> None:
        if not self.over:
            event = CallProgressed(
                run_id=self._run_id,
                call_id=self._call.id,
                tool=self._call.name,
                done=done,
                total=total,
                message=message,
            )
            await self._emit(event)


def _around(
    call_source: Callable[[Callable[[str], ToolSource], Invocation], Awaitable[ToolResult]],
    middleware: Sequence[Middleware],
    source_of: Callable[[str], ToolSource],
) -> CallNext:
    """Returns a function that calls the source through all `middleware`; the first is the outermost."""
    call: CallNext = partial(call_source, source_of)
    for layer in reversed(middleware):
        call = partial(layer, call_next=call)
    return call
