"""Checks of requests: everything in a conversation reaches the server once and in order, in a form that the server accepts.

Part of the contract suite of providers (`provider_contract`); the name of each function is printed as the promise it checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from toolcaddie.core.content import Image, Other, Text
from toolcaddie.core.errors import ProviderError, ProviderRejectedError, RequestError
from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.tool import ToolCall
from toolcaddie.ports import Provider
from toolcaddie.testing.contract import ContractError
from toolcaddie.testing.provider_contract.answers import CORE_VALUE, TOOLS
from toolcaddie.testing.provider_contract.subject import (
    Checks,
    Subject,
    ask,
    broken,
    calls_of,
    definition,
    in_order_and_once,
    nothing_refused,
    patience,
    request_of,
    result_of,
    same,
    stage,
    user,
)
from toolcaddie.testing.script import Reply, call, calls, say
from toolcaddie.testing.upstream import ScriptedUpstream
from toolcaddie.util.replacing import replace

CHECKS = Checks()

THINKING = {"reasoning_effort": "low"}
"""Parameters of a request whose answer may contain reasoning."""

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def thought(reply: Reply, reasoning: str) -> Reply:
    """Returns the reply with reasoning before it."""
    return replace(reply, reasoning=reasoning)


@CHECKS.both
async def thinking_and_tools_over_three_rounds_come_back_as_they_were(subject: Subject, stream: bool) -> None:
    """The model makes one call, then four at once, then answers in text; then the user writes again. The server signs the
    reasoning of each answer, and refuses a request in which signed reasoning was changed."""
    script = [
        thought(call("find", {"note": "argument-1"}, text="Let me look."), "First I look."),
        thought(calls(*((name, {"note": f"argument-2-{name}"}) for name in TOOLS)), "Now all at once."),
        thought(say("All is done."), "That was it."),
        say("You are welcome."),
    ]
    async with stage(subject, script) as (provider, upstream):
        messages: list[Message] = [Message(role="system", content="Be brief."), user("Do everything.")]
        for number in range(len(script)):
            reply = await ask(provider, request_of(subject, *messages, tools=TOOLS, params=THINKING), stream)
            nothing_refused(upstream)
            messages += [reply.message, *_results(reply.message, f"result-{number}")]
            if number == 2:
                same("the words", reply.message.text, "All is done.")
                messages.append(user("Thank you."))
        spoken = ["argument-1", "result-0-0", *(f"argument-2-{name}" for name in TOOLS)]
        in_order_and_once(upstream.requests[-1], [*spoken, *(f"result-1-{place}" for place in range(len(TOOLS)))])


def _results(message: Message, marker: str) -> list[Message]:
    return [result_of(each, f"{marker}-{place} is there") for place, each in enumerate(message.tool_calls)]


@CHECKS.add()
async def thinking_that_is_shown_is_no_part_of_the_answer(subject: Subject) -> None:
    async with stage(subject, [thought(say("Four."), "Two and two...")]) as (provider, _):
        reply = await ask(provider, request_of(subject, params=THINKING), stream=True)
    same("the words", reply.message.text, "Four.")


@CHECKS.both
async def an_error_of_a_tool_reaches_the_model_in_words(subject: Subject, stream: bool) -> None:
    async with stage(subject, [calls(("find", None), ("add", None)), say("Sorry.")]) as (provider, upstream):
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
    """A model may give two calls the same id. The loop then replaces the ids, in the message and in the results."""
    twice = calls(("add", {"note": "argument-one"}), ("add", {"note": "argument-two"}), ids=("call_same", "call_same"))
    async with stage(subject, [twice, say("Done.")]) as (provider, upstream):
        first = (await ask(provider, request_of(subject, tools=TOOLS), stream)).message
        own_calls = tuple(replace(each, id=f"call_fresh_{place}") for place, each in enumerate(first.tool_calls))
        first = replace(first, tool_calls=own_calls)
        request = request_of(subject, user("hello"), first, *_results(first, "result"), tools=TOOLS)
        await ask(provider, request, stream)
        nothing_refused(upstream)
        in_order_and_once(upstream.requests[-1], ["argument-one", "argument-two", "result-0", "result-1"])


@CHECKS.both
async def arguments_that_are_no_json_break_nothing(subject: Subject, stream: bool) -> None:
    """The provider returns the arguments as the model wrote them, or raises `ProviderError` if the API cannot express such
    arguments. Where it returned them, the next request, which says that they were wrong, must be accepted."""
    for text in _NO_JSON:
        async with stage(subject, [call("note", text, call_id="call_1"), say("Again.")]) as (provider, upstream):
            request = request_of(subject, user("go"), tools=TOOLS)
            try:
                first = (await ask(provider, request, stream)).message
            except ProviderError:
                continue
            results = _results(first, "not-understood")
            await ask(provider, replace(request, messages=(user("go"), first, *results, user("again"))), stream)
            nothing_refused(upstream)
            in_order_and_once(upstream.requests[-1], ["not-understood-0"] if results else [])


_NO_JSON = (
    '{"note": ',
    "[1]",
    "7",
    "null",
    "not json at all",
    '{"note":"\\ud800"}',
    '{"note":1e999}',
    '{"a":1,"a":2}',
    '{"a":' * 50_000,
)
"""Arguments: half an object, values that are not objects, no JSON, half a character, a number out of range, a repeated name, deep
nesting."""

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
    "text in parts": (Message(role="user", content=(Text(text="said-one"), Text(text="said-two"))),),
    "text and results in parts": (
        Message(role="system", content=(Text(text="said-one"),)),
        user("said-two"),
        Message(
            role="assistant",
            content=(Text(text="said-three"),),
            tool_calls=(ToolCall(id="c1", name="add"),),
        ),
        Message(role="tool", tool_call_id="c1", content=(Text(text="said-four"),)),
    ),
    "a tool that is no longer sent": (
        user("said-one"),
        Message(role="assistant", tool_calls=(ToolCall(id="c1", name="gone_tool", arguments='{"note":"said-two"}'),)),
        Message(role="tool", tool_call_id="c1", content="said-three"),
        user("said-four"),
    ),
}
"""Unusual conversations that clients and interrupted runs produce; a provider must send each word of them."""


@CHECKS.add()
async def conversations_of_every_shape_are_accepted_and_lose_no_word(subject: Subject) -> None:
    for name, history in HARD_HISTORIES.items():
        async with stage(subject, [say("Fine.")]) as (provider, upstream):
            try:
                await ask(provider, request_of(subject, *history, tools=TOOLS), stream=False)
            except ProviderRejectedError as error:
                broken(f"a request that holds {name}", str(error))
            numbers = [word for word in ("one", "two", "three", "four") if f"said-{word}" in str(history)]
            for word in sorted((f"said-{number}" for number in numbers), key=str(history).index):
                count = upstream.requests[0].raw.count(word.encode())
                same(f"the number of times that {word!r} is in a request with {name}", count, 1)


INTERRUPTED: dict[str, tuple[Message, ...]] = {
    "a call that was never answered": (
        user("go"),
        Message(role="assistant", tool_calls=(ToolCall(id="c1", name="add"), ToolCall(id="c2", name="find"))),
        Message(role="tool", tool_call_id="c2", content="found"),
        user("Are you there?"),
    ),
    "an answer to no call": (user("go"), Message(role="tool", tool_call_id="c1", content="added")),
    "two answers to one call": (
        user("go"),
        Message(role="assistant", tool_calls=(ToolCall(id="c1", name="add"),)),
        Message(role="tool", tool_call_id="c1", content="added"),
        Message(role="tool", tool_call_id="c1", content="added again"),
    ),
    "a call at the very end": (user("go"), Message(role="assistant", tool_calls=(ToolCall(id="c1", name="add"),))),
    "a result without an id": (user("go"), Message(role="tool", content="added")),
    "a result of the old kind": (user("go"), Message(role="function", content="added")),
    "no message of a user": (Message(role="system", content="Be brief."),),
    "a message without content": (user("go"), Message(role="assistant"), user("Are you there?")),
}
"""Broken conversations, which a provider may repair or refuse."""


@CHECKS.add()
async def a_broken_conversation_is_mended_or_refused_in_words(subject: Subject) -> None:
    for name, history in INTERRUPTED.items():
        async with stage(subject, [say("Fine.")]) as (provider, _):
            try:
                await ask(provider, request_of(subject, *history, tools=TOOLS), stream=False)
            except (RequestError, ProviderRejectedError):
                continue
            except Exception as error:
                raise ContractError(f"a request with {name}: {type(error).__name__}: {error}") from error


@CHECKS.add()
async def calls_of_others_are_made_fit_for_this_server(subject: Subject) -> None:
    """An earlier turn of the conversation was answered by another provider. Its ids of calls may be too long for this server or
    have characters that this server refuses, and its arguments may be invalid JSON. The provider must change them so that the
    server accepts the request; otherwise every later request of the conversation would fail."""
    theirs = Message(role="assistant", tool_calls=(_LONG_CALL, _BAD_CALL), author="other:model")
    results = (result_of(_LONG_CALL, "result-0"), result_of(_BAD_CALL, "result-1: not JSON", is_error=True))
    async with stage(subject, [say("Fine.")]) as (provider, upstream):
        try:
            await ask(provider, request_of(subject, user("go"), theirs, *results, tools=TOOLS), stream=False)
        except ProviderRejectedError as error:
            broken("a request with calls of another provider", str(error))
        in_order_and_once(upstream.requests[0], ["argument-of-long", "result-0", "result-1"])


@CHECKS.add()
async def every_choice_of_a_tool_is_accepted_and_says_something_of_its_own(subject: Subject) -> None:
    choices: list[Any] = [
        "auto",
        "none",
        "required",
        _choice_of("add"),
        _choice_of("find"),
        _allowed("auto"),
        _allowed("required"),
    ]
    async with stage(subject, lambda _: say("Fine.")) as (provider, upstream):
        await ask(provider, request_of(subject, tools=TOOLS), stream=False)
        for choice in choices:
            await ask(provider, request_of(subject, tools=TOOLS, tool_choice=choice), stream=False)
            nothing_refused(upstream)
        bodies = [request.raw for request in upstream.requests[1:]]
    for place, body in enumerate(bodies):
        if body in bodies[:place]:
            broken(
                f"a request of its own for the choice {choices[place]!r}", f"the one of {choices[bodies.index(body)]!r}"
            )


def _choice_of(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _allowed(mode: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [_choice_of("add"), _choice_of("find")]}}


@CHECKS.add()
async def a_choice_that_means_nothing_is_refused(subject: Subject) -> None:
    for choice in ("perhaps", {"type": "function"}, {"type": "function", "function": {"name": "nobody"}}, 7):
        async with stage(subject, lambda _: say("Fine.")) as (provider, upstream), patience():
            await _is_refused(provider, upstream, request_of(subject, tools=TOOLS, tool_choice=choice))


async def _is_refused(provider: Provider, upstream: ScriptedUpstream, request: ModelRequest) -> None:
    try:
        await provider.complete(request)
    except RequestError as error:
        same("requests that were sent", len(upstream.requests), 0)
        if "tool_choice" not in f"{error} {error.param}":
            broken("an error that names tool_choice", str(error))
    except ProviderRejectedError:
        return  # the server refused it, which is enough
    else:
        broken(f"a refusal of tool_choice {request.tool_choice!r}", "an answer")


@CHECKS.add()
async def only_the_allowed_tools_can_be_called(subject: Subject) -> None:
    async with stage(subject, lambda _: say("Fine.")) as (provider, upstream):
        await ask(provider, request_of(subject, tools=TOOLS), stream=False)
        await ask(provider, request_of(subject, tools=TOOLS, allowed=("add", "find")), stream=False)
        nothing_refused(upstream)
        if upstream.requests[0].raw == upstream.requests[1].raw:
            broken("a request that says which tools are allowed", "the request that is sent without `allowed`")


@CHECKS.add()
async def definitions_that_are_encoded_already_are_sent_too(subject: Subject) -> None:
    encoded: Sequence[Any] = [msgspec.Raw(msgspec.json.encode(definition(name))) for name in TOOLS]
    async with stage(subject, [call("note", CORE_VALUE), call("note", CORE_VALUE)]) as (provider, upstream):
        plain = request_of(subject, tools=TOOLS)
        await ask(provider, plain, stream=False)
        reply = await ask(provider, replace(plain, tools=encoded), stream=False)
        nothing_refused(upstream)
        same("the request", upstream.bodies[1], upstream.bodies[0])
    same("the calls", calls_of(reply), [("note", CORE_VALUE)])


@CHECKS.add()
async def tools_that_are_held_back_until_a_result_reveals_them_are_accepted_or_refused(subject: Subject) -> None:
    searched = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="find", arguments='{"note":"mail"}'),))
    result = replace(result_of(searched.tool_calls[0], "There is send."), revealed=("send",))
    async with stage(subject, [call("send", CORE_VALUE, call_id="c2"), say("Sent.")]) as (provider, upstream):
        request = request_of(subject, tools=TOOLS, deferred=frozenset({"note", "send"}))
        messages: tuple[Message, ...] = (user("go"), searched, result)
        try:
            reply = await ask(provider, replace(request, messages=messages), stream=True)
        except RequestError:
            return
        same("the calls", calls_of(reply), [("send", CORE_VALUE)])
        messages = (*messages, reply.message, *_results(reply.message, "result"))
        await ask(provider, replace(request, messages=messages), stream=False)
        nothing_refused(upstream)


@CHECKS.add()
async def a_schema_of_the_answer_is_sent_or_refused(subject: Subject) -> None:
    schema = {
        "type": "object",
        "properties": {"colour_of_the_answer": {"type": "string"}},
        "required": ["colour_of_the_answer"],
        "additionalProperties": False,
    }
    async with stage(subject, [say('{"colour_of_the_answer":"red"}')]) as (provider, upstream):
        try:
            reply = await ask(provider, request_of(subject, output_schema=schema), stream=False)
        except RequestError:
            return
        nothing_refused(upstream)
        if "colour_of_the_answer" not in upstream.requests[0].raw.decode():
            broken("a request that holds the schema", upstream.bodies[0])
    same("the words", reply.message.text, '{"colour_of_the_answer":"red"}')


@CHECKS.add()
async def what_concerns_the_cache_changes_no_answer(subject: Subject) -> None:
    async with stage(subject, [call("add", CORE_VALUE), say("Done.")]) as (provider, upstream):
        request = request_of(subject, user("go"), tools=TOOLS, cache=True, cache_key="conversation-7")
        first = (await ask(provider, request, stream=False)).message
        messages = (Message(role="system", content="Be brief."), user("go"), first, *_results(first, "result"))
        reply = await ask(provider, replace(request, messages=messages), stream=True)
        nothing_refused(upstream)
    same("the words", reply.message.text, "Done.")


_EVERYWHERE: tuple[dict[str, Any], ...] = (
    {"temperature": 0.5},
    {"top_p": 0.9},
    {"max_tokens": 77},
    {"max_completion_tokens": 77},
    {"stream_options": {"include_usage": True}},
)
"""Parameters that every provider accepts."""
_NOT_EVERYWHERE: tuple[dict[str, Any], ...] = (
    {"stop": "END"},
    {"stop": ["END", "FIN"]},
    {"parallel_tool_calls": False},
    {"reasoning_effort": "low"},
    {"user": "somebody"},
    {"seed": 7},
    {"n": 2},
    {"response_format": {"type": "json_object"}},
)
"""Parameters that a provider accepts, or refuses with an error that names them."""


@CHECKS.both
async def the_usual_parameters_are_accepted_and_others_too_or_refused_in_words(subject: Subject, stream: bool) -> None:
    async with stage(subject, lambda _: say("Fine.")) as (provider, upstream):
        for params in _EVERYWHERE:
            await ask(provider, request_of(subject, tools=TOOLS, params=params), stream)
            nothing_refused(upstream)
        for params in _NOT_EVERYWHERE:
            try:
                await ask(provider, request_of(subject, tools=TOOLS, params=params), stream)
            except (RequestError, ProviderRejectedError) as error:
                name = next(iter(params))
                if name not in f"{error} {getattr(error, 'param', '')}":
                    broken(f"an error that names {name}", str(error))


@CHECKS.add()
async def an_image_is_sent_or_refused_by_name(subject: Subject) -> None:
    parts = (
        Text(text="What is this?"),
        Image(data=_PIXEL, mime_type="image/png"),
    )
    await _sent_or_named(subject, Message(role="user", content=parts), _PIXEL, "image")


@CHECKS.add()
async def a_part_of_a_kind_that_is_not_known_is_not_dropped(subject: Subject) -> None:
    parts = (
        Text(text="What is this?"),
        Other(wire="chat", part={"type": "smell", "smell": {"of": "gas-of-the-marshes"}}),
    )
    await _sent_or_named(subject, Message(role="user", content=parts), "gas-of-the-marshes", "smell")


async def _sent_or_named(subject: Subject, message: Message, payload: str, kind: str) -> None:
    async with stage(subject, [say("A dot.")]) as (provider, upstream):
        try:
            await ask(provider, request_of(subject, message), stream=False)
        except RequestError as error:
            if kind not in str(error):
                broken(f"an error that names the part {kind!r}", str(error))
            return
        except ProviderRejectedError:
            pass  # a refusal by the server is enough
        in_order_and_once(upstream.requests[0], [payload])
