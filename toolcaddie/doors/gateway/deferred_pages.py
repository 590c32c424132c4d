"""The path of deferred requests: it shows the answer of a request once there is one, and cancels the request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from toolcaddie.core.control import Principal
from toolcaddie.doors.gateway.deferred import Deferred
from toolcaddie.doors.gateway.deferring import Deferring
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.doors.gateway.router import Caller, Route
from toolcaddie.doors.gateway.stored import owner_of
from toolcaddie.wires.bodies import ENCODER

_PATH = "/v1/requests"
_RETRY_SECONDS = "1"
"""Seconds after which a client may ask again."""


class DeferredPages:
    """Answers requests about deferred requests. `identified` returns the principal in whose name a request is answered."""

    def __init__(
        self,
        deferring: Deferring,
        identified: Callable[[Principal], Principal],
        key_headers: Collection[bytes],
    ) -> None:
        self._deferring = deferring
        self._identified = identified
        self._key_headers = key_headers

    @property
    def routes(self) -> Sequence[Route]:
        path = f"{_PATH}/{{id}}"
        return (
            Route(method="GET", path=path, handle=self._show, key_headers=self._key_headers),
            Route(method="DELETE", path=path, handle=self._delete, key_headers=self._key_headers),
        )

    async def _show(self, exchange: Exchange, caller: Caller) -> None:
        owner = owner_of(exchange, self._identified(caller.principal))
        request = await self._deferring.get(exchange.part, owner)
        if request is None or request.background:
            await _refuse(exchange)
        elif request.answer is None:
            await answer_accepted(exchange, request)
        else:
            await exchange.start(request.answer.status, list(request.answer.headers))
            await exchange.write(request.answer.content, more=False)

    async def _delete(self, exchange: Exchange, caller: Caller) -> None:
        owner = owner_of(exchange, self._identified(caller.principal))
        if await self._deferring.cancel(exchange.part, owner):
            await exchange.start(204, {})
            await exchange.write(b"", more=False)
        else:
            await _refuse(exchange)


async def answer_accepted(exchange: Exchange, request: Deferred) -> None:
    """Answers that a request was accepted and has no answer yet."""
    location = f"{_PATH}/{request.id}"
    status = "in_progress" if request.attempts else "queued"
    body = {"id": request.id, "object": "request", "status": status, "created": int(request.accepted), "url": location}
    headers = {"location": location, "retry-after": _RETRY_SECONDS}
    await exchange.answer(202, ENCODER.encode(body), headers)


async def _refuse(exchange: Exchange) -> None:
    message = f"there is no request {exchange.part[:100]!r}: it is another caller's, was deleted, or is too old"
    await exchange.refuse(problem(404, message, kind="invalid_request_error", code="unknown_request"))
