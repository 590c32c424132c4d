"""Checks with servers that fail: the provider must raise the right error soon, and never return half an answer as a whole one.

Part of the contract suite of providers (`provider_contract`); the name of each function is printed as the promise it checks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from email.utils import formatdate
from typing import Any, cast

import msgspec

from toolcaddie.core.errors import (
    ProviderAuthError,
    ProviderError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
)
from toolcaddie.core.message import ModelReply, ModelRequest
from toolcaddie.ports import Provider
from toolcaddie.testing.faults import altered, flood, hang_up
from toolcaddie.testing.provider_contract.answers import TOOLS
from toolcaddie.testing.provider_contract.subject import (
    KEY,
    Checks,
    Subject,
    ask,
    broken,
    calls_of,
    error_of,
    events_of,
    of_kind,
    patience,
    request_of,
    same,
    stage,
    wait_until_client_left,
)
from toolcaddie.testing.script import calls, say
from toolcaddie.testing.upstream import cut, empty_choices, endless, garbage, paced, refuse
from toolcaddie.testing.wire import Wire
from toolcaddie.util.replacing import replace

CHECKS = Checks()

STATUSES: Mapping[int, type[ProviderError]] = {
    400: ProviderRejectedError,
    401: ProviderAuthError,
    403: ProviderAuthError,
    404: ProviderRejectedError,
    408: ProviderUnavailableError,
    409: ProviderUnavailableError,
    413: ProviderRejectedError,
    422: ProviderRejectedError,
    429: ProviderRateLimitError,
    500: ProviderUnavailableError,
    503: ProviderUnavailableError,
    529: ProviderUnavailableError,
}
"""The error that each status of an answer must become."""
RICH = replace(
    calls(
        ("add", {"note": "first"}),
        ("find", {"note": "second"}),
        ("send", None),
        ids=("call_1", "call_2", "call_3"),
        text="Let me see.",
    ),
    reasoning="Which of them?",
)
"""An answer that has every kind of event when it is streamed."""
_SOON = 0.05
"""Timeout in seconds of a request that is meant to time out."""


# ---------------------------------------------------------------- refusals


@CHECKS.both
async def each_status_is_an_error_of_its_kind(subject: Subject, stream: bool) -> None:
    script = [refuse(status, f"because of {status}") for status in STATUSES]
    async with stage(subject, script) as (provider, _):
        for status, kind in STATUSES.items():
            error = await error_of(provider, request_of(subject), stream)
            of_kind(error, kind)
            same("the status of the error", error.status, status)
            if f"because of {status}" not in str(error):
                broken(f"the server's words ('because of {status}') in the error", str(error))
            if f"because of {status}".encode() not in error.body:
                broken("the server's body with the error", error.body)


@CHECKS.both
async def the_wait_that_a_server_asks_for_is_known(subject: Subject, stream: bool) -> None:
    soon = formatdate(time.time() + 60, usegmt=True)
    script = [refuse(status, headers={"retry-after": value}) for status in (429, 503) for value in ("7", soon)]
    async with stage(subject, [*script, refuse(429), refuse(429, headers={"retry-after": "later"})]) as (provider, _):
        for _status in (429, 503):
            same("seconds to wait", (await error_of(provider, request_of(subject), stream)).retry_after, 7.0)
            wait = (await error_of(provider, request_of(subject), stream)).retry_after
            if wait is None or not 30 <= wait <= 61:
                broken("seconds until the date that the server named, 60", wait)
        for _unsaid in range(2):
            same("seconds to wait", (await error_of(provider, request_of(subject), stream)).retry_after, None)


@CHECKS.both
async def no_error_shows_the_key(subject: Subject, stream: bool) -> None:
    script = [
        refuse(401, f"Incorrect API key provided: {KEY}"),
        garbage(f"you sent {KEY}".encode(), content_type="text/plain"),
        garbage(KEY.encode(), content_type=_kind(stream)),
    ]
    async with stage(subject, script) as (provider, _):
        for _step in script:
            await error_of(provider, request_of(subject), stream)
        if KEY in repr(provider):
            broken("a repr without the key", repr(provider).replace(KEY, "(the key)"))


def _kind(stream: bool) -> str:
    return "text/event-stream" if stream else "application/json"


# ---------------------------------------------------------------- no answer


@CHECKS.both
async def a_server_that_hangs_up_without_a_word_is_unavailable(subject: Subject, stream: bool) -> None:
    async with stage(subject, [hang_up()]) as (provider, _):
        error = await error_of(provider, request_of(subject), stream)
    of_kind(error, ProviderUnavailableError)


@CHECKS.both
async def a_server_that_is_not_there_is_unavailable(subject: Subject, stream: bool) -> None:
    async with stage(subject, []) as (_, upstream):
        gone = upstream.base_url
    provider = subject.provider(gone, KEY)
    error = await error_of(provider, request_of(subject), stream)
    await provider.close()
    of_kind(error, ProviderUnavailableError)


@CHECKS.both
async def a_request_whose_time_is_over_ends_and_lets_the_server_go(subject: Subject, stream: bool) -> None:
    begun = asyncio.Semaphore(1 if stream else 0)
    async with stage(subject, [paced(say("late"), begun)]) as (provider, upstream):
        error = await error_of(provider, replace(request_of(subject), timeout=_SOON), stream)
        for recorded in upstream.requests:  # there are none if the time was over before the request arrived
            await wait_until_client_left(recorded)
    of_kind(error, ProviderUnavailableError)


# ---------------------------------------------------------------- half an answer


@CHECKS.both
async def an_answer_that_is_cut_is_an_error_or_whole(subject: Subject, stream: bool) -> None:
    """The server cuts a stream after each of its events, once by closing the connection and once by ending the body. The provider
    must raise an error, except where the whole reply had been sent before the cut: then it may return the whole reply."""
    events = await events_of(subject, RICH, tools=TOOLS) if stream else [b""]
    places = range(len(events)) if stream else range(1)
    script = [RICH, *(cut(RICH, after=place, clean=clean) for place in places for clean in (False, True))]
    async with stage(subject, script) as (provider, _):
        request = request_of(subject, tools=TOOLS)
        whole = await ask(provider, request, stream)
        for place in places:
            for _clean in (False, True):
                early = place <= len(events) // 2
                await _error_or_whole(provider, request, stream, None if early else whole)


async def _error_or_whole(provider: Provider, request: ModelRequest, stream: bool, whole: ModelReply | None) -> None:
    try:
        reply = await ask(provider, request, stream)
    except ProviderError as error:
        if not error.retryable:
            broken("an error that is retryable", error)
        return
    if whole is None:
        broken("an error, because the answer was cut early", reply)
    same("an answer that counts as whole", _essence(reply), _essence(whole))


def _essence(reply: ModelReply) -> tuple[Any, ...]:
    return reply.message.text, calls_of(reply), reply.finish_reason


@CHECKS.both
async def an_answer_without_an_answer_is_an_error(subject: Subject, stream: bool) -> None:
    async with stage(subject, [empty_choices()]) as (provider, _):
        of_kind(await error_of(provider, request_of(subject), stream), ProviderProtocolError)


@CHECKS.add()
async def a_stream_without_events_is_an_error(subject: Subject) -> None:
    script = [altered(RICH, lambda _: []), garbage(b"", content_type="text/event-stream")]
    script += [
        garbage(b": nothing\n\n", content_type="text/event-stream"),
        garbage(b"data: [DONE]\n\n", content_type="text/event-stream"),
    ]
    async with stage(subject, script) as (provider, _):
        for _step in script:
            of_kind(await error_of(provider, request_of(subject), True), ProviderProtocolError)


@CHECKS.add()
async def an_error_in_the_middle_of_a_stream_ends_it(subject: Subject) -> None:
    wire, events = subject.wire(), await events_of(subject, RICH, tools=TOOLS)
    breaks = [(status, place) for status in (429, 500, 529) for place in (0, 1, len(events) // 2)]
    script = [altered(RICH, _breaking_off(_error_event(subject, wire, status), place)) for status, place in breaks]
    async with stage(subject, script) as (provider, _):
        for status, place in breaks:
            error = await error_of(provider, request_of(subject, tools=TOOLS), True)
            if not error.retryable:
                broken(f"an error after {place} events that is retryable", error)
            if f"broke off with {status}" not in str(error):
                broken(f"the server's words ('broke off with {status}') in the error", str(error))


def _error_event(subject: Subject, wire: Wire, status: int) -> bytes:
    words = f"broke off with {status}"
    if subject.error_event is not None:
        return subject.error_event(status, words)
    return msgspec.json.encode(wire.error(status, words))


def _breaking_off(error: bytes, place: int) -> Any:
    return lambda events: [*events[:place], error]


# ---------------------------------------------------------------- no answer of this wire

_HTML = b"<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>"
_BINARY = bytes(range(256)) * 4
_INVALID = (
    b"[]",
    b"null",
    b"7",
    b'"hello"',
    b"{}",
    b'{"a":',
    b"\xff\xfe",
    b"",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"a":"\xff\xfe"}',
)


@CHECKS.both
async def garbage_is_an_error_and_nothing_else(subject: Subject, stream: bool) -> None:
    framed = [b"data: " + each + b"\n\n" for each in (_HTML, _BINARY, *_INVALID) if each]
    bodies = framed if stream else [_HTML, _BINARY, *_INVALID]
    script = [garbage(body, content_type=_kind(stream)) for body in bodies]
    async with stage(subject, script) as (provider, _):
        for body in bodies:
            error = await error_of(provider, request_of(subject), stream)
            of_kind(error, ProviderProtocolError, f" for {body[:40]!r}")


@CHECKS.both
async def an_answer_of_another_content_type_is_an_error(subject: Subject, stream: bool) -> None:
    kinds = ("text/html", "application/octet-stream", _kind(not stream))
    async with stage(subject, [garbage(_HTML, content_type=kind) for kind in kinds]) as (provider, _):
        for _each in kinds:
            error = await error_of(provider, request_of(subject), stream)
            of_kind(error, ProviderProtocolError)


@CHECKS.both
async def a_proxys_error_page_is_unavailable(subject: Subject, stream: bool) -> None:
    async with stage(subject, [garbage(_HTML, content_type="text/html", status=502)]) as (provider, _):
        error = await error_of(provider, request_of(subject), stream)
    of_kind(error, ProviderUnavailableError)


@CHECKS.both
async def an_answer_that_never_ends_is_left(subject: Subject, stream: bool) -> None:
    async with stage(subject, [flood()]) as (provider, upstream):
        error = await error_of(provider, request_of(subject), stream)
        of_kind(error, ProviderProtocolError)
        await wait_until_client_left(upstream.requests[0])


# ---------------------------------------------------------------- the caller leaves


@CHECKS.add()
async def cancelling_a_request_closes_its_connection(subject: Subject) -> None:
    arrived = asyncio.Event()

    async def never(_: Any) -> Any:
        arrived.set()
        await asyncio.Event().wait()

    async with stage(subject, [never]) as (provider, upstream), patience():
        task = asyncio.ensure_future(provider.complete(request_of(subject)))
        await _under_way(task, arrived)
        await _cancelled(task)
        await wait_until_client_left(upstream.requests[0])


@CHECKS.add()
async def cancelling_a_stream_closes_its_connection(subject: Subject) -> None:
    started = asyncio.Event()
    async with stage(subject, [endless("zest ")]) as (provider, upstream), patience():

        async def read() -> None:
            async for _ in provider.stream(request_of(subject)):
                started.set()

        task = asyncio.ensure_future(read())
        await _under_way(task, started)
        await _cancelled(task)
        await wait_until_client_left(upstream.requests[0])


async def _under_way(task: asyncio.Future[Any], begun: asyncio.Event) -> None:
    """Waits until the request has begun. Raises `ContractError` if the request ended without being cancelled."""
    waiting = asyncio.ensure_future(begun.wait())
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            broken("a request that runs until it is cancelled", task.exception() or "a request that ended")
    finally:
        waiting.cancel()


async def _cancelled(task: asyncio.Future[Any]) -> None:
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    broken("a request that ends when it is cancelled", task)


@CHECKS.add()
async def closing_a_stream_closes_its_connection(subject: Subject) -> None:
    async with stage(subject, [endless("zest "), say("Still here.")]) as (provider, upstream), patience():
        stream = cast(
            "Any", provider.stream(request_of(subject))
        )  # `ports.Provider` promises only an iterator; this check also needs `aclose`
        async with aclosing(stream):
            await anext(stream)
        await wait_until_client_left(upstream.requests[0])
        same("the words after it", (await ask(provider, request_of(subject), True)).message.text, "Still here.")


@CHECKS.both
async def a_failure_leaves_the_provider_as_it_was(subject: Subject, stream: bool) -> None:
    script = [cut(RICH, after=3), refuse(500), garbage(_HTML), hang_up(), say("Still here.")]
    async with stage(subject, script) as (provider, upstream):
        for _fault in script[:-1]:
            await error_of(provider, request_of(subject), stream)
        same("the words", (await ask(provider, request_of(subject), stream)).message.text, "Still here.")
        same("the number of requests, because a provider repeats none by itself", len(upstream.requests), len(script))
