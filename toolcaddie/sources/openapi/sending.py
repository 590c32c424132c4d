"""Sends the requests of an API. Servers of the settings are reached wherever they are; a server that only the document names is
reached at public addresses alone. An answer is read up to a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
from msgspec import Struct
from yarl import URL

from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.net import USER_AGENT, read_decoded
from toolcaddie.parts import Parts
from toolcaddie.sources.openapi.addresses import lies_below
from toolcaddie.sources.openapi.api import OpenApi
from toolcaddie.sources.openapi.requests import HttpRequest
from toolcaddie.util.tracing import trace_headers

_FOLLOWING = frozenset({"GET", "HEAD"})
"""Methods whose redirects are followed, if they stay on the same host."""


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

    async def close(self) -> None:
        """Closes all connections."""
        await self._operator.close()
        await self._guarded.close()

    async def send(self, request: HttpRequest) -> Answer:
        """Returns the answer, whatever its status. Raises `OutboundError` or `TimeoutError`."""
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
            raise OutboundError(f"{_host(request.address)} cannot be reached: {_reason(error)}") from error


def _host(address: str) -> str:
    return str(URL(address, encoded=True).origin())


def _reason(error: BaseException) -> str:
    cause = error.__cause__ or error
    return str(getattr(cause, "strerror", None) or type(error).__name__)
