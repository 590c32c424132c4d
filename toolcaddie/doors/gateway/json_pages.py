"""Paths that read and answer JSON in the name of a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.bodies import Bodies
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.doors.gateway.problems import RefusedError
from toolcaddie.doors.gateway.router import Caller, Route

T = TypeVar("T")
Handle = Callable[[Exchange, Caller], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPages:
    """Makes routes, and reads the bodies of their requests."""

    bodies: Bodies
    identified: Callable[[Principal], Principal]
    """Returns the principal in whose name a request is answered."""
    key_headers: Collection[bytes]
    """The headers in which an API key may stand."""

    def route(
        self,
        method: Literal["GET", "POST", "DELETE"],
        path: str,
        answer: Handle,
        refusal: Callable[[RequestError, Caller], Problem],
    ) -> Route:
        """Returns a route. `refusal` says how a `RequestError` of `answer` is answered."""

        async def handle(exchange: Exchange, caller: Caller) -> None:
            try:
                await answer(exchange, caller)
            except RequestError as error:
                raise RefusedError(refusal(error, caller)) from error

        return Route(method=method, path=path, handle=handle, key_headers=self.key_headers)

    def person(self, caller: Caller) -> Principal:
        return self.identified(caller.principal)

    async def read(self, exchange: Exchange, kind: type[T], *, example: str, empty: bytes = b"") -> T | None:
        """Returns the body; None if the client disconnected. `empty`: what an empty body stands for.

        Raises `RequestError`, with the example, for a body that is wrong.
        """
        with self.bodies.share() as share:
            body = await exchange.body(share)
            if isinstance(body, Problem):
                raise RefusedError(body)
            if body is None:
                return None
            try:
                return msgspec.json.decode(body or empty, type=kind)
            except msgspec.DecodeError as error:
                raise RequestError(f"the body is wrong: {error}; {example}") from error


async def answer_json(exchange: Exchange, value: Any) -> None:
    await exchange.answer(200, msgspec.json.encode(value), {})
