"""Answers of a model that no run goes on with: more calls than could ever be sent back, or a name that is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import CallDelta, ModelReply


def check_reply(reply: ModelReply, bounds: Bounds, *, who: str) -> None:
    """Raises `ProviderProtocolError`."""
    calls = reply.message.tool_calls
    _check_count(len(calls), bounds, who)
    _check_names((call.name for call in calls), bounds, who)


def check_deltas(deltas: Sequence[CallDelta], bounds: Bounds, *, who: str) -> None:
    """The same of a streamed answer while it comes in."""
    if deltas:
        _check_count(max(delta.index for delta in deltas) + 1, bounds, who)
        _check_names((delta.name for delta in deltas if delta.name is not None), bounds, who)


def _check_count(count: int, bounds: Bounds, who: str) -> None:
    if count > bounds.answer_calls:
        told = beyond(f"the answer of {who} holds {count:,} tool calls", bounds.answer_calls, "answer_calls")
        raise ProviderProtocolError(told)


def _check_names(names: Iterable[str], bounds: Bounds, who: str) -> None:
    longest = max(map(len, names), default=0)
    if longest > bounds.name:
        told = beyond(f"{who} calls a tool whose name has {longest:,} characters", bounds.name, "name")
        raise ProviderProtocolError(told)
