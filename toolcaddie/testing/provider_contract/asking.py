"""Requests: everything a conversation holds reaches the server, in order and once, in a form that it accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from toolcaddie.errors import ProviderRejectedError, RequestError
from toolcaddie.message import Message, ModelRequest
from toolcaddie.ports import Provider
from toolcaddie.testing.provider_contract.answers import MEANT, TOOLS
from toolcaddie.testing.provider_contract.subject import (
    Checks,
    Subject,
    ask,
    broken,
    definition,
    in_order_and_once,
    made,
    nothing_refused,
    patience,
    request_of,
    result_of,
    same,
    staged,
    user,
)
from toolcaddie.testing.script import Reply, call, calls, say
from toolcaddie.testing.upstream import ScriptedUpstream
from toolcaddie.tool_types import ToolCall

CHECKS = Checks()

THINKING = {"reasoning_effort": "low"}

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def thought(reply: Reply, reasoning: str) -> Reply:
    return replace(reply, reasoning=reasoning)


@CHECKS.both
async def thinking_and_tools_over_three_rounds_come_back_as_they_were(subject: Subject, stream: bool) -> None:
    """One call, then four at once, then words, and one more message of the user behind it all. The server signs what it
    thought and refuses it changed."""
    script = [
        thought(call("find", {"note": "argument-1"}, text="Let me look."), "First I look."),
        thought(calls(*((name, {"note": f"argument-2-{name}"}) for name in TOOLS)), "Now all at once."),
        thought(say("All is done."), "That was it."),
        say("You are welcome."),
    ]
    async with staged(subject, script) as (provider, upstream):
        said: list[Message] = [Message(role="system", content="Be brief."), user("Do everything.")]
        for number in range(len(script)):
            reply = await ask(provider, request_of(subject, *said, tools=TOOLS, params=THINKING), stream)
            nothing_refused(upstream)
            said += [reply.message, *_results(reply.message, f"result-{number}")]
            if number == 2:
                same("the words", reply.message.text, "All is done.")
                said.append(user("Thank you."))
        spoken = ["argument-1", "result-0-0", *(f"argument-2-{name}" for name in TOOLS)]
        in_order_and_once(upstream.requests[-1], [*spoken, *(f"result-1-{place}" for place in range(len(TOOLS)))])


def _results(message: Message, marker: str) -> list[Message]:
    return [result_of(each, f"{marker}-{place} is there") for place, each in enumerate(message.tool_calls)]


@CHECKS.one
async def thinking_that_is_shown_is_no_part_of_the_answer(subject: Subject) -> None:
    async with staged(subject, [thought(say("Four."), "Two and two...")]) as (provider, _):
        reply = await ask(provider, request_of(subject, params=THINKING), stream=True)
    same("the words", reply.message.text, "Four.")


@CHECKS.both
async def an_error_of_a_tool_reaches_the_model_in_words(subject: Subject, stream: bool) -> None:
    async with staged(subject, [calls(("find", None), ("add", None)), say("Sorry.")]) as (provider, upstream):
        first = (await ask(provider, request_of(subject, tools=TOOLS), stream)).message
        results = (
            result_of(first.tool_calls[0], "error: no member of that name", is_error=True),
            result_of(first.tool_calls[1], "added well"),
        )
        request = request_of(subject, user("hello"), first, *results, tools=TOOLS)
        same("the words", (await ask(provider, request, stream)).message.text, "Sorry.")
        nothing_refused(upstream)
        in_order_and_once(upstream.requests[-1], ["no member of that name", "added well"])


@CHECKS.both
async def calls_go_back_under_the_ids_that_the_loop_gave_them(subject: Subject, stream: bool) -> None:
    """A model may use an id twice; whoever runs the calls names them anew, in the message too."""
    twice = calls(("add", {"note": "argument-one"}), ("add", {"note": "argument-two"}), ids=("call_same", "call_same"))
    async with staged(subject, [twice, say("Done.")]) as (provider, upstream):
        first = (await ask(provider, request_of(subject, tools=TOOLS), stream)).message
        named = tuple(replace(each, id=f"call_fresh_{place}") for place, each in enumerate(first.tool_calls))
        first = replace(first, tool_calls=named)
        request = request_of(subject, user("hello"), first, *_results(first, "result"), tools=TOOLS)
        await ask(provider, request, stream)
        nothing_refused(upstream)
        in_order_and_once(upstream.requests[-1], ["argument-one", "argument-two", "result-0", "result-1"])


_BAD_CALL = ToolCall(id="call with spaces/and slashes: ü", name="add", arguments="{not json")
_LONG_CALL = ToolCall(id="call_" + "x" * 200, name="find", arguments='{"note":"argument-of-long"}')
HARD_HISTORIES: dict[str, tuple[Message, ...]] = {
    "two users in a row": (user("said-one"), user("said-two")),
    "the assistant speaks first": (Message(role="assistant", content="said-one"), user("said-two")),
    "empty texts": (
        Message(role="system", content=""),
        user("said-one"),
        Message(role="assistant", content=""),
        user("said-two"),
    ),
    "a developer and a system message": (
        Message(role="developer", content="said-one"),
        Message(role="system", content="said-two"),
        user("said-three"),
    ),
    "a system message in the middle": (
        user("said-one"),
        Message(role="assistant", content="said-two"),
        Message(role="system", content="said-three"),
        user("said-four"),
    ),
    "a result without words": (
        user("said-one"),
        Message(role="assistant", tool_calls=(ToolCall(id="c1", name="add"),)),
        Message(role="tool", tool_call_id="c1", content=""),
    ),
    "text in parts": (
        Message(role="user", content=({"type": "text", "text": "said-one"}, {"type": "text", "text": "said-two"})),
    ),
    "a tool that is no longer sent": (
        user("said-one"),
        Message(role="assistant", tool_calls=(ToolCall(id="c1", name="gone_tool", arguments='{"note":"said-two"}'),)),
        Message(role="tool", tool_call_id="c1", content="said-three"),
        user("said-four"),
    ),
}
"""Conversations as clients and interrupted runs leave them behind."""


@CHECKS.one
async def conversations_of_every_shape_are_accepted_and_lose_no_word(subject: Subject) -> None:
    for name, history in HARD_HISTORIES.items():
        async with staged(subject, [say("Fine.")]) as (provider, upstream):
            try:
                await ask(provider, request_of(subject, *history, tools=TOOLS), stream=False)
            except ProviderRejectedError as error:
                broken(f"a request that holds {name}", str(error))
            numbers = [word for word in ("one", "two", "three", "four") if f"said-{word}" in str(history)]
            said = sorted((f"said-{word}" for word in numbers), key=str(history).index)
            for word in said:
                found = upstream.requests[0].raw.count(word.encode())
                same(f"how often {word!r} stands in a request with {name}", found, 1)


@CHECKS.one
async def calls_of_others_are_made_fit_for_this_server(subject: Subject) -> None:
    """Another provider's ids may be longer, or hold characters this one's server refuses, and a model may have written
    arguments that are no JSON: the turn is over, and must not make every further request fail."""
    theirs = Message(role="assistant", tool_calls=(_LONG_CALL, _BAD_CALL), author="other:model")
    results = (result_of(_LONG_CALL, "result-0"), result_of(_BAD_CALL, "result-1: not JSON", is_error=True))
    async with staged(subject, [say("Fine.")]) as (provider, upstream):
        try:
            await ask(provider, request_of(subject, user("go"), theirs, *results, tools=TOOLS), stream=False)
        except ProviderRejectedError as error:
            broken("a request with calls of another provider", str(error))
        in_order_and_once(upstream.requests[0], ["argument-of-long", "result-0", "result-1"])


@CHECKS.one
async def every_choice_of_a_tool_is_accepted_and_says_something_of_its_own(subject: Subject) -> None:
    choices: list[Any] = [
        "auto",
        "none",
        "required",
        _named("add"),
        _named("find"),
        _allowed("auto"),
        _allowed("required"),
    ]
    async with staged(subject, lambda _: say("Fine.")) as (provider, upstream):
        await ask(provider, request_of(subject, tools=TOOLS), stream=False)
        for choice in choices:
            await ask(provider, request_of(subject, tools=TOOLS, tool_choice=choice), stream=False)
            nothing_refused(upstream)
        sent = [request.raw for request in upstream.requests[1:]]
    for place, body in enumerate(sent):
        if body in sent[:place]:
            broken(
                f"a request of its own for the choice {choices[place]!r}", f"the one of {choices[sent.index(body)]!r}"
            )


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _allowed(mode: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [_named("add"), _named("find")]}}


@CHECKS.one
async def a_choice_that_means_nothing_is_refused(subject: Subject) -> None:
    for choice in ("perhaps", {"type": "function"}, {"type": "function", "function": {"name": "nobody"}}, 7):
        async with staged(subject, lambda _: say("Fine.")) as (provider, upstream), patience():
            await _is_refused(provider, upstream, request_of(subject, tools=TOOLS, tool_choice=choice))


async def _is_refused(provider: Provider, upstream: ScriptedUpstream, request: ModelRequest) -> None:
    try:
        await provider.complete(request)
    except RequestError as error:
        same("requests that were sent", len(upstream.requests), 0)
        if "tool_choice" not in f"{error} {error.param}":
            broken("an error that names tool_choice", str(error))
    except ProviderRejectedError:
        return  # the server said so itself
    else:
        broken(f"a refusal of tool_choice {request.tool_choice!r}", "an answer")


@CHECKS.one
async def only_the_allowed_tools_can_be_called(subject: Subject) -> None:
    async with staged(subject, lambda _: say("Fine.")) as (provider, upstream):
        await ask(provider, request_of(subject, tools=TOOLS), stream=False)
        await ask(provider, request_of(subject, tools=TOOLS, allowed=("add", "find")), stream=False)
        nothing_refused(upstream)
        if upstream.requests[0].raw == upstream.requests[1].raw:
            broken("a request that says which tools are allowed", "the same as without")


@CHECKS.one
async def definitions_that_are_encoded_already_are_sent_too(subject: Subject) -> None:
    encoded: Sequence[Any] = [msgspec.Raw(msgspec.json.encode(definition(name))) for name in TOOLS]
    async with staged(subject, [call("note", MEANT), call("note", MEANT)]) as (provider, upstream):
        plain = request_of(subject, tools=TOOLS)
        await ask(provider, plain, stream=False)
        reply = await ask(provider, replace(plain, tools=encoded), stream=False)
        nothing_refused(upstream)
        same("the request", upstream.bodies[1], upstream.bodies[0])
    same("the calls", made(reply), [("note", MEANT)])


@CHECKS.one
async def an_image_is_sent_or_refused_by_name(subject: Subject) -> None:
    parts = (
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}"}},
    )
    await _sent_or_named(subject, Message(role="user", content=parts), _PIXEL, "image_url")


@CHECKS.one
async def a_part_of_a_kind_that_is_not_known_is_not_dropped(subject: Subject) -> None:
    parts = ({"type": "text", "text": "What is this?"}, {"type": "smell", "smell": {"of": "gas-of-the-marshes"}})
    await _sent_or_named(subject, Message(role="user", content=parts), "gas-of-the-marshes", "smell")


async def _sent_or_named(subject: Subject, message: Message, payload: str, kind: str) -> None:
    async with staged(subject, [say("A dot.")]) as (provider, upstream):
        try:
            await ask(provider, request_of(subject, message), stream=False)
        except RequestError as error:
            if kind not in str(error):
                broken(f"an error that names the part {kind!r}", str(error))
            return
        except ProviderRejectedError:
            pass  # the server's own refusal will do
        in_order_and_once(upstream.requests[0], [payload])
