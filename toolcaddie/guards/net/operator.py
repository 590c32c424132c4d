"""The client for addresses that the operator has set."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
from yarl import URL

from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.net.bodies import ENCODINGS
from toolcaddie.guards.net.urls import origin_of, redirect_target, shown

CONNECT_SECONDS = 10.0
MEGABYTE = 1024 * 1024
USER_AGENT = "toolcaddie"


def operator_client(
    *, seconds: float | None = 300.0, headers: Mapping[str, str] | None = None, decompress: bool = True
) -> aiohttp.ClientSession:
    """Returns a session for addresses set by the operator: any address is allowed, also one of this machine.

    `seconds` limits the time of a whole request with its answer. Proxies of the environment are ignored, and cookies are not
    stored. A redirect is followed only on the same host. A redirect to another host raises `OutboundError` naming both hosts,
    because the key in the headers is meant for the first host alone. `decompress` False: bodies arrive as they were sent, for
    `read_decoded`. The function must be called inside a running event loop.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0
        ),  # the gateway limits concurrent requests; requests that wait in this client would be hidden from it
        timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS),
        headers={"User-Agent": USER_AGENT, **({} if decompress else {"Accept-Encoding": ENCODINGS}), **(headers or {})},
        auto_decompress=decompress,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        middlewares=(_stay_on_host,),
    )


async def _stay_on_host(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Sends a request. Raises `OutboundError` for a redirect to another host."""
    response = await send(request)
    target = redirect_target(response)
    if target is not None and not _same_host(request.url, target):
        response.close()
        raise OutboundError(
            f"{shown(request.url)} redirects to another host, {shown(target)}, which is not followed; "
            "if that host is the right one, set its address instead"
        )
    return response


def _same_host(source: URL, target: URL) -> bool:
    """Returns True for the same origin, or for a change of the same host from http to https."""
    upgrade = source.host == target.host and (source.scheme, target.scheme, target.port) == ("http", "https", 443)
    return origin_of(source) == origin_of(target) or upgrade
