"""Makes the ids of calls unique within a conversation, because a model may repeat an id or omit it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Sequence

from toolcaddie.core.catalog import View
from toolcaddie.core.message import CallDelta, Message
from toolcaddie.core.tool import CLIENT_SOURCE
from toolcaddie.util.replacing import replace

_INNER = re.compile(r"\.[0-9]+\Z")
"""Matches the end of the ids of calls inside programs."""


class StreamedCalls:
    """The calls of a streamed answer. Each gets a new id. The calls of tools that the caller runs are also numbered from 0,
    because the caller's stream contains no other calls."""

    def __init__(self, view: View, meta: Collection[str], earlier: Sequence[Message]) -> None:
        self._view = view
        self._meta = meta
        self._used = used_ids(earlier)
        self._ids: dict[int, str] = {}
        self._caller_indexes: dict[int, int] = {}

    def of_the_caller(self, deltas: Sequence[CallDelta]) -> list[CallDelta]:
        """Returns the pieces that belong to calls of the caller's tools, with new ids and numbers."""
        visible = []
        for delta in deltas:
            if delta.index not in self._ids:
                self._ids[delta.index] = fresh_id(delta.id or "", self._used)
                tool = self._view.get(delta.name or "")
                if tool is not None and tool.source == CLIENT_SOURCE and tool.name not in self._meta:
                    self._caller_indexes[delta.index] = len(self._caller_indexes)
                delta = replace(delta, id=self._ids[delta.index])
            if delta.index in self._caller_indexes:
                visible.append(replace(delta, index=self._caller_indexes[delta.index]))
        return visible

    def with_ids(self, message: Message) -> Message:
        """Returns the whole message with the ids of the streamed calls. A call that was not streamed keeps its id."""
        calls = message.tool_calls
        if len(self._ids) == len(calls):  # whatever numbers the provider gave them
            ids = [self._ids[index] for index in sorted(self._ids)]
        else:
            ids = [self._ids.get(position, call.id) for position, call in enumerate(calls)]
        return _with_ids(message, ids)


def with_unique_ids(message: Message, earlier: Sequence[Message]) -> Message:
    """Returns the message with a new id for each call that has none, or whose id another call has or may get: the result of a
    call is found by its id. `earlier`: the messages before it."""
    used = used_ids(earlier)
    ids = [fresh_id(call.id, used) for call in message.tool_calls]
    return _with_ids(message, ids)


def _with_ids(message: Message, ids: list[str]) -> Message:
    calls = message.tool_calls
    if ids == [call.id for call in calls]:  # nearly always: spare the copies
        return message
    pairs = zip(calls, ids, strict=True)
    return replace(message, tool_calls=tuple(replace(call, id=call_id) for call, call_id in pairs))


def used_ids(messages: Sequence[Message]) -> set[str]:
    """Returns the ids of all calls in these messages."""
    return {call.id for message in messages for call in message.tool_calls}


def inner_id(parent_id: str, number: int) -> str:
    """Returns the id of a call inside a program: the same when the program is run again. `number`: from 0."""
    return f"{parent_id}.{number + 1}"


def fresh_id(proposal: str, used: set[str]) -> str:
    """Returns `proposal` if it is not in `used` and no call inside a program can have it (`inner_id`), otherwise a new id. The id
    is added to `used`."""
    free = proposal and proposal not in used and not _INNER.search(proposal)
    call_id = proposal if free else f"call_{uuid.uuid4().hex}"
    used.add(call_id)
    return call_id
