"""Adds tools to a conversation after its first request: the new state of the run, and the message that shows the tools to the
model.

If the tool array must not change, a message after it adds the tools, in one of two ways. As text, the message has their schemas
(`shown`), and the model calls them through `execute_tool`. By reference, the message has their names (`revealed`), and the
provider shows their definitions to the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from toolcaddie.core.delivery import AddedBy, DeliveredTool
from toolcaddie.core.message import Message
from toolcaddie.core.meta_names import EXECUTE_TOOL
from toolcaddie.core.run import RunState
from toolcaddie.core.schema import wire_definition
from toolcaddie.core.tool import Reveal, Taint, Tool, ToolCall, ToolResult
from toolcaddie.util.replacing import replace

MOST_REVEALED = 4
"""The largest number of tools that one answer to `request_more_tools` adds, if every later model call pays for them."""


def with_effect(state: RunState, result: ToolResult) -> RunState:
    """Returns the state after the result of a meta tool. The tools that the result reveals are added, or replace all earlier
    tools if the budget has no room for them. Text of untrusted tools in the result taints the run."""
    if isinstance(result.effect, Taint):
        return replace(state, taint=tuple(dict.fromkeys((*state.taint, *result.effect.names))))
    if not isinstance(result.effect, Reveal):
        return state
    reveal = result.effect
    added = tuple(DeliveredTool(name=name, slim=name in reveal.slim) for name in reveal.names)
    if state.allowed is not None:
        delivered_names = {tool.name for tool in state.delivered}
        missing = tuple(tool for tool in added if tool.name not in delivered_names)
        allowed = tuple(dict.fromkeys((*state.allowed, *reveal.names)))
        return replace(state, allowed=allowed, delivered=(*state.delivered, *missing))
    if state.later_by != "array":
        all_names = tuple(dict.fromkeys((*state.known, *reveal.names)))
        references = reveal.names if state.later_by == "reference" else ()
        return replace(state, known=all_names, referenced=tuple(dict.fromkeys((*state.referenced, *references))))
    return replace(state, delivered=added if reveal.replace else (*state.delivered, *added))


def result_message(call: ToolCall, result: ToolResult, state: RunState) -> Message:
    """Returns a call's result as the model reads it."""
    names = result.effect.names if state.allowed is None and isinstance(result.effect, Reveal) else ()
    return Message(
        role="tool",
        tool_call_id=call.id,
        content=result.content,
        is_error=result.is_error,
        own_words=result.own_words,
        revealed=names if state.later_by == "reference" else (),
        shown=names if state.later_by == "text" else (),
    )


def callable_now(state: RunState) -> tuple[DeliveredTool, ...]:
    """Returns the tools in the array that the model may call."""
    if state.allowed is None:
        return state.delivered
    return tuple(tool for tool in state.delivered if tool.name in state.allowed)


def revealed_names(messages: Iterable[Message]) -> tuple[str, ...]:
    """Returns the names of the tools that messages have added, as text or by reference, in the order of the messages."""
    return tuple(dict.fromkeys(name for message in messages for name in (*message.revealed, *message.shown)))


def referenced_names(messages: Iterable[Message]) -> tuple[str, ...]:
    """Returns the names of the tools that messages have added by reference, in the order of the messages."""
    return tuple(dict.fromkeys(name for message in messages for name in message.revealed))


def reveal_message(tools: Sequence[Tool], by: AddedBy) -> Message:
    """Returns the message that adds tools to the conversation before the next answer."""
    names = tuple(tool.name for tool in tools)
    if by == "reference":
        return Message(role="system", content="", revealed=names)
    return Message(role="system", content=f"More tools that may fit:\n{schemas(tools)}", shown=names)


def schemas(tools: Iterable[Tool]) -> str:
    """Returns the schemas of tools as text, one in each line, after a line that says how to call them."""
    lines = [msgspec.json.encode(_function(tool)).decode() for tool in tools]
    return "\n".join([f"Call these through {EXECUTE_TOOL}, with `arguments` as their parameters say:", *lines])


def _function(tool: Tool) -> object:
    definition = wire_definition(tool, slim=True)
    return definition.get("function", definition)
