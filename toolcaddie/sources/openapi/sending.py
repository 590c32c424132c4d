"""Sends the requests of an API. Servers of the settings are reached wherever they are; a server that only the document names is
reached at public addresses alone. An answer is read up to a limit."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import aiohttp
from msgspec import Struct
from yarl import URL

from toolcaddie.core.errors import CircuitOpenError, OutboundError
from toolcaddie.guards.hedging import hedged
from toolcaddie.guards.net import USER_AGENT, read_decoded
from toolcaddie.parts import Parts
from toolcaddie.sources.openapi.addresses import lies_below
from toolcaddie.sources.openapi.api import OpenApi
from toolcaddie.sources.openapi.requests import HttpRequest
from toolcaddie.util.tracing import trace_headers

_FOLLOWING = frozenset({"GET", "HEAD"})
"""Methods whose redirects are followed, if they stay on the same host."""
_FAILURE = 500
"""Status from which an answer is a failure of the server."""


class _UnreachableError(OutboundError):
    """The connection to a server has failed."""


class Answer(Struct, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Sender:
    """The connections to the servers of one API. Made inside the running event loop."""

    def __init__(self, api: OpenApi, parts: Parts) -> None:
        self._api = api
        self._operator: aiohttp.ClientSession = parts.client(seconds=api.timeout, decompress=False)
        self._guarded = parts.guarded_client(seconds=api.timeout, max_redirects=0, max_bytes=api.max_response_bytes)
        self._free = asyncio.Semaphore(api.concurrency)
        self._breaker = None if parts.breakers is None else parts.breakers.named(f"openapi:{api.name}")

    async def close(self) -> None:
        """Closes all connections."""
        await self._operator.close()
        await self._guarded.close()

    async def send(self, request: HttpRequest, *, reads: bool = False) -> Answer:
        """Returns the answer, whatever its status. `reads`: True for a request without effects, which may be sent twice
        (`hedge_after`). Raises `CircuitOpenError`, `OutboundError` or `TimeoutError`."""
        return await hedged(partial(self._guarded_send, request), self._api.hedge_after if reads else None)

    async def _guarded_send(self, request: HttpRequest) -> Answer:
        """Sends a request unless the circuit to the API is open."""
        breaker = self._breaker
        if breaker is None:
            return await self._send(request)
        if wait := breaker.wait():
            raise CircuitOpenError(
                f"the API {self._api.name!r} has failed too often, so nothing is sent to it for another {math.ceil(wait)} s"
            )
        with breaker.watched(TimeoutError, _UnreachableError) as attempt:
            answer = await self._send(request)
            attempt.failed = answer.status >= _FAILURE
            return answer

    async def _send(self, request: HttpRequest) -> Answer:
        async with self._free:
            if self._is_configured(request.address):
                return await self._send_anywhere(request)
            answer = await self._guarded.fetch(
                request.address, method=request.method, headers=request.headers, body=request.body
            )
            return Answer(status=answer.status, headers=answer.headers, body=answer.body)

    def _is_configured(self, address: str) -> bool:
        known = (*self._api.servers, *(each.token_url for each in self._api.auth.values() if each.token_url))
        return any(lies_below(address, server) for server in known)

    async def _send_anywhere(self, request: HttpRequest) -> Answer:
        options: dict[str, Any] = {
            "headers": {"User-Agent": USER_AGENT, **trace_headers(), **request.headers},
            "data": request.body,
        }
        try:
            async with self._operator.request(
                request.method,
                URL(request.address, encoded=True),
                allow_redirects=request.method in _FOLLOWING,
                **options,
            ) as response:
                body = await read_decoded(response, self._api.max_response_bytes, setting="max_response_bytes")
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Answer(status=response.status, headers=headers, body=body)
        except TimeoutError:
            raise
        except OutboundError:
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The text of the error is not passed on, because it may contain the address with its query.
            raise _UnreachableError(f"{_host(request.address)} cannot be reached: {_reason(error)}") from error


def _host(address: str) -> str:
    return str(URL(address, encoded=True).origin())


def _reason(error: BaseException) -> str:
    cause = error.__cause__ or error
    return str(getattr(cause, "strerror", None) or type(error).__name__)
