"""The paths of stored responses: they show a response and its input, cancel it, and delete it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

from toolcaddie.core.control import Principal
from toolcaddie.doors.gateway.access import key_headers
from toolcaddie.doors.gateway.background import BackgroundResponses
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.following import followed
from toolcaddie.doors.gateway.handler import STREAM_HEADERS
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

    def __init__(
        self,
        stored: StoredResponses,
        background: BackgroundResponses,
        passing: Passing,
        identified: Callable[[Principal], Principal],
    ) -> None:
        self._stored = stored
        self._background = background
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
                await answer(exchange, await self._background.current(stored, owner), owner)
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
            await self._stream(exchange, stored, owner)
        else:
            await exchange.answer(200, ENCODER.encode(stored.response), {})

    async def _stream(self, exchange: Exchange, stored: StoredResponse, owner: Owner) -> None:
        """Streams the events of a response, those after `starting_after` if the query names one."""
        after = query_of(exchange).get("starting_after", "-1")
        if not re.fullmatch(r"-1|[0-9]{1,9}", after):
            message = "'starting_after' must be the sequence_number of an event"
            await exchange.refuse(problem(400, message, kind="invalid_request_error", param="starting_after"))
            return
        await exchange.start(200, STREAM_HEADERS)
        events = followed(self._stored, self._background, exchange.part, owner, int(after) + 1)
        await exchange.while_connected(_sent(exchange, events))

    async def _delete(self, exchange: Exchange, stored: StoredResponse, owner: Owner) -> None:
        await self._stored.delete(exchange.part, owner)
        await self._background.stop(stored, owner)
        body = {"id": exchange.part, "object": "response", "deleted": True}
        await exchange.answer(200, ENCODER.encode(body), {})

    async def _cancel(self, exchange: Exchange, stored: StoredResponse, owner: Owner) -> None:
        """Cancels a background response; one that has ended is returned as it is."""
        if stored.response.get("background") is not True:
            message = "Only a response with 'background' can be cancelled."
            await exchange.refuse(problem(400, message, kind="invalid_request_error", code="not_cancellable"))
            return
        current = await self._background.cancel(stored, owner) if stored.unfinished else stored
        await exchange.answer(200, ENCODER.encode(current.response), {})

    async def _input(self, exchange: Exchange, stored: StoredResponse, owner: Owner) -> None:
        items = [{"id": f"item_{exchange.part}_{place}", **listed(item)} for place, item in enumerate(stored.input)]
        await exchange.answer(200, ENCODER.encode(page_of(items, query_of(exchange))), {})


async def _sent(exchange: Exchange, events: AsyncIterator[bytes]) -> None:
    async for data in events:
        await exchange.write(data)
    await exchange.write(b"", more=False)
