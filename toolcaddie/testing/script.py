"""What a scripted model answers, and how that answer looks on the chat-completions wire."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from toolcaddie.core.message import Usage
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.util.replacing import replace

_PIECES = 3
"""A streamed text or argument comes in at most so many deltas: more than one, so that joining them is tested."""


class ScriptError(AssertionError):
    """The script has no answer left: more requests came than the test foresaw."""


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
    """What the model thought before; each wire shows it, and signs it, in its own way."""

    @property
    def finish(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")


def say(text: str, *, finish_reason: str | None = None, extra: JsonObject | None = None) -> Reply:
    """The model answers in words."""
    return Reply(text=text, finish_reason=finish_reason, extra=extra)


def call(
    name: str, arguments: Mapping[str, Any] | str | None = None, *, call_id: str = "", text: str | None = None
) -> Reply:
    """The model calls one tool. `arguments` as a string go out as they are, JSON or not."""
    return calls((name, arguments), ids=(call_id,), text=text)


def calls(
    *wanted: tuple[str, Mapping[str, Any] | str | None], ids: Sequence[str] = (), text: str | None = None
) -> Reply:
    """The model calls several tools at once. `ids` may repeat, to see what that does."""
    ids = ids or [""] * len(wanted)
    return Reply(
        text=text,
        calls=tuple(
            ToolCall(id=call_id, name=name, arguments=_argument_text(arguments))
            for (name, arguments), call_id in zip(wanted, ids, strict=True)
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
        self._asked = 0

    async def next(self, ask: Ask) -> Step:
        step = self._pick()
        if callable(step):
            step = step(ask)
        if inspect.isawaitable(step):
            step = await step
        if isinstance(step, Reply):
            step = _with_ids(step, self._asked)
        return cast("Step", step)

    def _pick(self) -> Any:
        self._asked += 1
        if callable(self._steps):
            return self._steps
        if self._asked > len(self._steps):
            raise ScriptError(f"the script has {len(self._steps)} answers and this is request {self._asked}")
        return self._steps[self._asked - 1]


def _with_ids(reply: Reply, asked: int) -> Reply:
    named = tuple(
        each if each.id else replace(each, id=f"call_{asked}_{position}") for position, each in enumerate(reply.calls)
    )
    return replace(reply, calls=named)


def completion(reply: Reply, *, answer_id: str, model: str) -> dict[str, Any]:
    """The body of a plain answer."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None, **(reply.extra or {})}
    if reply.calls:
        message["tool_calls"] = [_wire_call(each) for each in reply.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    return {**_head(answer_id, model, "chat.completion"), "choices": [choice], "usage": wire_usage(reply.usage)}


def completion_chunks(reply: Reply, *, answer_id: str, model: str, include_usage: bool) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed answer, without the closing [DONE]."""
    head = _head(answer_id, model, "chat.completion.chunk")
    usage_field: dict[str, Any] = {"usage": None} if include_usage else {}
    for delta in _deltas(reply):
        yield {**head, "choices": [_choice(delta, None)], **usage_field}
    yield {**head, "choices": [_choice({}, reply.finish)], **usage_field}
    if include_usage:
        yield {**head, "choices": [], "usage": wire_usage(reply.usage)}


def _deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": None if reply.calls else "", "refusal": None, **(reply.extra or {})}
    for piece in _pieces(reply.text or ""):
        yield {"content": piece}
    for index, each in enumerate(reply.calls):
        yield {"tool_calls": [{"index": index, **_wire_call(replace(each, arguments=""))}]}
        for piece in _pieces(each.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    size = -(-len(text) // _PIECES) or 1
    return (text[start : start + size] for start in range(0, len(text), size))


def _choice(delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _wire_call(each: ToolCall) -> dict[str, Any]:
    return {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}}


def _head(answer_id: str, model: str, kind: str) -> dict[str, Any]:
    return {"id": answer_id, "object": kind, "created": 1_700_000_000, "model": model, "service_tier": "default"}


def wire_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
