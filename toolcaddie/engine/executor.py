"""From a call to its result. The gates stand in a fixed order, in plain sight:

    unwrap `execute_tool` once -> find in the view -> check the arguments -> decide -> approve
    -> take a turn -> write the intent -> middleware around the source -> record the outcome

`admit` is everything before the turn, `carry_out` everything after, so that the turns of a batch are taken in call order
before anything starts and the outcome never depends on timing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from toolcaddie.control.visibility import may_use
from toolcaddie.core.bounds import DEFAULT, Bounds, beyond
from toolcaddie.core.catalog import View
from toolcaddie.core.events import CallDecided, CallFinished, CallIntended, CallProgressed, RunEvent
from toolcaddie.core.run import Limits, PendingCall, RunContext
from toolcaddie.core.schema import argument_errors, canonical_json, takes_long
from toolcaddie.core.tool import CLIENT_SOURCE, Tool, ToolCall, ToolResult, failed
from toolcaddie.guards.aside import aside
from toolcaddie.meta.lookup import unknown_tool
from toolcaddie.meta.registry import OURS, MetaTools, is_meta
from toolcaddie.ports import (
    Approver,
    CallNext,
    CallWrapper,
    Invocation,
    MetaOffer,
    Middleware,
    Policy,
    ToolSource,
)
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

Emit = Callable[[RunEvent], Awaitable[None]]

_SHOWN_NAMES = 10
_MAX_SCHEMA_SHOWN = 6_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A call past every gate: it takes a turn and runs."""

    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]


class Executor:
    """Holds the gates of one runtime; knows nothing of rounds or messages."""

    def __init__(
        self,
        *,
        source: ToolSource,
        policy: Policy,
        approver: Approver | None = None,
        middleware: Sequence[Middleware] = (),
        bounds: Bounds = DEFAULT,
        meta_tools: MetaTools = OURS,
    ) -> None:
        self._bounds = bounds
        self._wrappers = wrappers_of(meta_tools)
        self._policy = policy
        self._approver = approver
        self._invoke = _around(self._call_source, middleware, source)

    def with_approver(self, approver: Approver | None) -> Executor:
        """Returns the same gates with another approver."""
        other = copy(self)
        other._approver = approver
        return other

    async def admit(
        self, pending: PendingCall, context: RunContext, emit: Emit, *, meta: Collection[str] = ()
    ) -> Admitted | PendingCall:
        """Bring a call up to its turn: admitted, or the pending call with a result or what it waits for.

        `meta`: the meta tools that were offered. A call that waits for the caller is the unwrapped one: the caller knows
        its tools by their own names.
        """
        opened = partial(unwrap, pending.call, self._wrappers, context.view, meta, bounds=self._bounds)
        wrapper = self._wrappers.get(pending.call.name)
        long = wrapper is not None and takes_long(wrapper.definition.input_schema, len(pending.call.arguments))
        call = await aside(opened) if long else opened()
        if isinstance(call, ToolResult):
            return replace(pending, result=call)
        tool = context.view.get(call.name)
        if tool is None or not may_use(tool, context.principal):
            return replace(pending, result=unknown_tool(call.name, context.view))
        if tool.source == CLIENT_SOURCE:
            return replace(pending, call=call, waiting="client")
        check = partial(checked_arguments, call, tool, bounds=self._bounds)
        checked = await aside(check) if takes_long(tool.input_schema, len(call.arguments)) else check()
        if isinstance(checked, ToolResult):
            return replace(pending, result=checked)
        arguments = checked.values
        decision = pending.decision or await self._policy.decide(call, tool, arguments, context)
        if pending.decision is None:
            await emit(CallDecided(run_id=context.run_id, call=call, decision=decision, dropped=checked.dropped))
        if decision.verdict == "deny":
            return replace(pending, result=failed(f"Not allowed: {decision.reason or decision.rule}.", "denied"))
        if decision.verdict == "ask":
            approved = self._approver and await self._approver.approve(call, tool, arguments, decision, context)
            if approved is None:
                return replace(pending, waiting="approval", decision=decision)
            if not approved:
                return replace(pending, result=failed("A person did not approve this call.", "denied"))
        return Admitted(call=call, tool=tool, arguments=arguments)

    async def carry_out(
        self, admitted: Admitted, context: RunContext, limits: Limits, turn: int, emit: Emit
    ) -> ToolResult:
        """Run an admitted call. Whatever the tool does, a result comes back; only cancellation passes through."""
        call, tool = admitted.call, admitted.tool
        if not tool.annotations.read_only and not tool.annotations.idempotent:
            await emit(CallIntended(run_id=context.run_id, call=call))
        started = time.perf_counter()
        progress = _Progress(call, context.run_id, emit)
        try:
            result = await self._invoke(
                Invocation(
                    call=call,
                    tool=tool,
                    arguments={**admitted.arguments, **context.injected},
                    context=replace(
                        context,
                        calls_left=None if limits.turns is None else max(0, limits.turns - turn),
                        on_progress=progress,
                    ),
                    seconds=tool.timeout if tool.timeout is not None else limits.tool_seconds,
                )
            )
        finally:
            progress.over = True
        if result.effect is not None:  # only the engine's own meta tools may change a run
            result = replace(result, effect=None)
        seconds = time.perf_counter() - started
        await emit(
            CallFinished(
                run_id=context.run_id, call=call, result=result, source=tool.source, seconds=seconds, turn=turn
            )
        )
        return result

    @staticmethod
    async def _call_source(source: ToolSource, invocation: Invocation) -> ToolResult:
        try:
            result: Any = await source.call_tool(invocation.tool, invocation.arguments, invocation.context)
            if isinstance(result, ToolResult):
                return result
            raise TypeError(f"its source gave a {type(result).__name__}, not a ToolResult")
        except Exception as error:  # a stranger's source may raise anything; the model gets a result, we the traceback
            log.exception("tool_raised", tool=invocation.tool.name, source=invocation.tool.source)
            return failed(f"{invocation.tool.name} failed: {type(error).__name__}: {error}"[:2000])


class _Progress:
    """Makes events of what a call reports while it runs. A call that was given up may go on reporting; no one hears it."""

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
    call_source: Callable[[ToolSource, Invocation], Awaitable[ToolResult]],
    middleware: Sequence[Middleware],
    source: ToolSource,
) -> CallNext:
    """The first of `middleware` ends up outermost."""
    call: CallNext = partial(call_source, source)
    for layer in reversed(middleware):
        call = partial(layer, call_next=call)
    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A meta tool that stands for another call, and its definition."""

    tool: CallWrapper
    definition: Tool


def wrappers_of(tools: MetaTools) -> Mapping[str, Wrapper]:
    return {
        name: Wrapper(tool=tool, definition=tool.definition(MetaOffer()))
        for name, tool in tools.items()
        if isinstance(tool, CallWrapper)
    }


def unwrap(
    call: ToolCall,
    wrappers: Mapping[str, Wrapper],
    view: View,
    meta: Collection[str] = (),
    *,
    bounds: Bounds = DEFAULT,
) -> ToolCall | ToolResult:
    """The call inside a wrapper, once; other calls as they are; a result says what is wrong with the wrapping."""
    wrapper = wrappers.get(call.name)
    if wrapper is None or not is_meta(call.name, view, meta):
        return call
    checked = checked_arguments(call, wrapper.definition, bounds=bounds)
    if isinstance(checked, ToolResult):
        return checked
    inner = wrapper.tool.unwrapped(call, checked.values)
    if is_meta(inner.name, view, meta):
        return failed(f"{inner.name} cannot be run through {call.name}; call it directly.", "unknown_tool")
    return inner


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a model wrote for a call, fit for the tool's schema."""

    values: dict[str, Any]
    dropped: tuple[str, ...] = ()
    """Names that only the application may inject, and that the model sent all the same."""


def checked_arguments(call: ToolCall, tool: Tool, *, bounds: Bounds = DEFAULT) -> Arguments | ToolResult:
    """The decoded arguments, or a result that names the field at fault and shows the schema.

    Names that begin with `_` are the application's (`_chatId`): a model's are dropped, unless the tool's schema declares them.
    """
    if len(call.arguments) > bounds.arguments:
        told = beyond(
            f"The arguments of {tool.name} have {len(call.arguments):,} characters", bounds.arguments, "arguments"
        )
        return failed(f"{told}.", "invalid_arguments")
    try:
        arguments = msgspec.json.decode(call.arguments.strip() or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _refused(tool, [f"they are not JSON ({error})"])
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return _refused(tool, [f"they must be a JSON object, not {type(arguments).__name__}"])
    dropped = _injected_names(arguments, tool)
    if dropped:
        arguments = {name: value for name, value in arguments.items() if name not in dropped}
        shown = [name[:64] for name in dropped[:_SHOWN_NAMES]]
        log.info("arguments_dropped", tool=tool.name, names=shown, count=len(dropped))
    wrong = argument_errors(tool.input_schema, arguments, bounds=bounds)
    return _refused(tool, wrong) if wrong else Arguments(values=arguments, dropped=dropped)


def _injected_names(arguments: dict[str, Any], tool: Tool) -> tuple[str, ...]:
    names = tuple(name for name in arguments if name.startswith("_"))
    declared = tool.input_schema.get("properties") if names else None
    return tuple(name for name in names if not isinstance(declared, Mapping) or name not in declared)


def _refused(tool: Tool, wrong: Sequence[str]) -> ToolResult:
    schema = canonical_json(tool.input_schema).decode()
    if len(schema) > _MAX_SCHEMA_SHOWN:
        schema = schema[:_MAX_SCHEMA_SHOWN] + " ... (cut)"
    return failed(
        f"The arguments of {tool.name} are wrong: {'; '.join(wrong)}. They must fit this schema: {schema}",
        "invalid_arguments",
    )
