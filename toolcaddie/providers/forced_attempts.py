"""One provider's attempts at one forced request: a request is made for each step, and each answer is judged.

An answer counts if it calls a tool that is not in `Force.ignored`. `forced` uses this module; the steps are in `escalation`.
"""

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
from toolcaddie.providers.escalation import Escalation, Step
from toolcaddie.providers.wrapping import (
    Entry,
    Outcome,
    attempts_of_answer,
    attempts_of_failure,
    closing,
    error_line,
    tool_name,
    wire_of,
    with_attempts,
)
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace
from toolcaddie.wires.foreign import for_wire

log = Logger(__name__)

NOTE = (
    "\n\nAnswer this by calling one of the tools you were given. Do not answer from general knowledge, and do not only say "
    "what you would do."
)
_CUT_SHORT = ("length", "content_filter")
"""Finish reasons of incomplete answers, which do not show whether the server obeys a forced choice."""
_AT_FAULT = (400, 422)
"""HTTP statuses of a request that the server refuses as wrong."""
_MOST_LOGGED_NAMES = 16
"""Largest number of names of called tools in a log line."""
_LONGEST_LOGGED_NAME = 128
"""Largest number of characters of such a name."""
_HARD = ("required", "named", "schema")
"""Steps that set a parameter, which a server may refuse."""


@dataclass(slots=True)
class Progress:
    """The outcome of a forced request so far, over all providers."""

    attempts: list[Attempt] = field(default_factory=list)
    text_reply: ModelReply | None = None
    """The last answer that called no tool. An answer to the schema step is used only if there is no other."""
    text_deltas: list[ModelDelta] = field(default_factory=list)
    """The deltas of `text_reply`, if it was streamed."""
    has_output: bool = False
    """True: a part of the returned answer was given to the caller already."""


@dataclass(slots=True, kw_only=True)
class ForcedAttempts:
    """The attempts with one provider.

    `request` is the request that `entry` gets, before a step changes it. `names` are the candidates that a choice or a schema
    may name.
    """

    entry: Entry
    request: ModelRequest
    force: Force
    names: Sequence[str]
    row: Capabilities
    escalation: Escalation
    attempts: int
    stream: bool
    is_fallback: bool
    clock: Callable[[], float]

    async def run(self, progress: Progress) -> AsyncIterator[ModelDelta | ModelReply]:
        """Yields the deltas and the reply of the answer that counts; nothing if no attempt gave such an answer.

        Raises `ProviderError`, and `RequestError` if the API cannot express the request.
        """
        number = min(self.attempts, 1 + searches(self.request, self.force))
        while number <= self.attempts and not progress.has_output:
            step, started = self.escalation.step(number), self.clock()
            log.debug("forced_attempt", provider=self.entry.provider.name, attempt=number, how=step)
            try:
                async with closing(self._attempt(number, step, progress)) as items:
                    async for item in items:
                        progress.has_output = True
                        yield item
            except (ProviderError, RequestError) as error:
                failures = attempts_of_failure(self.entry, error, self.clock() - started)
                progress.attempts += [replace(attempt, how=step) for attempt in failures]
                if progress.has_output or not _is_the_steps_fault(step, error):
                    raise
                self.escalation.record_refusal(step, str(error))
                log.info("step_refused", provider=self.entry.provider.name, how=step, error=error_line(error))
            else:
                number += 1

    async def _attempt(self, number: int, step: Step, progress: Progress) -> AsyncIterator[ModelDelta | ModelReply]:
        """Yields the answer of one attempt once it is certain that it counts."""
        started, deltas = self.clock(), list[ModelDelta]()
        async with closing(self._answer(self._request(number, step))) as items:
            async for item in items:
                if isinstance(item, ModelReply):
                    for output in self._outputs(item, number, step, deltas, started, progress):
                        yield output
                    return
                deltas.append(item)
                if progress.has_output or (step != "schema" and any(self._counts(call.name) for call in item.calls)):
                    for delta in deltas:
                        yield delta
                    deltas.clear()

    async def _answer(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        if not self.stream:
            yield await self.entry.provider.complete(request)
            return
        async with closing(self.entry.provider.stream(request)) as items:
            async for item in items:
                yield item

    # ---------------------------------------------------------------- asking

    def _request(self, number: int, step: Step) -> ModelRequest:
        """Returns the request of an attempt. The first attempt has no note; each later one has one note."""
        if step == "schema":
            return self._schema_request()
        request, params = self.request, self.escalation.params(step)
        if params:  # under the names of the provider's API, so the others must be under these names too
            request = for_wire(request, wire_of(self.entry.provider), request.model)
            request = replace(request, params={**(request.params or {}), **params})
        return replace(
            request,
            messages=request.messages if number == 1 else enhanced(request.messages, NOTE),
            tool_choice=self._choice(step),
        )

    def _choice(self, step: Step) -> Any:
        choice = self.request.tool_choice
        if step == "named":
            return {"type": "function", "function": {"name": self.names[0]}}
        if step != "required" or _names_one(choice):
            return choice
        if isinstance(choice, Mapping) and isinstance(choice.get("allowed_tools"), Mapping):
            return {**choice, "allowed_tools": {**choice["allowed_tools"], "mode": "required"}}
        return "required"

    def _schema_request(self) -> ModelRequest:
        request = self.request
        choice = offer(self._definitions())
        dropped = ("parallel_tool_calls", "response_format")
        with_tools = replace(
            request,
            messages=enhanced(request.messages, choice.note),
            params={name: value for name, value in (request.params or {}).items() if name not in dropped},
            output_schema=choice.schema,
            tool_choice="none",
        )
        if self.row.json_schema == "with_tools":
            return with_tools
        return replace(with_tools, tools=(), tool_choice=None, deferred=frozenset(), allowed=None)

    def _definitions(self) -> list[JsonObject]:
        """Returns the definitions of the candidates, the likeliest first."""
        by_name = {tool_name(definition): definition for definition in self.request.tools}
        definitions = [_decoded(by_name[name]) for name in self.names if name in by_name]
        if not definitions:
            raise RequestError("none of the candidates is a tool of the request", param="tools")
        return definitions

    # ---------------------------------------------------------------- judging

    def _counts(self, name: str | None) -> bool:
        return bool(name) and name not in self.force.ignored

    def _outputs(
        self, reply: ModelReply, number: int, step: Step, deltas: list[ModelDelta], started: float, progress: Progress
    ) -> Iterator[ModelDelta | ModelReply]:
        """Yields an attempt's answer if it counts, or if it only searches for tools and there are attempts left."""
        if step == "schema" and not reply.message.tool_calls:
            reply, deltas = self._with_call(reply, deltas)
        calls = reply.message.tool_calls
        counts = progress.has_output or any(self._counts(call.name) for call in calls)
        is_returned = counts or (bool(calls) and number < self.attempts)
        self._record(reply, step, started, progress, answered=is_returned)
        if calls:
            self.escalation.record_success(step)
        elif reply.finish_reason not in _CUT_SHORT:
            self.escalation.record_failure(step)
        if counts:
            self._log_success(reply, number, started)
        else:
            log.warning("no_tool_called", provider=self.entry.provider.name, attempt=number, of=self.attempts, how=step)
        if is_returned:
            yield from deltas
            yield with_attempts(reply, progress.attempts, provider=self._provider_name())
        elif step != "schema" or progress.text_reply is None:
            progress.text_reply, progress.text_deltas = (
                replace(reply, provider=reply.provider or self._provider_name()),
                deltas,
            )

    def _with_call(self, reply: ModelReply, deltas: list[ModelDelta]) -> tuple[ModelReply, list[ModelDelta]]:
        """Returns a JSON answer as a call, without the provider's own blocks (`raw`), which do not contain that call."""
        call = call_of(reply.message.text, frozenset(self.names))
        if call is None:
            return reply, deltas
        message = Message(role="assistant", tool_calls=(call,), author=reply.message.author)
        piece = CallDelta(index=0, id=call.id, name=call.name, arguments=call.arguments)
        return replace(reply, message=message, finish_reason="tool_calls", raw=None), [ModelDelta(calls=(piece,))]

    def _record(self, reply: ModelReply, step: Step, started: float, progress: Progress, *, answered: bool) -> None:
        *earlier, last = attempts_of_answer(self.entry, reply, self.clock() - started)
        outcome: Outcome = "answered" if answered else "not_called"
        called = ", ".join(_names(reply))
        detail = f"called {called}" if called else "called no tool"
        if step == "schema" and not called:
            detail = "the answer is not the requested JSON"
        progress.attempts += [replace(attempt, how=step) for attempt in earlier]
        progress.attempts.append(replace(last, how=step, outcome=outcome, detail=detail))

    def _log_success(self, reply: ModelReply, number: int, started: float) -> None:
        log.info(
            "tool_called",
            tools=_names(reply),
            provider=self.entry.provider.name,
            attempt=number,
            ms=round((self.clock() - started) * 1000),
        )

    def _provider_name(self) -> str:
        """Returns the name of the provider for the reply; empty for the first provider."""
        return self.entry.provider.name if self.is_fallback else ""


def _names(reply: ModelReply) -> list[str]:
    """Returns the names of called tools, few and short enough for a log, because a confused model may call thousands."""
    names = dict.fromkeys(call.name[:_LONGEST_LOGGED_NAME] for call in reply.message.tool_calls[:_MOST_LOGGED_NAMES])
    return list(names)


def nameable(request: ModelRequest, force: Force) -> tuple[str, ...]:
    """Returns the candidates that a request may name: they count, are not deferred, and the caller's own choice allows them."""
    revealed = {name for message in request.messages for name in message.revealed}
    hidden = request.deferred - revealed
    chosen_names = _chosen_names(request.tool_choice)
    return tuple(
        name
        for name in force.candidates
        if name not in force.ignored
        and name not in hidden
        and (chosen_names is None or name in chosen_names)
        and (request.allowed is None or name in request.allowed)
    )


def searches(request: ModelRequest, force: Force) -> int:
    """Returns the number of answers since the user's last message that called only tools that do not count."""
    count = 0
    for message in reversed(request.messages):
        if message.role == "user":
            break
        names = [call.name for call in message.tool_calls]
        count += bool(names) and all(name in force.ignored for name in names)
    return count


def enhanced(messages: Sequence[Message], note: str) -> Sequence[Message]:
    """Returns the messages with the note at the end of the user's last message; without one, the note is a new message."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user":
            longer = replace(message, content=with_text(message.content or "", note))
            return (*messages[:index], longer, *messages[index + 1 :])
    return (*messages, Message(role="user", content=note.strip()))


def _decoded(definition: Any) -> JsonObject:
    decoded: JsonObject = msgspec.json.decode(definition) if isinstance(definition, msgspec.Raw) else definition
    return decoded


def _names_one(choice: Any) -> bool:
    return isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping)


def _chosen_names(choice: Any) -> frozenset[str] | None:
    """Returns the names that a caller's choice allows; None: all."""
    if not isinstance(choice, Mapping):
        return None
    if _names_one(choice):
        return frozenset({str(choice["function"].get("name"))})
    allowed = choice.get("allowed_tools")
    tools = allowed.get("tools") if isinstance(allowed, Mapping) else None
    if not isinstance(tools, list | tuple):
        return None
    return frozenset(str(tool["function"].get("name")) for tool in tools if _names_one(tool))


def _is_the_steps_fault(step: Step, error: ProviderError | RequestError) -> bool:
    """Returns True if the server refused the step, so that the same messages may be accepted without it."""
    if step not in _HARD:
        return False
    return isinstance(error, RequestError) or (isinstance(error, ProviderRejectedError) and error.status in _AT_FAULT)
