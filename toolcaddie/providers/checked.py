"""A provider whose answers pass the caller's check: after a wrong answer, the model is told the mistake and asked again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from toolcaddie.core.capabilities import Capabilities
from toolcaddie.core.errors import OutputError
from toolcaddie.core.message import Attempt, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.ports import Provider
from toolcaddie.providers.constrained import portable, without_references
from toolcaddie.providers.wrapping import Entry, attempts_of_answer, closing, wire_of, with_attempts
from toolcaddie.util.replacing import replace

_AGAIN = "This answer is wrong: {complaint}. Answer again with one JSON object that fits the schema, and nothing else."


class Checked:
    """Sends a request to `provider` up to `attempts` times, until an answer in text passes. Implements `ports.Provider`.

    `complaint` returns a sentence about the mistake in an answer; empty: the answer is correct. An answer that calls tools is not
    checked. `schema` is the schema of a correct answer; if `capabilities` say that the provider supports it, the answer is
    constrained to the schema. Text is streamed once it has passed the check, calls are streamed at once. Raises `OutputError`
    if no answer passes. `attempts` of the reply includes the wrong answers.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        schema: JsonObject,
        complaint: Callable[[str], str],
        capabilities: Capabilities,
        attempts: int = 3,
    ) -> None:
        self.name = provider.name
        self.wire = wire_of(provider)
        self._provider = provider
        self._schema = portable(without_references(schema))
        self._complaint = complaint
        self._capabilities = capabilities
        self._attempts = attempts

    async def complete(self, request: ModelRequest) -> ModelReply:
        request, rejected = self._with_schema(request), list[Attempt]()
        while True:
            started = time.monotonic()
            reply = await self._provider.complete(request)
            complaint = self._mistake_in(reply)
            attempts = attempts_of_answer(self._entry(request), reply, time.monotonic() - started)
            if not complaint:
                return with_attempts(reply, (*rejected, *attempts)) if rejected else reply
            rejected += _rejected(attempts, complaint)
            request = self._corrected(request, reply, complaint, rejected)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        request, rejected = self._with_schema(request), list[Attempt]()
        while True:
            started, reply = time.monotonic(), None
            async with closing(self._provider.stream(request)) as items:
                async for item in items:
                    if isinstance(item, ModelReply):
                        reply = item
                    elif item.calls:
                        yield replace(item, text="", raw=None)
            assert reply is not None, f"provider {self.name} ended its stream without a reply"
            complaint = self._mistake_in(reply)
            attempts = attempts_of_answer(self._entry(request), reply, time.monotonic() - started)
            if not complaint:
                if reply.message.text:
                    yield ModelDelta(text=reply.message.text)
                yield with_attempts(reply, (*rejected, *attempts)) if rejected else reply
                return
            rejected += _rejected(attempts, complaint)
            request = self._corrected(request, reply, complaint, rejected)

    async def models(self) -> Sequence[JsonObject]:
        return await self._provider.models()

    async def close(self) -> None:
        await self._provider.close()

    def _entry(self, request: ModelRequest) -> Entry:
        return Entry(provider=self._provider, model=request.model)

    def _with_schema(self, request: ModelRequest) -> ModelRequest:
        """Returns the request with the schema if the provider supports it."""
        support = self._capabilities.json_schema
        if self._schema is None or support == "no" or (request.tools and support != "with_tools"):
            return request
        return replace(request, output_schema=self._schema)

    def _mistake_in(self, reply: ModelReply) -> str:
        return "" if reply.message.tool_calls else self._complaint(reply.message.text)

    def _corrected(
        self, request: ModelRequest, reply: ModelReply, complaint: str, rejected: Sequence[Attempt]
    ) -> ModelRequest:
        if len(rejected) >= self._attempts:
            raise OutputError(
                f"none of {len(rejected)} answers fitted the output type; mistake in the last answer: {complaint}",
                attempts=tuple(rejected),
            )
        correction = Message(role="user", content=_AGAIN.format(complaint=complaint))
        answer = (reply.message,) if reply.message.text else ()
        return replace(request, messages=(*request.messages, *answer, correction))


def _rejected(attempts: Sequence[Attempt], complaint: str) -> list[Any]:
    *earlier, last = attempts
    return [*earlier, replace(last, outcome="failed", detail=complaint)]
