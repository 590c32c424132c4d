"""Several providers as one: the next is asked when one fails, or cannot do what the request needs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from toolcaddie.core.capabilities import CAPABILITIES, Capabilities
from toolcaddie.core.errors import ConfigError, ProviderError, RequestError
from toolcaddie.core.message import Attempt, ModelDelta, ModelReply, ModelRequest
from toolcaddie.core.tool import JsonObject
from toolcaddie.providers.wrapping import (
    Entry,
    closing,
    error_line,
    failed,
    first_request,
    known_of,
    of_answer,
    of_failure,
    other_request,
    wire_of,
    with_attempts,
)
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

_OF_THE_KEY = frozenset({401, 403, 404})
_SUITED = ("native", "text")
"""Who is asked when tools are needed, in this order; `none` never."""


class Fallback:
    """Asks the first of `entries`, and the next where that one fails. Implements `ports.Provider`.

    A request with tools goes to those that call tools natively, then to those that do it in words, and never to one that
    cannot; without tools the order is as given. Every `ProviderError` leads on: another provider may have the key, the
    quota, the model, or the longer context that this one lacks. So does a `RequestError` of a wire that cannot express a
    part of the request. A refused key of the caller's own does not, nor does an error once a piece of a stream was shown.

    The request's model and headers are for the first entry; the others are asked for their own model, with the parameters
    that mean the same to everybody, and never see the headers. `provider` and `model` of the reply say who answered.
    Raises the error of the last that was asked, which names and has every attempt, and `RequestError` where nobody can call
    tools.
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
        tried: list[Attempt] = []
        asked = list(self._asked(request))
        for position, (entry, theirs) in enumerate(asked, start=1):
            started = self._clock()
            try:
                reply = await entry.provider.complete(theirs)
            except (ProviderError, RequestError) as error:
                tried += of_failure(entry, error, self._clock() - started)
                if position == len(asked) or _is_the_callers(error, request):
                    raise failed(error, tried) from error
                self._leads_on(entry, error)
            else:
                return self._finished(entry, reply, tried, started)
        raise self._nobody()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        tried, shown = list[Attempt](), False
        asked = list(self._asked(request))
        for position, (entry, theirs) in enumerate(asked, start=1):
            started = self._clock()
            try:
                async with closing(entry.provider.stream(theirs)) as items:
                    async for item in items:
                        shown = True
                        yield self._finished(entry, item, tried, started) if isinstance(item, ModelReply) else item
                return
            except (ProviderError, RequestError) as error:
                tried += of_failure(entry, error, self._clock() - started)
                if shown or position == len(asked) or _is_the_callers(error, request):
                    raise failed(error, tried) from error
                self._leads_on(entry, error)
        raise self._nobody()

    async def models(self) -> Sequence[JsonObject]:
        """Those of the first."""
        return await self._entries[0].provider.models()

    async def close(self) -> None:
        for entry in self._entries:
            await entry.provider.close()

    def _asked(self, request: ModelRequest) -> Iterator[tuple[Entry, ModelRequest]]:
        """Who is asked for what, in order."""
        known = [self._known(position, entry, request) for position, entry in enumerate(self._entries)]
        if request.tools:
            known = [item for kind in _SUITED for item in known if item[2].tools == kind]
        for position, entry, row in known:
            yield entry, first_request(entry, request) if position == 0 else other_request(entry, request, row)

    def _known(self, position: int, entry: Entry, request: ModelRequest) -> tuple[int, Entry, Capabilities]:
        if position == 0 and not entry.model:
            entry = replace(entry, model=request.model)
        return position, entry, known_of(entry, self._capabilities)

    def _finished(self, entry: Entry, reply: ModelReply, tried: Sequence[Attempt], started: float) -> ModelReply:
        who = "" if entry.provider is self._entries[0].provider else entry.provider.name
        if not tried:
            return replace(reply, provider=reply.provider or who)
        return with_attempts(reply, (*tried, *of_answer(entry, reply, self._clock() - started)), provider=who)

    def _leads_on(self, entry: Entry, error: Exception) -> None:
        log.info("provider_fallback", failed=entry.provider.name, model=entry.model, error=error_line(error))

    def _nobody(self) -> RequestError:
        names = ", ".join(entry.provider.name for entry in self._entries)
        return RequestError(f"the request has tools, and none of the providers ({names}) can call any", param="tools")


def _is_the_callers(error: Exception, request: ModelRequest) -> bool:
    """Whether a caller's own key was refused, or what it asked for by that key: nobody gets another's key by a wrong one."""
    theirs = any(name.lower() == "authorization" for name in request.headers or ())
    return theirs and isinstance(error, ProviderError) and error.status in _OF_THE_KEY
