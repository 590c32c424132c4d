"""The paths of stored responses: they show a response and its input, cancel it, and delete it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from toolcaddie.core.control import Principal
from toolcaddie.doors.gateway.access import key_headers
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.listing import listed, page_of, query_of
from toolcaddie.doors.gateway.passing import Passing
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.doors.gateway.router import Caller, Route
from toolcaddie.doors.gateway.stored import Owner, StoredResponse, StoredResponses, owner_of
from toolcaddie.wires import responses
from toolcaddie.wires.bodies import ENCODER

Answer = Callable[[Exchange, StoredResponse, Owner], Awaitable[None]]


class ResponsePages:
    """Answers requests about stored responses. If a response is not stored here, the upstream is asked, if `passing` allows it.
    `identified` returns the principal in whose name a request is answered."""

    def __init__(self, stored: StoredResponses, passing: Passing, identified: Callable[[Principal], Principal]) -> None:
        self._stored = stored
        self._passing = passing
        self._identified = identified

    @property
    def routes(self) -> tuple[Route, ...]:
        return (
            self._route("GET", "/v1/responses/{id}", self._show),
            self._route("DELETE", "/v1/responses/{id}", self._delete),
            self._route("GET", "/v1/responses/{id}/input_items", self._input),
            self._route("POST", "/v1/responses/{id}/cancel", self._cancel),
        )

    def _route(self, method: Literal["GET", "POST", "DELETE"], path: str, answer: Answer) -> Route:
        async def handle(exchange: Exchange, caller: Caller) -> None:
            owner = owner_of(exchange, self._identified(caller.principal))
            stored = await self._stored.get(exchange.part, owner)
            if stored is not None:
                await answer(exchange, stored, owner)
            elif self._passing.may_accept(method, exchange.path) and self._passing.accepts(method, exchange, caller):
                await self._passing.handle(method, exchange, caller)
            else:
                message = f"Response with id '{exchange.part[:100]}' not found."
                await exchange.refuse(problem(404, message, kind="invalid_request_error", param="id"))

        return Route(
            method=method, path=path, handle=handle, wire=responses.WIRE, key_headers=key_headers(responses.WIRE.name)
        )

    async def _show(self, exchange: Exchange, stored: StoredResponse, owner: Owner) -> None:
        if query_of(exchange).get("stream") == "true":
            message = "a stored response is returned whole; leave out 'stream'"
            await exchange.refuse(problem(400, message, kind="invalid_request_error", param="stream"))
            return
        await exchange.answer(200, ENCODER.encode(stored.response), {})

    async def _delete(self, exchange: Exchange, stored: StoredResponse, owner: Owner) -> None:
        await self._stored.delete(exchange.part, owner)
        body = {"id": exchange.part, "object": "response", "deleted": True}
        await exchange.answer(200, ENCODER.encode(body), {})

    async def _cancel(self, exchange: Exchange, stored: StoredResponse, owner: Owner) -> None:
        message = "Only a response with 'background' can be cancelled, and this one is complete."
        await exchange.refuse(problem(400, message, kind="invalid_request_error", code="not_cancellable"))

    async def _input(self, exchange: Exchange, stored: StoredResponse, owner: Owner) -> None:
        items = [{"id": f"item_{exchange.part}_{place}", **listed(item)} for place, item in enumerate(stored.input)]
        await exchange.answer(200, ENCODER.encode(page_of(items, query_of(exchange))), {})
