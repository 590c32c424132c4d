"""The script of a model: its replies, whole and in pieces."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, RawBody, Usage
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.util.replacing import replace

PIECES = 3
"""A streamed text or argument comes in at most so many deltas: more than one, so that joining them is tested."""


class ScriptError(AssertionError):
    """The script has no answer left: there were more requests than the test expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of a scripted model. A call with an empty id gets one that is unique within the script's run."""

    text: str | None = None
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    """None: 'tool_calls' with calls, else 'stop'."""
    usage: Usage = Usage(input_tokens=100, output_tokens=10)
    extra: JsonObject | None = None
    """Further fields of the message (refusal, reasoning_content, ...)."""
    reasoning: str = ""
    """The reasoning before the answer; each wire shows and signs it in its own way."""

    @property
    def finish(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")


def say(text: str, *, finish_reason: str | None = None, extra: JsonObject | None = None) -> Reply:
    """Returns a reply in text."""
    return Reply(text=text, finish_reason=finish_reason, extra=extra)


def call(
    name: str, arguments: Mapping[str, Any] | str | None = None, *, call_id: str = "", text: str | None = None
) -> Reply:
    """Returns a reply that calls one tool. `arguments` as a string are sent unchanged, JSON or not."""
    return calls((name, arguments), ids=(call_id,), text=text)


def calls(
    *requests: tuple[str, Mapping[str, Any] | str | None], ids: Sequence[str] = (), text: str | None = None
) -> Reply:
    """Returns a reply that calls several tools at once. `ids` may repeat, to test that."""
    ids = ids or [""] * len(requests)
    return Reply(
        text=text,
        calls=tuple(
            ToolCall(id=call_id, name=name, arguments=_argument_text(arguments))
            for (name, arguments), call_id in zip(requests, ids, strict=True)
        ),
    )


def _argument_text(arguments: Mapping[str, Any] | str | None) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()


Ask = TypeVar("Ask")
Step = TypeVar("Step")


class Script(Generic[Ask, Step]):
    """Answers in order, or made from each request. A step may be a function of the request, sync or async.

    Raises `ScriptError` when the list is used up.
    """

    def __init__(self, steps: Sequence[Any] | Callable[[Ask], Any]) -> None:
        self._steps = steps
        self._count = 0

    async def next(self, ask: Ask) -> Step:
        step = self._pick()
        if callable(step):
            step = step(ask)
        if inspect.isawaitable(step):
            step = await step
        if isinstance(step, Reply):
            step = _with_ids(step, self._count)
        return cast("Step", step)

    def _pick(self) -> Any:
        self._count += 1
        if callable(self._steps):
            return self._steps
        if self._count > len(self._steps):
            raise ScriptError(f"the script has {len(self._steps)} answers and this is request {self._count}")
        return self._steps[self._count - 1]


def _with_ids(reply: Reply, number: int) -> Reply:
    if all(each.id for each in reply.calls):
        return reply
    calls = tuple(
        each if each.id else replace(each, id=f"call_{number}_{position}") for position, each in enumerate(reply.calls)
    )
    return replace(reply, calls=calls)


def model_reply(reply: Reply, *, model: str, raw: RawBody | None = None) -> ModelReply:
    """Returns the reply as a provider would; `raw` is its body."""
    return ModelReply(
        message=Message(role="assistant", content=reply.text, tool_calls=reply.calls, extra=reply.extra),
        finish_reason=reply.finish,
        usage=reply.usage,
        model=model,
        raw=raw,
    )


def deltas(reply: Reply) -> Iterator[ModelDelta]:
    """Yields the words and calls of a reply piece by piece."""
    for piece in pieces(reply.text or ""):
        yield ModelDelta(text=piece)
    for index, each in enumerate(reply.calls):
        yield ModelDelta(calls=(CallDelta(index=index, id=each.id, name=each.name),))
        for piece in pieces(each.arguments):
            yield ModelDelta(calls=(CallDelta(index=index, arguments=piece),))


def pieces(text: str) -> Iterator[str]:
    size = -(-len(text) // PIECES) or 1
    return (text[start : start + size] for start in range(0, len(text), size))
