"""Joins several providers into one: if a provider fails or cannot handle a request, the next provider receives it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from toolcaddie.core.capabilities import CAPABILITIES, Capabilities
from toolcaddie.core.errors import ConfigError, ProviderError, RequestError
from toolcaddie.core.message import Attempt, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.guards.proofs import PROOFS
from toolcaddie.providers.wrapping import (
    Entry,
    attempts_of_answer,
    attempts_of_failure,
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

_KEY_STATUSES = frozenset({401, 403, 404})
"""HTTP statuses with which servers refuse a key, or a model that the key may not use."""
_TOOL_SUPPORT = ("native", "text")
"""Values of `Capabilities.tools` with which a provider may receive a request with tools, the best first."""


class Fallback:
    """Sends a request to the first of `entries`, and to the next if that one fails. Implements `ports.Provider`.

    A request with tools is sent to the providers that call tools natively, then to those that call them in text, and never to
    a provider without tool calls. A request without tools is sent to the entries in order. After any `ProviderError` the next
    provider is tried: it may have the key, the quota, the model or the context length that the failed provider lacks. The same
    happens after a `RequestError`, if an API cannot express the request. No other provider is tried if the caller's own key was
    refused, or if a part of a stream was delivered before the error.

    The request's model and headers are for the first entry. The others receive their own model, the parameters that mean the
    same to every provider, and no headers. `provider` and `model` of the reply name the provider that answered.

    Raises the error of the last provider, with all attempts, or `RequestError` if no provider can call tools.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        capabilities: Sequence[Capabilities] = CAPABILITIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not entries:
            raise ConfigError("fallback: there must be at least one provider")
        self.name = entries[0].provider.name
        self.wire = wire_of(entries[0].provider)
        self._entries = tuple(entries)
        self._capabilities = capabilities
        self._clock = clock

    async def complete(self, request: ModelRequest) -> ModelReply:
        attempts: list[Attempt] = []
        requests = list(self._requests(request))
        for position, (entry, its_request) in enumerate(requests, start=1):
            started = self._clock()
            try:
                reply = await entry.provider.complete(its_request)
            except (ProviderError, RequestError) as error:
                attempts += attempts_of_failure(entry, error, self._clock() - started)
                if position == len(requests) or _is_the_callers(error, request):
                    raise error_with_attempts(error, attempts) from error
                self._log_fallback(entry, error)
            else:
                return self._finished(entry, reply, attempts, started)
        raise self._no_tools()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        attempts, is_shown = list[Attempt](), False
        requests = list(self._requests(request))
        for position, (entry, its_request) in enumerate(requests, start=1):
            started = self._clock()
            try:
                async with closing(entry.provider.stream(its_request)) as items:
                    async for item in items:
                        is_shown = True
                        yield self._finished(entry, item, attempts, started) if isinstance(item, ModelReply) else item
                return
            except (ProviderError, RequestError) as error:
                attempts += attempts_of_failure(entry, error, self._clock() - started)
                if is_shown or position == len(requests) or _is_the_callers(error, request):
                    raise error_with_attempts(error, attempts) from error
                self._log_fallback(entry, error)
        raise self._no_tools()

    async def models(self) -> Sequence[JsonObject]:
        """Returns the models of the first provider."""
        return await self._entries[0].provider.models()

    async def close(self) -> None:
        for entry in self._entries:
            await entry.provider.close()

    def _requests(self, request: ModelRequest) -> Iterator[tuple[Entry, ModelRequest]]:
        """Yields the providers in order, each with its request."""
        candidates = [self._candidate(position, entry, request) for position, entry in enumerate(self._entries)]
        if request.tools:
            candidates = [item for kind in _TOOL_SUPPORT for item in candidates if item[2].tools == kind]
        for position, entry, row in candidates:
            yield entry, first_request(entry, request) if position == 0 else other_request(entry, request, row)

    def _candidate(self, position: int, entry: Entry, request: ModelRequest) -> tuple[int, Entry, Capabilities]:
        if position == 0 and not entry.model:
            entry = replace(entry, model=request.model)
        return position, entry, capabilities_for(entry, self._capabilities)

    def _finished(self, entry: Entry, reply: ModelReply, attempts: Sequence[Attempt], started: float) -> ModelReply:
        name = "" if entry.provider is self._entries[0].provider else entry.provider.name
        if not attempts:
            return replace(reply, provider=reply.provider or name)
        return with_attempts(
            reply, (*attempts, *attempts_of_answer(entry, reply, self._clock() - started)), provider=name
        )

    def _log_fallback(self, entry: Entry, error: Exception) -> None:
        log.info("provider_fallback", failed=entry.provider.name, model=entry.model, error=error_line(error))

    def _no_tools(self) -> RequestError:
        names = ", ".join(entry.provider.name for entry in self._entries)
        return RequestError(f"the request has tools, and none of the providers ({names}) can call any", param="tools")


def _is_the_callers(error: Exception, request: ModelRequest) -> bool:
    """Returns True if the caller's own key was refused: such a caller must not get an answer paid by another key."""
    has_own_key = any(name.lower() in PROOFS for name in request.headers or ())
    return has_own_key and isinstance(error, ProviderError) and error.status in _KEY_STATUSES
