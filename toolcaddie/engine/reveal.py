"""Tools that join a conversation after its first request: what that changes in a run, and how a model is told.

Where the array is not to change, they are made known behind it by a message: its text shows their schemas, or its `revealed`
lets the provider's wire say it by the provider's own means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from toolcaddie.core.delivery import AddedBy, DeliveredTool
from toolcaddie.core.message import Message
from toolcaddie.core.meta_names import EXECUTE_TOOL
from toolcaddie.core.run import RunState
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.tool import Reveal, Tool, ToolCall, ToolResult
from toolcaddie.util.replacing import replace

MOST_REVEALED = 4
"""Tools of one answer to `request_more_tools`, where every call after it pays for them."""


def with_effect(state: RunState, result: ToolResult) -> RunState:
    """What a meta tool changes in a run: tools join, or, when the reserve is spent, take the place of the whole array."""
    if not isinstance(result.effect, Reveal):
        return state
    reveal = result.effect
    added = tuple(DeliveredTool(name=name, slim=name in reveal.slim) for name in reveal.names)
    if state.allowed is not None:
        sent = {tool.name for tool in state.delivered}
        missing = tuple(tool for tool in added if tool.name not in sent)
        allowed = tuple(dict.fromkeys((*state.allowed, *reveal.names)))
        return replace(state, allowed=allowed, delivered=(*state.delivered, *missing))
    if state.later_by != "array":
        known = tuple(dict.fromkeys((*state.known, *reveal.names)))
        told = reveal.names if state.later_by == "reference" else ()
        return replace(state, known=known, referenced=tuple(dict.fromkeys((*state.referenced, *told))))
    return replace(state, delivered=added if reveal.replace else (*state.delivered, *added))


def result_message(call: ToolCall, result: ToolResult, state: RunState) -> Message:
    """A call's result as the model reads it."""
    names = result.effect.names if state.allowed is None and isinstance(result.effect, Reveal) else ()
    return Message(
        role="tool",
        tool_call_id=call.id,
        content=result.content,
        is_error=result.is_error,
        revealed=names if state.later_by == "reference" else (),
        shown=names if state.later_by == "text" else (),
    )


def callable_now(state: RunState) -> tuple[DeliveredTool, ...]:
    """What of the array the model may call."""
    if state.allowed is None:
        return state.delivered
    return tuple(tool for tool in state.delivered if tool.name in state.allowed)


def known_from(messages: Iterable[Message]) -> tuple[str, ...]:
    """The tools that a conversation's messages have made known, in order."""
    return tuple(dict.fromkeys(name for message in messages for name in (*message.revealed, *message.shown)))


def referenced_in(messages: Iterable[Message]) -> tuple[str, ...]:
    """Of these, the ones made known by the provider's own means."""
    return tuple(dict.fromkeys(name for message in messages for name in message.revealed))


def telling(tools: Sequence[Tool], by: AddedBy) -> Message:
    """The message that makes tools known before the next answer."""
    named = tuple(tool.name for tool in tools)
    if by == "reference":
        return Message(role="system", content="", revealed=named)
    return Message(role="system", content=f"More tools that may fit:\n{schemas(tools)}", shown=named)


def schemas(tools: Iterable[Tool]) -> str:
    """What a model has to know of tools that are called through `execute_tool`."""
    lines = [msgspec.json.encode(_function(tool)).decode() for tool in tools]
    return "\n".join([f"Call these through {EXECUTE_TOOL}, with `arguments` as their parameters say:", *lines])


def _function(tool: Tool) -> object:
    definition = wire_definition(tool, slim=True)
    return definition.get("function", definition)
