"""What a contract is checked on, what a check is, and the few words in which all checks are written."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from toolcaddie.core.errors import ProviderError
from toolcaddie.core.message import CallDelta, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import ToolCall
from toolcaddie.ports import Provider
from toolcaddie.testing.faults import altered
from toolcaddie.testing.script import Reply
from toolcaddie.testing.upstream import RecordedRequest, ScriptedUpstream
from toolcaddie.testing.wire import Wire
from toolcaddie.util.replacing import replace

KEY = "sk-contract-0123456789"
"""What the server wants, and no error may show."""
PATIENCE = 20.0
"""Seconds after which one request counts as hanging. A check that waits on purpose waits far shorter."""
_LINE = 240
"""Characters of what was found that the list of all broken promises shows of each."""


class ContractError(AssertionError):
    """The provider does not keep the contract; the message says what was expected and what was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A provider and the kind of server that it is checked against."""

    name: str
    provider: Callable[[str, str], Provider]
    """Makes the provider for a server: `(base_url, key)`. One is made, and closed, for each check."""
    wire: Callable[[], Wire]
    """The API of that server; a new one for each server, because a wire may remember what it signed."""
    model: str = "gpt-test"
    params: Mapping[str, Any] = field(default_factory=dict)
    """Go with every request, where the server answers nothing without them."""
    error_event: Callable[[int, str], bytes] | None = None
    """`(status, words)` to the data of an event that breaks off a stream; None: the body of an error, as an event."""

    def __str__(self) -> str:
        return self.name


class BrokenPromises(ContractError):
    """Several checks failed. The message has a line for each: the promise, and what was found instead."""

    def __init__(self, subject: Subject, failed: Mapping[str, Exception], *, tried: int, of: int) -> None:
        lines = "".join(f"\n- {name}: {_found(error)}" for name, error in failed.items())
        rest = f"; the other {of - tried} were not tried" if tried < of else ""
        super().__init__(f"{subject} breaks {len(failed)} of {of} promises{rest}:{lines}")
        self.failed = failed
        """By the name of its check, each with its own traceback."""


def _found(error: Exception) -> str:
    """An error in one short line; where it is none of the contract's, also what it is and which line raised it."""
    said = " ".join(str(error).split())
    if not isinstance(error, ContractError):
        frames = traceback.extract_tb(error.__traceback__)
        said = f"{type(error).__name__}: {said} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
    return said if len(said) <= _LINE else f"{said[:_LINE]}..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One promise of a provider. Call it with a subject; it raises `ContractError` where the promise is broken."""

    name: str
    run: Callable[[Subject], Awaitable[None]]

    def __str__(self) -> str:
        return self.name

    async def __call__(self, subject: Subject) -> None:
        await self.run(subject)


CheckOfBoth = Callable[[Subject, bool], Awaitable[None]]


class Checks:
    """Checks in the order they were written. `one` takes a function of a subject; `both` one of a subject and whether the
    answer is streamed, which makes two checks of it. The function's name is the promise."""

    def __init__(self) -> None:
        self.found: list[Check] = []

    def one(self, run: Callable[[Subject], Awaitable[None]]) -> Callable[[Subject], Awaitable[None]]:
        self.found.append(Check(name=_sentence(run), run=run))
        return run

    def both(self, run: CheckOfBoth) -> CheckOfBoth:
        for stream, how in ((False, "plain"), (True, "streamed")):
            self.found.append(Check(name=f"{_sentence(run)}, {how}", run=_bound(run, stream)))
        return run


def _sentence(run: Any) -> str:
    return str(run.__name__).strip("_").replace("_", " ")


def _bound(run: CheckOfBoth, stream: bool) -> Callable[[Subject], Awaitable[None]]:
    async def bound(subject: Subject) -> None:
        await run(subject, stream)

    return bound


# ---------------------------------------------------------------- the stage


@asynccontextmanager
async def staged(
    subject: Subject, script: Sequence[Any] | Callable[[Any], Any], *, models: Sequence[str] = ("gpt-test",)
) -> AsyncIterator[tuple[Provider, ScriptedUpstream]]:
    """The provider before a server that answers from this script."""
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
    """A request with these messages (none: a greeting) and tools of these names."""
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
    """The reply, and of a stream the certainty that its deltas said the same."""
    async with patience():
        if not stream:
            return well_formed(await provider.complete(request))
        items = [item async for item in provider.stream(request)]
    if not items or not isinstance(items[-1], ModelReply):
        broken("the last item of a stream is the whole reply", items[-1:] or "nothing")
    deltas = [item for item in items if isinstance(item, ModelDelta)]
    same("items of a stream that are no deltas, the reply apart", len(items) - 1 - len(deltas), 0)
    reply = well_formed(items[-1])
    same("the text of the deltas, joined", "".join(delta.text for delta in deltas), reply.message.text)
    same("the calls of the deltas, joined", joined(deltas), [shown(call) for call in reply.message.tool_calls])
    return reply


async def refused(provider: Provider, request: ModelRequest, stream: bool) -> ProviderError:
    """The error this request ends with. Whatever else it does breaks the contract."""
    try:
        found = await ask(provider, request, stream)
    except ProviderError as error:
        if KEY in f"{error!s} {error!r} {error.body!r}":
            broken("no error shows the key", str(error).replace(KEY, "(the key)"))
        return error
    except ContractError:
        raise
    except Exception as error:
        raise ContractError(f"a failing provider raises ProviderError, not {type(error).__name__}: {error}") from error
    raise ContractError(f"expected a ProviderError; found {found!r}")


@asynccontextmanager
async def patience(seconds: float = PATIENCE) -> AsyncIterator[None]:
    """Nothing a check does takes longer; what does is a hang."""
    try:
        async with asyncio.timeout(seconds) as clock:
            yield
    except TimeoutError as error:
        if not clock.expired():
            raise
        raise ContractError(f"nothing came for {seconds:g} seconds: the provider hangs") from error


async def left(recorded: RecordedRequest) -> None:
    """Wait until the server has seen the client go."""
    async with patience():
        await recorded.over.wait()
    same("how the request ended for the server", recorded.outcome, "client left")


async def events_of(subject: Subject, reply: Reply, *, tools: Sequence[str] = ()) -> list[bytes]:
    """The data of the events in which the server streams this reply."""
    found: list[bytes] = []

    def keep(events: list[bytes]) -> list[bytes]:
        found.extend(events)
        return events

    async with staged(subject, [altered(reply, keep)]) as (provider, _):
        await ask(provider, request_of(subject, tools=tools), stream=True)
    return found


# ---------------------------------------------------------------- judging


def same(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        broken(f"{what}: {wanted!r}", found)


def of_kind(error: ProviderError, kind: type[ProviderError], where: str = "") -> None:
    if not isinstance(error, kind):
        broken(f"{kind.__name__}{where}", error)


def broken(wanted: str, found: Any) -> NoReturn:
    raise ContractError(f"expected {wanted}; found {found!r}")


def nothing_refused(upstream: ScriptedUpstream) -> None:
    """The server found no fault with any request."""
    if upstream.refusals:
        broken("requests as the API wants them", upstream.refusals[0])


def well_formed(reply: ModelReply) -> ModelReply:
    """The reply, whose fields are what their types say, wherever the provider got them from."""
    message, usage = reply.message, reply.usage
    fine = (
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
    if not fine:
        broken("a reply whose fields are of their types", reply)
    return reply


def _is_count(value: Any) -> bool:
    """A number that a database can keep too."""
    return type(value) is int and 0 <= value < 2**63


def joined(deltas: Sequence[ModelDelta]) -> list[tuple[str, str, Any]]:
    """The calls that deltas come to, in the order of their index: id, name, arguments."""
    calls: dict[int, ToolCall] = {}
    for piece in (piece for delta in deltas for piece in delta.calls):
        calls[piece.index] = _grown(calls.get(piece.index), piece)
    same("the indices of streamed calls", sorted(calls), list(range(len(calls))))
    return [shown(calls[index]) for index in sorted(calls)]


def _grown(call: ToolCall | None, piece: CallDelta) -> ToolCall:
    if call is not None:
        return replace(call, arguments=call.arguments + piece.arguments)
    if not piece.id or not piece.name:
        broken("id and name with the first piece of a call", piece)
    return ToolCall(id=piece.id, name=piece.name, arguments=piece.arguments)


def shown(call: ToolCall) -> tuple[str, str, Any]:
    """A call, comparable however its JSON is spaced; none at all means no arguments."""
    return call.id, call.name, value_of(call.arguments)


def value_of(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments


def made(reply: ModelReply) -> list[tuple[str, Any]]:
    """Names and arguments of a reply's calls."""
    return [(call.name, value_of(call.arguments)) for call in reply.message.tool_calls]


def in_order_and_once(recorded: RecordedRequest, words: Sequence[str]) -> None:
    """Each of these words stands in the request exactly once, one behind the other: nothing was lost, doubled or swapped."""
    sent = recorded.raw.decode()
    for word in words:
        same(f"how often {word!r} stands in the request", sent.count(word), 1)
    places = [sent.index(word) for word in words]
    same("the order of what was said", [words[place] for place in _ranks(places)], list(words))


def _ranks(places: Sequence[int]) -> list[int]:
    return sorted(range(len(places)), key=places.__getitem__)
