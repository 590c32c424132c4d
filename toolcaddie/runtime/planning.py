"""Plans the tool array of the first model call of a run, and makes the state with which the run begins."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from toolcaddie.core.catalog import View
from toolcaddie.core.delivery import Delivery, DeliveryPlan
from toolcaddie.core.message import Message, message_tokens
from toolcaddie.core.meta_names import EXECUTE_TOOL, META_TOOLS, READ_RESULT, RUN_PROGRAM
from toolcaddie.core.run import RunContext, RunRequest, RunState
from toolcaddie.core.selection import Classification
from toolcaddie.core.tool import Tool, ToolCall
from toolcaddie.engine.engine import READER, Engine
from toolcaddie.engine.programs.functions import functions_in
from toolcaddie.engine.reveal import referenced_names, reveal_message, revealed_names
from toolcaddie.runtime.choosing import Choice
from toolcaddie.runtime.conversations import Conversation

_RECENT = 12
"""The number of last messages whose called tools stay in the array if the array is rebuilt."""
_INNER = re.compile(r'"tool_name"\s*:\s*"([^"\\]{1,128})"')
"""Finds the name of the tool in the arguments of a call of `execute_tool`."""
_NOTED_HANDLE = re.compile(r"handle '([0-9a-f]+)'")
"""Finds the handles in the notes of truncated results."""


def plan(choice: Choice, request: RunRequest, view: View, before: Conversation | None, *, now: float) -> Delivery:
    """Plans the tools of the first model call. `before`: the tools that the conversation was sent earlier; `now`: seconds since
    the epoch."""
    engine, messages = choice.engine, request.messages
    cached = _cached_length(messages)
    return engine.planner.plan_first(
        DeliveryPlan(
            view=view,
            selection=choice.selection,
            delivered=before.delivered if before else (),
            meta=_meta_tools(engine, view, before),
            programs="weigh" if engine.preset.programs == "auto" else "keep",
            wrote_programs=before is not None and before.programs,
            budget=engine.preset.budget,
            capabilities=engine.capabilities,
            known=revealed_names(messages),
            referenced=referenced_names(messages),
            pinned=choice.pinned,
            allowed=before.allowed if before else None,
            called=_recently_called(messages),
            history=message_tokens(messages[:cached]),
            fresh=message_tokens(messages[cached:]),
            idle=None if before is None or before.at is None else max(0.0, now - before.at),
            rounds=sum(1 for message in messages if message.role == "assistant"),
            lasting=bool(request.conversation) or not request.remember,
        )
    )


def first_state(
    context: RunContext,
    request: RunRequest,
    delivery: Delivery,
    classification: Classification | None,
    before: Conversation | None,
) -> RunState:
    """Returns the state with which a run begins. It includes the usage of the `classification`, because that model call was paid
    for. `before`: the conversation so far."""
    messages, classification = tuple(request.messages), classification or Classification()
    added = [tool for name in delivery.added if (tool := context.view.get(name)) is not None]
    return RunState(
        run_id=context.run_id,
        messages=(*messages, reveal_message(added, delivery.added_by)) if added else messages,
        first_new=len(messages),
        delivered=delivery.tools,
        meta=delivery.meta,
        known=(*revealed_names(messages), *delivery.added),
        referenced=(*referenced_names(messages), *(delivery.added if delivery.added_by == "reference" else ())),
        allowed=None if delivery.allowed is None else tuple(n for n in delivery.allowed if n not in delivery.meta),
        later_by=delivery.later_by,
        taint=tuple(dict.fromkeys((*request.inherited.taint, *taint_of(messages, context.view, before)))),
        waits_for="" if before is None else before.waiting,
        categories=classification.categories,
        usage=classification.usage,
        seconds=classification.seconds,
        catalog_version=context.view.catalog.version,
    )


def taint_of(messages: Sequence[Message], view: View, before: Conversation | None) -> tuple[str, ...]:
    """Returns the tools whose untrusted results are in a conversation. A tool that is not in the view may have been untrusted, so
    it counts as one; meta tools do not."""
    names = {call.id: _called_names(call, view) for message in messages for call in message.tool_calls}
    if view.get(READ_RESULT) is None:
        names |= _counted_before(messages)
    read = (message for message in messages if message.role == "tool" and not message.own_words)
    results = (names.get(message.tool_call_id or "", ("",)) for message in read)
    called = (name for names in results for name in names)
    untrusted = (name for name in called if name not in META_TOOLS and _is_untrusted(view.get(name)))
    return tuple(dict.fromkeys((*(() if before is None else before.taint), *untrusted)))


def _counted_before(messages: Sequence[Message]) -> dict[str, Sequence[str]]:
    """Returns, without names, the calls of `read_result` that read on in a result of the same messages: it was counted when it
    first came. Other handles lead to results of other conversations."""
    readers = {call.id: call for message in messages for call in message.tool_calls if call.name == READ_RESULT}
    if not readers:
        return {}
    results = (message for message in messages if message.role == "tool" and message.tool_call_id not in readers)
    handles = {handle for message in results for handle in _NOTED_HANDLE.findall(message.text)}
    return {key: () for key, call in readers.items() if _text_argument(call, "handle") in handles}


def _called_names(call: ToolCall, view: View) -> Sequence[str]:
    """Returns the names of the tools that a call runs: of `execute_tool` the inner one, of a program all that its text names. An
    empty name: it cannot be read."""
    argument = {EXECUTE_TOOL: "tool_name", RUN_PROGRAM: "code"}.get(call.name)
    if argument is None:
        return (call.name,)
    text = _text_argument(call, argument)
    if text is None:
        return ("",)
    return (text,) if call.name == EXECUTE_TOOL else [tool.name for tool in functions_in(text, view).values()]


def _text_argument(call: ToolCall, name: str) -> str | None:
    """Returns an argument of a call; None: it cannot be read, or is not a text."""
    try:
        text = msgspec.json.decode(call.arguments)[name]
    except (msgspec.DecodeError, TypeError, KeyError):
        return None
    return text if isinstance(text, str) else None


def _is_untrusted(tool: Tool | None) -> bool:
    return tool is None or tool.untrusted


def _cached_length(messages: Sequence[Message]) -> int:
    """Returns the number of first messages that the provider may have cached: those up to the last answer, or without an answer
    the system prompt alone."""
    answered = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role == "assistant"), -1) + 1
    return answered or sum(1 for message in messages if message.role in ("system", "developer"))


def _meta_tools(engine: Engine, view: View, before: Conversation | None) -> tuple[Tool, ...]:
    """Returns the meta tools of the engine, and `read_result` if the conversation has it already."""
    if before is not None and before.reads and view.get(READ_RESULT) is None:
        return (*engine.meta.values(), READER)
    return tuple(engine.meta.values())


def _recently_called(messages: Sequence[Message]) -> tuple[str, ...]:
    """Returns the names of the tools that the last messages call. For a call of `execute_tool`, the inner tool's name is searched
    in the text of the arguments."""
    calls = [call for message in messages[-_RECENT:] for call in message.tool_calls]
    inner = (_INNER.search(call.arguments) for call in calls if call.name == EXECUTE_TOOL)
    return (*(call.name for call in calls), *(match[1] for match in inner if match))
