"""A provider asked again when it fails in a way that may pass."""

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
    closing,
    error_line,
    failed,
    of_answer,
    of_failure,
    wire_of,
    with_attempts,
)
from toolcaddie.util.log import Logger

log = Logger(__name__)

_JITTER = 0.3


class Retry:
    """Asks `provider` up to `attempts` times in all. Implements `ports.Provider`.

    Only errors with `retryable` are tried again, and never once a piece of a stream was shown. The wait doubles from
    `first_wait` to `longest_wait` seconds, with up to 30 % more at random so that many who failed together do not come back
    together; a provider that names a time is given it, and one that names more than `longest_wait` is not waited for: its
    error is raised. Cancelling ends a wait at once. `attempts` of the reply has every try, and so has that of the error.
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
        entry, tried = Entry(provider=self._provider, model=request.model), list[Attempt]()
        for number in count(1):
            started = self._clock()
            try:
                reply = await self._provider.complete(request)
            except ProviderError as error:
                tried += of_failure(entry, error, self._clock() - started)
                wait = self._wait(error, number)
                if wait is None:
                    raise failed(error, tried) from error
                await self._pause(error, wait, number)
            else:
                return self._finished(entry, reply, tried, started)
        raise AssertionError("the last try gives an answer or an error")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        entry, tried, shown = Entry(provider=self._provider, model=request.model), list[Attempt](), False
        for number in count(1):
            started = self._clock()
            try:
                async with closing(self._provider.stream(request)) as items:
                    async for item in items:
                        shown = True
                        yield self._finished(entry, item, tried, started) if isinstance(item, ModelReply) else item
                return
            except ProviderError as error:
                tried += of_failure(entry, error, self._clock() - started)
                wait = None if shown else self._wait(error, number)
                if wait is None:
                    raise failed(error, tried) from error
                await self._pause(error, wait, number)

    async def models(self) -> Sequence[JsonObject]:
        return await self._provider.models()

    async def close(self) -> None:
        await self._provider.close()

    def _finished(self, entry: Entry, reply: ModelReply, tried: Sequence[Attempt], started: float) -> ModelReply:
        if not tried:
            return reply
        return with_attempts(reply, (*tried, *of_answer(entry, reply, self._clock() - started)))

    def _wait(self, error: ProviderError, tried: int) -> float | None:
        """Seconds until the next try; None: there is none."""
        if not error.retryable or tried >= self._attempts:
            return None
        if error.retry_after is not None and error.retry_after > self._longest_wait:
            return None
        backoff = min(self._longest_wait, self._first_wait * 2.0 ** (tried - 1)) * (1 + _JITTER * self._chance())
        return max(backoff, error.retry_after or 0.0)

    async def _pause(self, error: ProviderError, wait: float, tried: int) -> None:
        log.info(
            "provider_retried", provider=self.name, attempt=tried, of=self._attempts, wait=wait, error=error_line(error)
        )
        await self._sleep(wait)
