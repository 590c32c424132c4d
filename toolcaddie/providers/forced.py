"""A provider whose answer must call a tool: asked again, each time harder, and at the end somebody else is asked.

Attempt 1 is the message as it is. Later ones say that a tool must be used, always behind the original message, and take the
rungs of the ladder that promise most with this model: `tool_choice` required, a named tool, a JSON answer held to a schema.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Literal

from toolcaddie.core.capabilities import CAPABILITIES, Capabilities
from toolcaddie.core.errors import ConfigError, ProviderError, RequestError, ToolNotCalledError
from toolcaddie.core.message import Force, Message, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.ports import Provider
from toolcaddie.providers.climber import Climber, Record, nameable
from toolcaddie.providers.ladder import Begin, Ladder, quiet_params, thinks
from toolcaddie.providers.observed import Observed
from toolcaddie.providers.wrapping import (
    Entry,
    attempts_text,
    closing,
    failed,
    first_request,
    known_of,
    other_request,
    told,
    wire_of,
    with_attempts,
)
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

OnNotCalled = Literal["retry", "error", "warn", "allow"]


class Forced:
    """Sees to `ModelRequest.force`. Implements `ports.Provider`; requests without it go through as they are.

    `attempts` bounds the requests to `provider`, answers that only looked for tools (`Force.ignored`) earlier in the same
    turn included; a rung that the server calls an error costs none and is not tried again. Then `fallback` is asked: the
    same tools, the original message, and as many attempts of its own as its entry says. It is asked as well when `provider`
    fails for good. `begin="required"` starts with a forced choice, the message still as it is.

    Where nobody calls a tool, `on_not_called` decides: `error` raises `ToolNotCalledError`; `warn` logs and, like `allow`
    and `retry`, returns the last answer in words. An answer that only looked for tools is returned at once while attempts
    are left: whoever runs it will ask again.

    A streamed attempt is held back until it calls a tool that counts; then it goes out, and from there on an error ends it.
    Of a reply, `attempts` and `usage` are those of all requests, and `provider` names who answered if it was the fallback.
    What the fallback began it ends: until the user speaks again it gets the requests that follow, forced or not.
    `observed` is shared by all that force in a process, so that what one of them learns of a server the others know.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        fallback: Entry | None = None,
        attempts: int = 3,
        on_not_called: OnNotCalled = "retry",
        begin: Begin = "plain",
        capabilities: Sequence[Capabilities] = CAPABILITIES,
        observed: Observed | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if attempts < 1 or (fallback is not None and fallback.attempts is not None and fallback.attempts < 1):
            raise ConfigError("forced use: attempts must be at least 1")
        self.name = provider.name
        self.wire = wire_of(provider)
        self.observed = observed or Observed()
        self._provider = provider
        self._fallback = fallback
        self._attempts = attempts
        self._on_not_called = on_not_called
        self._begin: Begin = begin
        self._capabilities = capabilities
        self._clock = clock

    async def complete(self, request: ModelRequest) -> ModelReply:
        if request.force is None or not _applies(request, request.force):
            return await self._plainly(request)
        async with closing(self._climbed(request, request.force, live=False)) as items:
            async for item in items:
                if isinstance(item, ModelReply):
                    return item
        raise AssertionError("a climb ends with a reply or an error")

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        if request.force is None or not _applies(request, request.force):
            return self._streamed_plainly(request)
        return self._climbed(request, request.force, live=True)

    async def models(self) -> Sequence[JsonObject]:
        return await self._provider.models()

    async def close(self) -> None:
        await self._provider.close()
        if self._fallback is not None:
            await self._fallback.provider.close()

    async def _plainly(self, request: ModelRequest) -> ModelReply:
        if (entry := self._carries_on(request)) is None:
            return await self._provider.complete(request)
        return _by(entry, await entry.provider.complete(self._asked_of(entry, request)))

    def _streamed_plainly(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        if (entry := self._carries_on(request)) is None:
            return self._provider.stream(request)
        return _streamed_by(entry, self._asked_of(entry, request))

    def _carries_on(self, request: ModelRequest) -> Entry | None:
        """The fallback, if it has answered since the user last spoke."""
        entry = self._fallback
        if entry is None or entry.label == f"{self._provider.name}:{request.model}":
            return None
        return entry if any(_is_by(entry, author) for author in _authors(request.messages)) else None

    def _asked_of(self, entry: Entry, request: ModelRequest) -> ModelRequest:
        return other_request(entry, request, known_of(entry, self._capabilities))

    async def _climbed(
        self, request: ModelRequest, force: Force, *, live: bool
    ) -> AsyncIterator[ModelDelta | ModelReply]:
        """The answer that counts, or what stands in for one; its pieces before it."""
        record = Record()
        failure: ProviderError | RequestError | None = None
        for climber in self._climbers(request, force, live):
            if climber.is_fallback:
                self._log_exhausted(record, then="fallback")
                log.info("fallback_asked", provider=climber.entry.provider.name, model=climber.entry.model)
            try:
                async with closing(climber.climb(record)) as items:
                    async for item in items:
                        yield item
            except (ProviderError, RequestError) as error:
                if record.given:
                    raise failed(error, record.attempts) from error
                failure = failed(error, record.attempts)
                log.warning("forced_provider_failed", provider=climber.entry.provider.name, error=told(error))
            if record.given:
                return
        for item in self._given_up(record, failure):
            yield item

    def _climbers(self, request: ModelRequest, force: Force, live: bool) -> Iterator[Climber]:
        if self._carries_on(request) is None:
            first = Entry(provider=self._provider, model=request.model, attempts=self._attempts)
            row = known_of(first, self._capabilities)
            yield self._climber(first, row, first_request(first, request), force, live, is_fallback=False)
        if self._fallback is not None:
            row = known_of(self._fallback, self._capabilities)
            asked = self._asked_of(self._fallback, request)
            yield self._climber(self._fallback, row, asked, force, live, is_fallback=True)

    def _climber(
        self, entry: Entry, row: Capabilities, request: ModelRequest, force: Force, live: bool, *, is_fallback: bool
    ) -> Climber:
        params, names = request.params or {}, nameable(request, force)
        attempts = entry.attempts or self._attempts
        ladder = Ladder(
            row=row,
            observed=self.observed,
            model=entry.label,
            attempts=attempts,
            thinking=thinks(params, row),
            quiet=quiet_params(params, row),
            can_name=bool(names),
            begin=self._begin,
        )
        return Climber(
            entry=entry,
            request=replace(request, force=None),
            force=force,
            names=names,
            row=row,
            ladder=ladder,
            attempts=attempts,
            live=live,
            is_fallback=is_fallback,
            clock=self._clock,
        )

    def _log_exhausted(self, record: Record, *, then: str) -> int:
        """Log that all attempts so far called no tool, and return how many there were."""
        tried = sum(attempt.outcome == "not_called" for attempt in record.attempts)
        if tried:
            log.warning("attempts_exhausted", provider=self.name, attempts=tried, then=then)
        return tried

    def _given_up(
        self, record: Record, failure: ProviderError | RequestError | None
    ) -> Iterator[ModelDelta | ModelReply]:
        if record.words is None:
            assert failure is not None, "an attempt gives words or fails"
            raise failure
        tried = self._log_exhausted(record, then=self._on_not_called)
        if self._on_not_called == "error":
            attempts = tuple(record.attempts)
            broke = [attempt for attempt in record.attempts if attempt.outcome == "failed"]
            also = f"; {attempts_text(broke)}" if broke else ""
            raise ToolNotCalledError(f"no tool was called in {tried} attempts{also}", attempts=attempts) from failure
        if self._on_not_called == "warn":
            log.warning("answered_without_tool", provider=record.words.provider or self.name, attempts=tried)
        yield from record.held
        yield with_attempts(record.words, record.attempts)


def _applies(request: ModelRequest, force: Force) -> bool:
    """Nothing is forced where no real tool is offered, or the caller said none."""
    return bool(request.tools) and bool(set(force.candidates) - force.ignored) and request.tool_choice != "none"


def _authors(messages: Sequence[Message]) -> Iterator[str]:
    """Of the answers since the user last spoke."""
    for message in reversed(messages):
        if message.role == "user":
            return
        yield message.author


def _is_by(entry: Entry, author: str) -> bool:
    return author == entry.label if entry.model else author.startswith(f"{entry.provider.name}:")


def _by(entry: Entry, reply: ModelReply) -> ModelReply:
    return replace(reply, provider=reply.provider or entry.provider.name)


async def _streamed_by(entry: Entry, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
    async with closing(entry.provider.stream(request)) as items:
        async for item in items:
            yield _by(entry, item) if isinstance(item, ModelReply) else item
