"""A check with one conversation over two providers that take turns, for tests of providers (`check_switch`).

Neither provider may lose, double or reorder a call or a result of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.message import Message, ModelReply
from toolcaddie.ports import Provider
from toolcaddie.testing.provider_contract.answers import TOOLS
from toolcaddie.testing.provider_contract.asking import THINKING, thought
from toolcaddie.testing.provider_contract.subject import (
    Subject,
    ask,
    in_order_and_once,
    nothing_refused,
    request_of,
    result_of,
    same,
    stage,
    user,
)
from toolcaddie.testing.script import Reply, call, calls, say
from toolcaddie.testing.upstream import ScriptedUpstream
from toolcaddie.util.replacing import replace

_FIRST: Sequence[Reply] = (
    thought(calls(("find", {"note": "argument-0"}), ("add", {"note": "argument-1"}), text="I look."), "First I look."),
    thought(calls(*((name, {"note": f"argument-{place + 3}"}) for place, name in enumerate(TOOLS))), "Now all of it."),
    thought(say("All is done."), "That was it."),
)
_SECOND: Sequence[Reply] = (
    thought(call("note", {"note": "argument-2"}, text="I go on."), "The other one looked."),
    thought(call("send", {"note": "argument-7"}), "Nearly there."),
)


async def check_switch(first: Subject, second: Subject, *, stream: bool = False) -> None:
    """Checks a conversation of five requests, sent by `first` and `second` in turn. The model calls tools in all but the last
    round.

    The servers are as strict as the real ones. The two subjects must not have the same name of the provider and the same model,
    because each must recognise its own messages. Raises `ContractError`."""
    async with stage(first, _FIRST) as one, stage(second, _SECOND) as two:
        messages: list[Message] = [Message(role="system", content="Be brief."), user("Do everything.")]
        marks: list[str] = []
        replies = [await _round(seat, messages, marks, stream) for seat in _turns((first, *one), (second, *two))]
    same("the last words", replies[-1].message.text, "All is done.")
    same("calls that were answered", len([word for word in marks if word.startswith("result")]), 8)


_Seat = tuple[Subject, Provider, ScriptedUpstream]
"""A subject, its provider, and the server that the provider asks."""


def _turns(first: _Seat, second: _Seat) -> tuple[_Seat, ...]:
    return first, second, first, second, first


async def _round(seat: _Seat, messages: list[Message], marks: list[str], stream: bool) -> ModelReply:
    """Sends one request with all `messages`, and appends the reply and the results of its calls to them. `marks` are the
    arguments and the results so far: the request must contain them in this order."""
    subject, provider, upstream = seat
    reply = await ask(provider, request_of(subject, *messages, tools=TOOLS, params=THINKING), stream)
    nothing_refused(upstream)
    in_order_and_once(upstream.requests[-1], marks)
    number = sum(word.startswith("argument") for word in marks)
    own_calls = tuple(replace(each, id=f"call_{number + place}") for place, each in enumerate(reply.message.tool_calls))
    messages.append(replace(reply.message, tool_calls=own_calls))
    messages += [result_of(each, f"result-{number + place} is there") for place, each in enumerate(own_calls)]
    marks += [f"argument-{number + place}" for place in range(len(own_calls))]
    marks += [f"result-{number + place} " for place in range(len(own_calls))]
    return reply
