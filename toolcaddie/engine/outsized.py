"""Refuses answers of a model that are too large: more calls than can ever be sent back, or a name that is too long. Such an
answer ends the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import CallDelta, ModelReply


def check_reply(reply: ModelReply, bounds: Bounds, *, provider: str) -> None:
    """Raises `ProviderProtocolError` if an answer has too many calls, or a call has too long a name."""
    calls = reply.message.tool_calls
    _check_count(len(calls), bounds, provider)
    _check_names((call.name for call in calls), bounds, provider)


def check_deltas(deltas: Sequence[CallDelta], bounds: Bounds, *, provider: str) -> None:
    """Raises the same error for the pieces of a streamed answer, as soon as they show the excess."""
    _check_count(max((delta.index for delta in deltas), default=-1) + 1, bounds, provider)
    _check_names((delta.name for delta in deltas if delta.name is not None), bounds, provider)


def _check_count(count: int, bounds: Bounds, provider: str) -> None:
    if count > bounds.answer_calls:
        problem = beyond(f"the answer of {provider} holds {count:,} tool calls", bounds.answer_calls, "answer_calls")
        raise ProviderProtocolError(problem)


def _check_names(names: Iterable[str], bounds: Bounds, provider: str) -> None:
    longest = max(map(len, names), default=0)
    if longest > bounds.name:
        problem = beyond(f"{provider} calls a tool whose name has {longest:,} characters", bounds.name, "name")
        raise ProviderProtocolError(problem)
