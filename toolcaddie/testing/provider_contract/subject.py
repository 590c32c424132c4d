"""The elements of the contract suite of providers: its subject, its checks, and the helpers that the checks share.

A subject is a value that makes the provider under test and names the API of its server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgspec

from toolcaddie.core.errors import ProviderError
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import ToolCall
from toolcaddie.ports import Provider
from toolcaddie.testing import contract
from toolcaddie.testing.contract import ContractError, promise_of
from toolcaddie.testing.faults import altered
from toolcaddie.testing.script import Reply
from toolcaddie.testing.upstream import RecordedRequest, ScriptedUpstream
from toolcaddie.testing.wire import Wire
from toolcaddie.util.replacing import replace

KEY = "sk-contract-0123456789"
"""The API key that the server requires. No error may show it."""
PATIENCE = 20.0
"""Seconds after which a check regards a request as hanging. Requests that are meant to wait wait far less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A provider and the kind of server that it is checked against."""

    name: str
    provider: Callable[[str, str], Provider]
    """Makes the provider from the server's `(base_url, key)`. Each check makes at least one, and closes it."""
    wire: Callable[[], Wire]
    """Makes the API format (wire) that a test server speaks. It is called for each server, because a wire may remember what it
    signed."""
    model: str = "gpt-test"
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of every request, for servers that refuse requests without them."""
    error_event: Callable[[int, str], bytes] | None = None
    """Makes the data of the event that ends a stream with an error, from `(status, message)`. None: the event has the same data
    as the body of an error."""

    def __str__(self) -> str:
        return self.name


Check = contract.Check[Subject]

StreamCheck = Callable[[Subject, bool], Awaitable[None]]


class Checks(contract.Checks[Subject]):
    """The checks of one module of the suite, in the order in which they were written."""

    def both(self, run: StreamCheck) -> StreamCheck:
        """Decorates a function with the parameters `subject` and `stream`, and makes two checks of it: plain and streamed."""
        for stream, suffix in ((False, "plain"), (True, "streamed")):
            self.append(f"{promise_of(run)}, {suffix}", _bound(run, stream))
        return run


def _bound(run: StreamCheck, stream: bool) -> Callable[[Subject], Awaitable[None]]:
    async def bound(subject: Subject) -> None:
        await run(subject, stream)

    return bound


# ---------------------------------------------------------------- a provider with its server


@asynccontextmanager
async def stage(
    subject: Subject, script: Sequence[Any] | Callable[[Any], Any], *, models: Sequence[str] = ("gpt-test",)
) -> AsyncIterator[tuple[Provider, ScriptedUpstream]]:
    """Yields a provider and the server that it asks. The server answers from this script (see `ScriptedUpstream`)."""
    async with ScriptedUpstream(script, api_key=KEY, models=models, wire=subject.wire()) as upstream:
        provider = subject.provider(upstream.base_url, KEY)
        try:
            yield provider, upstream
        finally:
            await provider.close()


def request_of(
    subject: Subject,
    *messages: Message,
    tools: Sequence[str] = (),
    params: Mapping[str, Any] | None = None,
    **more: Any,
) -> ModelRequest:
    """Returns a request with these messages and with tools of these names. Without messages, it has a greeting."""
    return ModelRequest(
        model=subject.model,
        messages=messages or (user("hello"),),
        tools=tuple(map(definition, tools)),
        params={**subject.params, **(params or {})},
        **more,
    )


def definition(name: str) -> dict[str, Any]:
    properties = {"note": {"type": "string", "description": "What is to be noted."}}
    schema = {"type": "object", "properties": properties, "additionalProperties": True}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": schema}}


def user(text: str) -> Message:
    return Message(role="user", content=text)


def result_of(call: ToolCall, text: str, *, is_error: bool = False) -> Message:
    return Message(role="tool", tool_call_id=call.id, content=text, is_error=is_error)


# ---------------------------------------------------------------- asking


async def ask(provider: Provider, request: ModelRequest, stream: bool) -> ModelReply:
    """Returns the reply to the request. If it is streamed, this also checks that the deltas add up to the reply."""
    async with patience():
        if not stream:
            return well_formed(await provider.complete(request))
        items = [item async for item in provider.stream(request)]
    if not items or not isinstance(items[-1], ModelReply):
        broken("the last item of a stream is the whole reply", items[-1:] or "nothing")
    deltas = [item for item in items if isinstance(item, ModelDelta)]
    same("the number of items before the reply that are not deltas", len(items) - 1 - len(deltas), 0)
    reply = well_formed(items[-1])
    same("the text of the deltas, joined", "".join(delta.text for delta in deltas), reply.message.text)
    same(
        "the calls of the deltas, joined", joined_calls(deltas), [comparable(call) for call in reply.message.tool_calls]
    )
    return reply


async def error_of(provider: Provider, request: ModelRequest, stream: bool) -> ProviderError:
    """Returns the error that this request ends with. Any other outcome breaks the contract."""
    try:
        reply = await ask(provider, request, stream)
    except ProviderError as error:
        if KEY in f"{error!s} {error!r} {error.body!r}":
            broken("no error shows the key", str(error).replace(KEY, "(the key)"))
        return error
    except ContractError:
        raise
    except Exception as error:
        raise ContractError(f"a failing provider raises ProviderError, not {type(error).__name__}: {error}") from error
    raise ContractError(f"expected a ProviderError; found {reply!r}")


@asynccontextmanager
async def patience(seconds: float = PATIENCE) -> AsyncIterator[None]:
    """Raises `ContractError` if the body of the `async with` takes longer than this."""
    try:
        async with asyncio.timeout(seconds) as clock:
            yield
    except TimeoutError as error:
        if not clock.expired():
            raise
        raise ContractError(f"the provider hangs: it did not finish within {seconds:g} seconds") from error


async def wait_until_client_left(recorded: RecordedRequest) -> None:
    """Waits until the server has seen the client disconnect."""
    async with patience():
        await recorded.over.wait()
    same("how the request ended for the server", recorded.outcome, "client left")


async def events_of(subject: Subject, reply: Reply, *, tools: Sequence[str] = ()) -> list[bytes]:
    """Returns the data of the events in which the server streams this reply."""
    data: list[bytes] = []

    def record(events: list[bytes]) -> list[bytes]:
        data.extend(events)
        return events

    async with stage(subject, [altered(reply, record)]) as (provider, _):
        await ask(provider, request_of(subject, tools=tools), stream=True)
    return data


# ---------------------------------------------------------------- judging


def same(what: str, actual: Any, expected: Any) -> None:
    """Raises `ContractError` with both values unless they are equal."""
    if actual != expected:
        broken(f"{what}: {expected!r}", actual)


def of_kind(error: ProviderError, kind: type[ProviderError], where: str = "") -> None:
    if not isinstance(error, kind):
        broken(f"{kind.__name__}{where}", error)


def broken(expected: str, actual: Any) -> NoReturn:
    raise ContractError(f"expected {expected}; found {actual!r}")


def nothing_refused(upstream: ScriptedUpstream) -> None:
    """Raises `ContractError` if the server refused a request."""
    if upstream.refusals:
        broken("requests that the server accepts", upstream.refusals[0])


def well_formed(reply: ModelReply) -> ModelReply:
    """Returns the reply. Raises `ContractError` if a field has not the declared type."""
    message, usage = reply.message, reply.usage
    has_right_types = (
        message.role == "assistant"
        and isinstance(message.content, str | tuple | None)
        and all(isinstance(word, str) for call in message.tool_calls for word in (call.id, call.name, call.arguments))
        and all(call.id and call.name for call in message.tool_calls)
        and all(_is_count(getattr(usage, name)) for name in usage.__dataclass_fields__)
        and isinstance(reply.finish_reason, str)
        and isinstance(reply.model, str)
        and isinstance(message.author, str)
        and isinstance(message.native, tuple)
    )
    if not has_right_types:
        broken("a reply whose fields have the declared types", reply)
    return reply


def _is_count(value: Any) -> bool:
    """Returns True for a whole number from 0 that fits a 64-bit column of a database."""
    return type(value) is int and 0 <= value < 2**63


def joined_calls(deltas: Sequence[ModelDelta]) -> list[tuple[str, str, Any]]:
    """Returns id, name and arguments of each call that the deltas add up to, in the order of the calls' indices."""
    calls: dict[int, ToolCall] = {}
    for piece in (piece for delta in deltas for piece in delta.calls):
        calls[piece.index] = _grown(calls.get(piece.index), piece)
    same("the indices of streamed calls", sorted(calls), list(range(len(calls))))
    return [comparable(calls[index]) for index in sorted(calls)]


def _grown(call: ToolCall | None, piece: CallDelta) -> ToolCall:
    if call is not None:
        return replace(call, arguments=call.arguments + piece.arguments)
    if not piece.id or not piece.name:
        broken("id and name with the first piece of a call", piece)
    return ToolCall(id=piece.id, name=piece.name, arguments=piece.arguments)


def comparable(call: ToolCall) -> tuple[str, str, Any]:
    """Returns id, name and decoded arguments of a call, so that spaces in its JSON do not matter. Empty arguments count as
    `{}`."""
    return call.id, call.name, value_of(call.arguments)


def value_of(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments


def calls_of(reply: ModelReply) -> list[tuple[str, Any]]:
    """Returns name and decoded arguments of each call of a reply."""
    return [(call.name, value_of(call.arguments)) for call in reply.message.tool_calls]


def in_order_and_once(recorded: RecordedRequest, words: Sequence[str]) -> None:
    """Raises `ContractError` unless each of these words is in the request exactly once, in this order."""
    text = recorded.raw.decode()
    for word in words:
        same(f"the number of times that {word!r} is in the request", text.count(word), 1)
    same("the order of the words in the request", sorted(words, key=text.index), list(words))
