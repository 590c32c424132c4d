"""A provider that repeats requests to another provider after temporary failures."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import count

from toolcaddie.core.errors import ConfigError, ProviderError
from toolcaddie.core.message import Attempt, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.ports import Provider
from toolcaddie.providers.wrapping import (
    Entry,
    attempts_of_answer,
    attempts_of_failure,
    closing,
    error_line,
    error_with_attempts,
    wire_of,
    with_attempts,
)
from toolcaddie.util.log import Logger

log = Logger(__name__)

_JITTER = 0.3
"""Largest share of a wait that is added at random."""


class Retry:
    """Sends a request to `provider` up to `attempts` times in all. Implements `ports.Provider`.

    A request is repeated only after an error with `retryable`, and not after a part of a stream was delivered. The wait doubles
    from `first_wait` to `longest_wait` seconds; up to 30 % are added at random, so that clients that failed together do not
    retry together. If the provider names a time, the wait is at least that long; if that time exceeds `longest_wait`, the error
    is raised at once. Cancellation ends a wait at once. `attempts` of the reply, or of the error, lists every request.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        attempts: int = 3,
        first_wait: float = 0.5,
        longest_wait: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if attempts < 1:
            raise ConfigError(f"retry: attempts must be at least 1, not {attempts}")
        self.name = provider.name
        self.wire = wire_of(provider)
        self._provider = provider
        self._attempts = attempts
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._sleep = sleep
        self._chance = chance
        self._clock = clock

    async def complete(self, request: ModelRequest) -> ModelReply:
        entry, past_attempts = Entry(provider=self._provider, model=request.model), list[Attempt]()
        for number in count(1):
            started = self._clock()
            try:
                reply = await self._provider.complete(request)
            except ProviderError as error:
                past_attempts += attempts_of_failure(entry, error, self._clock() - started)
                wait = self._wait(error, number)
                if wait is None:
                    raise error_with_attempts(error, past_attempts) from error
                await self._pause(error, wait, number)
            else:
                return self._finished(entry, reply, past_attempts, started)
        raise AssertionError("the last attempt gives an answer or an error")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        entry, past_attempts, is_shown = Entry(provider=self._provider, model=request.model), list[Attempt](), False
        for number in count(1):
            started = self._clock()
            try:
                async with closing(self._provider.stream(request)) as items:
                    async for item in items:
                        is_shown = True
                        yield (
                            self._finished(entry, item, past_attempts, started)
                            if isinstance(item, ModelReply)
                            else item
                        )
                return
            except ProviderError as error:
                past_attempts += attempts_of_failure(entry, error, self._clock() - started)
                wait = None if is_shown else self._wait(error, number)
                if wait is None:
                    raise error_with_attempts(error, past_attempts) from error
                await self._pause(error, wait, number)

    async def models(self) -> Sequence[JsonObject]:
        return await self._provider.models()

    async def close(self) -> None:
        await self._provider.close()

    def _finished(
        self, entry: Entry, reply: ModelReply, past_attempts: Sequence[Attempt], started: float
    ) -> ModelReply:
        if not past_attempts:
            return reply
        return with_attempts(reply, (*past_attempts, *attempts_of_answer(entry, reply, self._clock() - started)))

    def _wait(self, error: ProviderError, number: int) -> float | None:
        """Returns the seconds until the next request; None: there is no further request."""
        if not error.retryable or number >= self._attempts:
            return None
        if error.retry_after is not None and error.retry_after > self._longest_wait:
            return None
        backoff = min(self._longest_wait, self._first_wait * 2.0 ** (number - 1)) * (1 + _JITTER * self._chance())
        return max(backoff, error.retry_after or 0.0)

    async def _pause(self, error: ProviderError, wait: float, number: int) -> None:
        log.info(
            "provider_retried",
            provider=self.name,
            attempt=number,
            of=self._attempts,
            wait=wait,
            error=error_line(error),
        )
        await self._sleep(wait)
