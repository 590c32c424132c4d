"""A provider whose answers must call a tool: requests are repeated with escalating force, and then sent to a fallback.

Attempt 1 sends the original message. Each later attempt adds a sentence to the original message, and takes the most promising
step of the escalation for this model: `tool_choice` required, a named tool, or a JSON answer constrained by a schema. An
answer counts if it calls a tool that is not in `Force.ignored`, which has tools that only search for other tools.
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
from toolcaddie.providers.escalation import Escalation, FirstStep, quiet_params, thinks
from toolcaddie.providers.forced_attempts import ForcedAttempts, Progress, nameable
from toolcaddie.providers.step_statistics import StepStatistics
from toolcaddie.providers.wrapping import (
    Entry,
    attempts_text,
    capabilities_for,
    closing,
    error_line,
    error_with_attempts,
    first_request,
    other_request,
    wire_of,
    with_attempts,
)
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

OnNotCalled = Literal["retry", "error", "warn", "allow"]


class Forced:
    """Enforces `ModelRequest.force`. Implements `ports.Provider`; requests without it are unchanged.

    `attempts` limits the requests to `provider`; answers since the user's last message that only searched for tools are included.
    If the server refuses a step with an error, that is no attempt, and the step is not repeated. After the last attempt, or if
    `provider` fails, `fallback` receives the same tools and the original message, for the number of attempts in its entry.
    `begin="required"`: attempt 1 sends the original message with a forced choice.

    If no provider calls a tool, `on_not_called` decides: `error` raises `ToolNotCalledError`; `warn` logs and, like `allow`
    and `retry`, returns the last answer without a call. An answer that only searched for tools is returned at once while attempts
    are left, because the caller runs the search and sends another request.

    A streamed attempt is buffered until it calls a tool that counts; then it is streamed, and an error ends the stream.
    `attempts` and `usage` of a reply include all requests; `provider` names the fallback if the fallback answered.
    Once the fallback has answered, it receives all requests until the user's next message, forced or not.
    The instances of a process share their `statistics`.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        fallback: Entry | None = None,
        attempts: int = 3,
        on_not_called: OnNotCalled = "retry",
        begin: FirstStep = "plain",
        capabilities: Sequence[Capabilities] = CAPABILITIES,
        statistics: StepStatistics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if attempts < 1 or (fallback is not None and fallback.attempts is not None and fallback.attempts < 1):
            raise ConfigError("forced use: attempts must be at least 1")
        self.name = provider.name
        self.wire = wire_of(provider)
        self.statistics = statistics or StepStatistics()
        self._provider = provider
        self._fallback = fallback
        self._attempts = attempts
        self._on_not_called = on_not_called
        self._begin: FirstStep = begin
        self._capabilities = capabilities
        self._clock = clock

    async def complete(self, request: ModelRequest) -> ModelReply:
        if request.force is None or not _applies(request, request.force):
            return await self._unforced(request)
        async with closing(self._forced(request, request.force, stream=False)) as items:
            async for item in items:
                if isinstance(item, ModelReply):
                    return item
        raise AssertionError("forced attempts end with a reply or an error")

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        if request.force is None or not _applies(request, request.force):
            return self._streamed_unforced(request)
        return self._forced(request, request.force, stream=True)

    async def models(self) -> Sequence[JsonObject]:
        return await self._provider.models()

    async def close(self) -> None:
        await self._provider.close()
        if self._fallback is not None:
            await self._fallback.provider.close()

    async def _unforced(self, request: ModelRequest) -> ModelReply:
        if (entry := self._active_fallback(request)) is None:
            return await self._provider.complete(request)
        return _by(entry, await entry.provider.complete(self._request_for(entry, request)))

    def _streamed_unforced(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        if (entry := self._active_fallback(request)) is None:
            return self._provider.stream(request)
        return _streamed_by(entry, self._request_for(entry, request))

    def _active_fallback(self, request: ModelRequest) -> Entry | None:
        """Returns the fallback if it has answered since the user's last message."""
        entry = self._fallback
        if entry is None or entry.label == f"{self._provider.name}:{request.model}":
            return None
        return entry if any(_is_by(entry, author) for author in _authors(request.messages)) else None

    def _request_for(self, entry: Entry, request: ModelRequest) -> ModelRequest:
        return other_request(entry, request, capabilities_for(entry, self._capabilities))

    async def _forced(
        self, request: ModelRequest, force: Force, *, stream: bool
    ) -> AsyncIterator[ModelDelta | ModelReply]:
        """Yields the deltas and the reply of the answer that counts, or of the answer that replaces it."""
        progress = Progress()
        failure: ProviderError | RequestError | None = None
        for attempts in self._providers(request, force, stream):
            if attempts.is_fallback:
                self._log_exhausted(progress, then="fallback")
                log.info("fallback_asked", provider=attempts.entry.provider.name, model=attempts.entry.model)
            try:
                async with closing(attempts.run(progress)) as items:
                    async for item in items:
                        yield item
            except (ProviderError, RequestError) as error:
                if progress.has_output:
                    raise error_with_attempts(error, progress.attempts) from error
                failure = error_with_attempts(error, progress.attempts)
                log.warning("forced_provider_failed", provider=attempts.entry.provider.name, error=error_line(error))
            if progress.has_output:
                return
        for item in self._substitute(progress, failure):
            yield item

    def _providers(self, request: ModelRequest, force: Force, stream: bool) -> Iterator[ForcedAttempts]:
        if self._active_fallback(request) is None:
            first = Entry(provider=self._provider, model=request.model, attempts=self._attempts)
            row = capabilities_for(first, self._capabilities)
            yield self._attempts_with(first, row, first_request(first, request), force, stream, is_fallback=False)
        if self._fallback is not None:
            row = capabilities_for(self._fallback, self._capabilities)
            its_request = self._request_for(self._fallback, request)
            yield self._attempts_with(self._fallback, row, its_request, force, stream, is_fallback=True)

    def _attempts_with(
        self, entry: Entry, row: Capabilities, request: ModelRequest, force: Force, stream: bool, *, is_fallback: bool
    ) -> ForcedAttempts:
        params, names = request.params or {}, nameable(request, force)
        attempts = entry.attempts or self._attempts
        escalation = Escalation(
            row=row,
            statistics=self.statistics,
            model=entry.label,
            attempts=attempts,
            thinking=thinks(params, row),
            quiet_params=quiet_params(params, row),
            can_name=bool(names),
            first_step=self._begin,
        )
        return ForcedAttempts(
            entry=entry,
            request=replace(request, force=None),
            force=force,
            names=names,
            row=row,
            escalation=escalation,
            attempts=attempts,
            stream=stream,
            is_fallback=is_fallback,
            clock=self._clock,
        )

    def _log_exhausted(self, progress: Progress, *, then: str) -> int:
        """Logs that all attempts so far called no tool, and returns their number."""
        count = sum(attempt.outcome == "not_called" for attempt in progress.attempts)
        if count:
            log.warning("attempts_exhausted", provider=self.name, attempts=count, then=then)
        return count

    def _substitute(
        self, progress: Progress, failure: ProviderError | RequestError | None
    ) -> Iterator[ModelDelta | ModelReply]:
        if progress.text_reply is None:
            assert failure is not None, "an attempt gives text or fails"
            raise failure
        count = self._log_exhausted(progress, then=self._on_not_called)
        if self._on_not_called == "error":
            attempts = tuple(progress.attempts)
            failures = [attempt for attempt in progress.attempts if attempt.outcome == "failed"]
            also = f"; {attempts_text(failures)}" if failures else ""
            raise ToolNotCalledError(f"no tool was called in {count} attempts{also}", attempts=attempts) from failure
        if self._on_not_called == "warn":
            log.warning("answered_without_tool", provider=progress.text_reply.provider or self.name, attempts=count)
        yield from progress.text_deltas
        yield with_attempts(progress.text_reply, progress.attempts)


def _applies(request: ModelRequest, force: Force) -> bool:
    """Returns True if the request can be forced: it has a candidate that counts, and `tool_choice` is not 'none'."""
    return bool(request.tools) and bool(set(force.candidates) - force.ignored) and request.tool_choice != "none"


def _authors(messages: Sequence[Message]) -> Iterator[str]:
    """Yields the authors of the answers since the user's last message."""
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
