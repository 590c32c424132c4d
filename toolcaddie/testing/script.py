"""Scripts for the models of tests: the replies that a test writes down, and the order in which they are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, RawBody
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.usage import Usage
from toolcaddie.util.replacing import replace

PIECES = 3
"""Largest number of deltas that a streamed text or argument is divided into. It is above 1, so that joining them is tested."""


class ScriptError(AssertionError):
    """All answers of the script are used: there were more requests than the test expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of a scripted model. A call with an empty id is given an id that is unique within the script."""

    text: str | None = None
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    """None stands for 'tool_calls' if the reply has calls, and for 'stop' otherwise."""
    usage: Usage = Usage(input_tokens=100, output_tokens=10)
    extra: JsonObject | None = None
    """More fields of the message, such as `refusal`; for some APIs, more fields of the answer."""
    reasoning: str = ""
    """The model's reasoning before the answer. Each provider's API shows and signs reasoning in its own way."""

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
    """The steps of a script: a list, used in order, or a function that makes the step for every request.

    A step of the list may itself be a function of the request, sync or async. `Ask` is the type of a request, `Step` that of a
    finished step. `next` raises `ScriptError` when the list is used up.
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
            raise ScriptError(
                f"the script has {len(self._steps)} answers, and this is request {self._count}: add an answer to the script"
            )
        return self._steps[self._count - 1]


def _with_ids(reply: Reply, number: int) -> Reply:
    if all(each.id for each in reply.calls):
        return reply
    calls = tuple(
        each if each.id else replace(each, id=f"call_{number}_{position}") for position, each in enumerate(reply.calls)
    )
    return replace(reply, calls=calls)


def model_reply(reply: Reply, *, model: str, raw: RawBody | None = None) -> ModelReply:
    """Returns the reply as a provider returns it to its caller. `raw`: the body of the answer that a server would have sent."""
    return ModelReply(
        message=Message(role="assistant", content=reply.text, tool_calls=reply.calls, extra=reply.extra),
        finish_reason=reply.finish,
        usage=reply.usage,
        model=model,
        raw=raw,
    )


def deltas(reply: Reply) -> Iterator[ModelDelta]:
    """Yields the text and the calls of a reply piece by piece, as a provider streams them."""
    for piece in pieces(reply.text or ""):
        yield ModelDelta(text=piece)
    for index, each in enumerate(reply.calls):
        yield ModelDelta(calls=(CallDelta(index=index, id=each.id, name=each.name),))
        for piece in pieces(each.arguments):
            yield ModelDelta(calls=(CallDelta(index=index, arguments=piece),))


def pieces(text: str) -> Iterator[str]:
    size = -(-len(text) // PIECES) or 1
    return (text[start : start + size] for start in range(0, len(text), size))
