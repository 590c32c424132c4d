"""One provider's attempts at one forced request: what is asked on each rung, and whether what comes back counts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.content import with_text
from toolcaddie.core.errors import ProviderError, ProviderRejectedError, RequestError
from toolcaddie.core.message import Attempt, CallDelta, Force, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.providers.constrained import call_of, offer
from toolcaddie.providers.ladder import Ladder, Rung
from toolcaddie.providers.wrapping import Entry, Outcome, closing, of_answer, of_failure, told, tool_name, with_attempts
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

NOTE = (
    "\n\nAnswer this by calling one of the tools you were given. Do not answer from general knowledge, and do not only say "
    "what you would do."
)
_NOT_TOLD = ("length", "content_filter")
"""Answers that ended so say nothing about whether a choice is honoured."""
_AT_FAULT = (400, 422)
_MOST_NAMES, _LONG_NAME = 16, 128
_HARD = ("required", "named", "schema")


@dataclass(slots=True)
class Record:
    """What came of a forced request so far, whoever was asked."""

    attempts: list[Attempt] = field(default_factory=list)
    words: ModelReply | None = None
    """The last answer that called nothing, and was not meant to be JSON where there is another."""
    held: list[ModelDelta] = field(default_factory=list)
    """What a stream would have shown of it."""
    given: bool = False
    """The answer that counts is on its way out."""


@dataclass(slots=True, kw_only=True)
class Climber:
    """`request` is as `entry` gets it; `names` are the candidates that a choice or a schema may name."""

    entry: Entry
    request: ModelRequest
    force: Force
    names: Sequence[str]
    row: Capabilities
    ladder: Ladder
    attempts: int
    live: bool
    """Stream."""
    is_fallback: bool
    clock: Callable[[], float]

    async def climb(self, record: Record) -> AsyncIterator[ModelDelta | ModelReply]:
        """The answer that counts, its pieces before it; nothing, where none of the attempts gave one.

        Raises `ProviderError`, and `RequestError` of a wire that cannot express the request.
        """
        number = min(self.attempts, 1 + looked(self.request, self.force))
        while number <= self.attempts and not record.given:
            rung, started = self.ladder.rung(number), self.clock()
            log.debug("forced_attempt", provider=self.entry.provider.name, attempt=number, how=rung)
            try:
                async with closing(self._attempt(number, rung, record)) as items:
                    async for item in items:
                        record.given = True
                        yield item
            except (ProviderError, RequestError) as error:
                behind = of_failure(self.entry, error, self.clock() - started)
                record.attempts += [replace(attempt, how=rung) for attempt in behind]
                if record.given or not _is_the_rungs_fault(rung, error):
                    raise
                self.ladder.refused(rung, str(error))
                log.info("rung_refused", provider=self.entry.provider.name, how=rung, error=told(error))
            else:
                number += 1

    async def _attempt(self, number: int, rung: Rung, record: Record) -> AsyncIterator[ModelDelta | ModelReply]:
        """What goes out of one attempt, as soon as it is sure that it counts."""
        started, held = self.clock(), list[ModelDelta]()
        async with closing(self._answer(self._asked(number, rung))) as items:
            async for item in items:
                if isinstance(item, ModelReply):
                    for each in self._judged(item, number, rung, held, started, record):
                        yield each
                    return
                held.append(item)
                if record.given or (rung != "schema" and any(self._counts(call.name) for call in item.calls)):
                    for each in held:
                        yield each
                    held.clear()

    async def _answer(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        if not self.live:
            yield await self.entry.provider.complete(request)
            return
        async with closing(self.entry.provider.stream(request)) as items:
            async for item in items:
                yield item

    # ---------------------------------------------------------------- asking

    def _asked(self, number: int, rung: Rung) -> ModelRequest:
        """Always from the original message, so that notes never pile up; the first attempt has none."""
        if rung == "schema":
            return self._asked_as_json()
        request = self.request
        quiet = self.ladder.params(rung)
        return replace(
            request,
            messages=request.messages if number == 1 else enhanced(request.messages, NOTE),
            params={**(request.params or {}), **quiet} if quiet else request.params,
            tool_choice=self._choice(rung),
        )

    def _choice(self, rung: Rung) -> Any:
        choice = self.request.tool_choice
        if rung == "named":
            return {"type": "function", "function": {"name": self.names[0]}}
        if rung != "required" or _names_one(choice):
            return choice
        if isinstance(choice, Mapping) and isinstance(choice.get("allowed_tools"), Mapping):
            return {**choice, "allowed_tools": {**choice["allowed_tools"], "mode": "required"}}
        return "required"

    def _asked_as_json(self) -> ModelRequest:
        request = self.request
        wanted = offer(self._definitions())
        dropped = ("parallel_tool_calls", "response_format")
        asked = replace(
            request,
            messages=enhanced(request.messages, wanted.note),
            params={name: value for name, value in (request.params or {}).items() if name not in dropped},
            output_schema=wanted.schema,
            tool_choice="none",
        )
        if self.row.json_schema == "with_tools":
            return asked
        return replace(asked, tools=(), tool_choice=None, deferred=frozenset(), allowed=None)

    def _definitions(self) -> list[JsonObject]:
        """Those of the candidates, the likeliest first."""
        by_name = {tool_name(definition): definition for definition in self.request.tools}
        found = [_decoded(by_name[name]) for name in self.names if name in by_name]
        if not found:
            raise RequestError("none of the candidates is a tool of the request", param="tools")
        return found

    # ---------------------------------------------------------------- judging

    def _counts(self, name: str | None) -> bool:
        return bool(name) and name not in self.force.ignored

    def _judged(
        self, reply: ModelReply, number: int, rung: Rung, held: list[ModelDelta], started: float, record: Record
    ) -> Iterator[ModelDelta | ModelReply]:
        """What goes out at the end of an attempt: an answer that counts, or that looks for tools while attempts are left."""
        if rung == "schema" and not reply.message.tool_calls:
            reply, held = self._read(reply, held)
        calls = reply.message.tool_calls
        counts = record.given or any(self._counts(call.name) for call in calls)
        goes_out = counts or (bool(calls) and number < self.attempts)
        self._write_down(reply, rung, started, record, answered=goes_out)
        if calls:
            self.ladder.held(rung)
        elif reply.finish_reason not in _NOT_TOLD:
            self.ladder.came_to_nothing(rung)
        if counts:
            self._log_success(reply, number, started)
        else:
            log.warning("no_tool_called", provider=self.entry.provider.name, attempt=number, of=self.attempts, how=rung)
        if goes_out:
            yield from held
            yield with_attempts(reply, record.attempts, provider=self._who())
        elif rung != "schema" or record.words is None:
            record.words, record.held = replace(reply, provider=reply.provider or self._who()), held

    def _read(self, reply: ModelReply, held: list[ModelDelta]) -> tuple[ModelReply, list[ModelDelta]]:
        """The JSON answer as the call it stands for, which nobody wrote in a provider's own blocks."""
        call = call_of(reply.message.text, frozenset(self.names))
        if call is None:
            return reply, held
        message = Message(role="assistant", tool_calls=(call,), author=reply.message.author)
        piece = CallDelta(index=0, id=call.id, name=call.name, arguments=call.arguments)
        return replace(reply, message=message, finish_reason="tool_calls", raw=None), [ModelDelta(calls=(piece,))]

    def _write_down(self, reply: ModelReply, rung: Rung, started: float, record: Record, *, answered: bool) -> None:
        *before, last = of_answer(self.entry, reply, self.clock() - started)
        outcome: Outcome = "answered" if answered else "not_called"
        called = ", ".join(_names(reply))
        detail = f"called {called}" if called else "called no tool"
        if rung == "schema" and not called:
            detail = "the answer is not the JSON that was asked for"
        record.attempts += [replace(attempt, how=rung) for attempt in before]
        record.attempts.append(replace(last, how=rung, outcome=outcome, detail=detail))

    def _log_success(self, reply: ModelReply, number: int, started: float) -> None:
        log.info(
            "tool_called",
            tools=_names(reply),
            provider=self.entry.provider.name,
            attempt=number,
            ms=round((self.clock() - started) * 1000),
        )

    def _who(self) -> str:
        return self.entry.provider.name if self.is_fallback else ""


def _names(reply: ModelReply) -> list[str]:
    """Of the tools called, for a line of a log: a model that has lost its way calls thousands, by long names."""
    names = dict.fromkeys(call.name[:_LONG_NAME] for call in reply.message.tool_calls[:_MOST_NAMES])
    return list(names)


def nameable(request: ModelRequest, force: Force) -> tuple[str, ...]:
    """The candidates that may be named: what counts, is not held back, and is within the caller's own choice."""
    revealed = {name for message in request.messages for name in message.revealed}
    hidden = request.deferred - revealed
    only = _chosen(request.tool_choice)
    return tuple(
        name
        for name in force.candidates
        if name not in force.ignored
        and name not in hidden
        and (only is None or name in only)
        and (request.allowed is None or name in request.allowed)
    )


def looked(request: ModelRequest, force: Force) -> int:
    """Answers since the last word of the user that called only what does not count."""
    count = 0
    for message in reversed(request.messages):
        if message.role == "user":
            break
        names = [call.name for call in message.tool_calls]
        count += bool(names) and all(name in force.ignored for name in names)
    return count


def enhanced(messages: Sequence[Message], note: str) -> Sequence[Message]:
    """The note behind the last message of the user; where there is none, as one."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user":
            longer = replace(message, content=with_text(message.content or "", note))
            return (*messages[:index], longer, *messages[index + 1 :])
    return (*messages, Message(role="user", content=note.strip()))


def _decoded(definition: Any) -> JsonObject:
    whole: JsonObject = msgspec.json.decode(definition) if isinstance(definition, msgspec.Raw) else definition
    return whole


def _names_one(choice: Any) -> bool:
    return isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping)


def _chosen(choice: Any) -> frozenset[str] | None:
    """The names that a caller's choice allows; None: all."""
    if not isinstance(choice, Mapping):
        return None
    if _names_one(choice):
        return frozenset({str(choice["function"].get("name"))})
    allowed = choice.get("allowed_tools")
    tools = allowed.get("tools") if isinstance(allowed, Mapping) else None
    if not isinstance(tools, list | tuple):
        return None
    return frozenset(str(tool["function"].get("name")) for tool in tools if _names_one(tool))


def _is_the_rungs_fault(rung: Rung, error: ProviderError | RequestError) -> bool:
    """A hard rung was refused although the same messages go through without it."""
    if rung not in _HARD:
        return False
    return isinstance(error, RequestError) or (isinstance(error, ProviderRejectedError) and error.status in _AT_FAULT)
