"""Ids of calls: whatever a model writes, within a conversation each call has one that nobody else had."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from toolcaddie.core.catalog import View
from toolcaddie.core.message import CallDelta, Message
from toolcaddie.core.tool import CLIENT_SOURCE
from toolcaddie.util.replacing import replace


class StreamedCalls:
    """The calls of a streamed answer: each gets an id nobody used before, and the caller's own are counted apart, as
    the caller will see them."""

    def __init__(self, view: View, meta: Collection[str], earlier: Sequence[Message]) -> None:
        self._view = view
        self._meta = meta
        self._used = used_ids(earlier)
        self._ids: dict[int, str] = {}
        self._shown: dict[int, int] = {}

    def of_the_caller(self, deltas: Sequence[CallDelta]) -> list[CallDelta]:
        found = []
        for delta in deltas:
            if delta.index not in self._ids:
                self._ids[delta.index] = fresh_id(delta.id or "", self._used)
                tool = self._view.get(delta.name or "")
                if tool is not None and tool.source == CLIENT_SOURCE and tool.name not in self._meta:
                    self._shown[delta.index] = len(self._shown)
                delta = replace(delta, id=self._ids[delta.index])
            if delta.index in self._shown:
                found.append(replace(delta, index=self._shown[delta.index]))
        return found

    def with_ids(self, message: Message) -> Message:
        """The whole message with the ids that were streamed. A call that came whole with it, unstreamed, has its own."""
        calls = message.tool_calls
        if len(self._ids) == len(calls):  # whatever numbers the provider gave them
            ids = [self._ids[index] for index in sorted(self._ids)]
        else:
            ids = [self._ids.get(position, call.id) for position, call in enumerate(calls)]
        pairs = zip(calls, ids, strict=True)
        return replace(message, tool_calls=tuple(replace(call, id=given) for call, given in pairs))


def with_unique_ids(message: Message, earlier: Sequence[Message]) -> Message:
    """Results must find their call: one without an id, or with one used before, gets a fresh one."""
    used = used_ids(earlier)
    calls = tuple(replace(call, id=fresh_id(call.id, used)) for call in message.tool_calls)
    return replace(message, tool_calls=calls)


def used_ids(messages: Sequence[Message]) -> set[str]:
    return {call.id for message in messages for call in message.tool_calls}


def fresh_id(wanted: str, used: set[str]) -> str:
    """`wanted` if it is new, else an id that is; taken note of in `used`."""
    given = wanted if wanted and wanted not in used else f"call_{uuid.uuid4().hex}"
    used.add(given)
    return given
