"""Checks with valid answers: the provider returns everything in them once and in order, wherever the bytes were divided.

Part of the contract suite of providers (`provider_contract`); the name of each function is printed as the promise it checks.
"""

from __future__ import annotations

import asyncio
from typing import Any

from toolcaddie.core.message import ModelDelta, ModelReply
from toolcaddie.core.usage import Usage
from toolcaddie.testing.faults import dripped, noisy
from toolcaddie.testing.provider_contract.subject import (
    Checks,
    Subject,
    ask,
    calls_of,
    comparable,
    events_of,
    nothing_refused,
    patience,
    request_of,
    same,
    stage,
    user,
)
from toolcaddie.testing.script import Reply, call, calls, say
from toolcaddie.testing.upstream import paced
from toolcaddie.util.replacing import replace

CHECKS = Checks()

TOOLS = ("add", "find", "note", "send")
WORDS = 'Grüße — \u2028 \U0001f600 "quoted" \\ data: [DONE]\n\nevent: end'
"""Text that a careless parser breaks: characters of two, three and four bytes, line separators, the end mark of a stream."""
CORE = r'{"note":"é—\u00e9\ud83d\ude00😀 \"x\" \\ \n","list":[1,{"a":null}]}'
"""Arguments that are hard to stream in pieces: characters of several bytes, escape sequences, pairs of escape sequences."""
CORE_VALUE = {"note": 'é—é😀😀 "x" \\ \n', "list": [1, {"a": None}]}


@CHECKS.both
async def text_arrives_as_it_was_said(subject: Subject, stream: bool) -> None:
    async with stage(subject, [say(WORDS)]) as (provider, upstream):
        reply = await ask(provider, request_of(subject), stream)
        nothing_refused(upstream)
    same("the words", reply.message.text, WORDS)
    same("calls", reply.message.tool_calls, ())
    same("the reason to finish", reply.finish_reason, "stop")


@CHECKS.both
async def an_answer_of_no_words_is_an_answer(subject: Subject, stream: bool) -> None:
    async with stage(subject, [say("")]) as (provider, _):
        reply = await ask(provider, request_of(subject), stream)
    same("the words", reply.message.text, "")
    same("the reason to finish", reply.finish_reason, "stop")


@CHECKS.both
async def an_answer_cut_at_its_limit_says_so(subject: Subject, stream: bool) -> None:
    async with stage(subject, [say("and then", finish_reason="length")]) as (provider, _):
        reply = await ask(provider, request_of(subject), stream)
    same("the reason to finish", reply.finish_reason, "length")
    same("the words", reply.message.text, "and then")


@CHECKS.both
async def one_call_arrives_with_words_before_it(subject: Subject, stream: bool) -> None:
    async with stage(subject, [call("note", CORE_VALUE, call_id="call_a1", text="One moment.")]) as (provider, up):
        reply = await ask(provider, request_of(subject, tools=TOOLS), stream)
        nothing_refused(up)
    same("the calls", calls_of(reply), [("note", CORE_VALUE)])
    same("the words", reply.message.text, "One moment.")
    same("the reason to finish", reply.finish_reason, "tool_calls")


@CHECKS.both
async def a_call_without_arguments_has_an_empty_object(subject: Subject, stream: bool) -> None:
    async with stage(subject, [call("note")]) as (provider, _):
        reply = await ask(provider, request_of(subject, tools=TOOLS), stream)
    same("the calls", calls_of(reply), [("note", {})])


@CHECKS.both
async def four_parallel_calls_arrive_in_order_under_ids_of_their_own(subject: Subject, stream: bool) -> None:
    async with stage(subject, [four_calls()]) as (provider, upstream):
        reply = await ask(provider, request_of(subject, tools=TOOLS), stream)
        nothing_refused(upstream)
    same("the calls", calls_of(reply), [(name, {"note": f"{name} {number}"}) for number, name in enumerate(_FOUR)])
    same("different ids", len({each.id for each in reply.message.tool_calls}), 4)
    same("the reason to finish", reply.finish_reason, "tool_calls")


_FOUR = ("send", "add", "add", "find")


def four_calls() -> Reply:
    return calls(
        *((name, {"note": f"{name} {number}"}) for number, name in enumerate(_FOUR)), ids=("c0", "c1", "c2", "c3")
    )


@CHECKS.both
async def calls_that_share_an_id_are_two_calls(subject: Subject, stream: bool) -> None:
    twice = calls(("add", {"note": "one"}), ("add", {"note": "two"}), ids=("call_same", "call_same"))
    async with stage(subject, [twice]) as (provider, _):
        reply = await ask(provider, request_of(subject, tools=TOOLS), stream)
    same("the calls", calls_of(reply), [("add", {"note": "one"}), ("add", {"note": "two"})])


@CHECKS.add()
async def arguments_may_be_cut_between_any_two_characters(subject: Subject) -> None:
    """Each scripted answer streams its arguments in three pieces of equal length. The white space after `CORE` is longer in each
    answer, so that the first boundary between two pieces falls once at every place in `CORE`."""
    size = len(CORE)
    seams = [" " * size + CORE + " " * (size + 3 * seam) for seam in range(size + 1)]
    async with stage(subject, [call("note", arguments) for arguments in seams]) as (provider, _):
        for _ in seams:
            reply = await ask(provider, request_of(subject, tools=TOOLS), stream=True)
            same("the calls", calls_of(reply), [("note", CORE_VALUE)])


@CHECKS.both
async def an_answer_may_come_byte_by_byte(subject: Subject, stream: bool) -> None:
    reply = calls(("note", CORE), ("send", {"note": "ü"}), ids=("call_1", "call_2"), text=WORDS)
    async with stage(subject, [dripped(reply)]) as (provider, _):
        answer = await ask(provider, request_of(subject, tools=TOOLS), stream)
    same("the words", answer.message.text, WORDS)
    same("the calls", calls_of(answer), [("note", CORE_VALUE), ("send", {"note": "ü"})])


@CHECKS.add()
async def comments_and_fields_that_mean_nothing_may_stand_between_events(subject: Subject) -> None:
    reply = replace(four_calls(), text=WORDS)
    async with stage(subject, [noisy(reply, _PING), reply]) as (provider, _):
        request = request_of(subject, tools=TOOLS)
        loud, quiet = await ask(provider, request, True), await ask(provider, request, True)
    same("the calls", calls_of(loud), calls_of(quiet))
    same("the words", loud.message.text, quiet.message.text)


_PING = b": ping\n\nretry: 10\nid: 7\n\n"
"""Lines of an event stream that carry no data: a comment, with which proxies keep connections open, and two other fields."""


@CHECKS.add()
async def deltas_come_before_the_answer_is_whole(subject: Subject) -> None:
    reply, gate = say("one two three"), asyncio.Semaphore(0)
    texts: list[str] = []
    events = len(await events_of(subject, reply))
    async with stage(subject, [paced(reply, gate)]) as (provider, _), patience():
        _release(gate, events // 2 + 1)
        async for item in provider.stream(request_of(subject)):
            if isinstance(item, ModelDelta) and item.text:
                _release(gate, 0 if texts else events)  # after the first text, let the server send the rest
                texts.append(item.text)
    same("the words", "".join(texts), "one two three")


def _release(gate: asyncio.Semaphore, times: int) -> None:
    for _ in range(times):
        gate.release()


@CHECKS.both
async def tokens_are_counted_with_those_of_the_cache_among_the_input(subject: Subject, stream: bool) -> None:
    spent = Usage(input_tokens=1000, output_tokens=50, cached_tokens=600)
    async with stage(subject, [replace(say("hi"), usage=spent)]) as (provider, _):
        usage = (await ask(provider, request_of(subject), stream)).usage
    same("input, output and cached tokens", _counts(usage), _counts(spent))


def _counts(usage: Usage) -> tuple[int, int, int]:
    return usage.input_tokens, usage.output_tokens, usage.cached_tokens


@CHECKS.both
async def a_reply_names_its_author(subject: Subject, stream: bool) -> None:
    async with stage(subject, [say("hi")]) as (provider, _):
        reply = await ask(provider, request_of(subject), stream)
        same("the author", reply.message.author, f"{provider.name}:{subject.model}")


@CHECKS.add()
async def answers_of_requests_at_the_same_time_are_not_mixed_up(subject: Subject) -> None:
    def echo(number: int) -> Reply:
        return calls(("add", {"note": f"first of {number}"}), ("find", {"note": f"second of {number}"}))

    def answer_to(body: Any) -> Reply:
        """Returns the answer with the number that the request names."""
        return echo(next(number for number in range(_AT_ONCE) if f"number {number}." in str(body)))

    async with stage(subject, answer_to) as (provider, _), patience():
        answers = [
            ask(provider, request_of(subject, user(f"number {number}."), tools=TOOLS), stream=number % 2 == 0)
            for number in range(_AT_ONCE)
        ]
        replies: list[ModelReply] = await asyncio.gather(*answers)
    same("the calls", [calls_of(reply) for reply in replies], [_expected(echo(number)) for number in range(_AT_ONCE)])


_AT_ONCE = 20


def _expected(reply: Reply) -> list[tuple[str, Any]]:
    return [comparable(each)[1:] for each in reply.calls]


@CHECKS.add()
async def models_are_listed_as_openai_lists_them(subject: Subject) -> None:
    async with stage(subject, [], models=("one-model", "two-model")) as (provider, _), patience():
        listed = list(await provider.models())
    same("ids of the models", [model.get("id") for model in listed], ["one-model", "two-model"])
    same("what they are", {model.get("object") for model in listed}, {"model"})


@CHECKS.add()
async def closing_twice_does_no_harm(subject: Subject) -> None:
    async with stage(subject, [say("hi")]) as (provider, _), patience():
        await ask(provider, request_of(subject), stream=False)
        await provider.close()
        await provider.close()
