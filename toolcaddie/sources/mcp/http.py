"""The HTTP client of the MCP client. Answers are limited in size, and requests to other origins (scheme, host and port) than the
server's own reach public addresses only, because a hostile server may name any address as its authorization server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

import httpx2

from toolcaddie.core.bounds import beyond
from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.net import GuardedClient
from toolcaddie.parts import Secrets
from toolcaddie.sources.mcp.server import ANY_PORT, PORTS, McpServer, Origin, authority_origin

_HEADERS_FROM_HERE = frozenset({"accept", "accept-encoding", "content-type", "user-agent", "authorization"})
"""Headers that are sent to an authorization server at another origin. `authorization` is the client's own secret for it."""

SESSION_UNKNOWN = "Session terminated"
"""What the package `mcp` says when a server answers a request of a session with 404: it does not know the session, because it was
started again, say."""
_SESSION_HEADER = "mcp-session-id"


def http_client(
    server: McpServer,
    secrets: Secrets,
    most_bytes: int,
    guarded: Callable[[], GuardedClient],
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """Returns the client for one server. Raises `ConfigError` for a variable that is not set."""
    return httpx2.AsyncClient(
        headers=headers_of(server, secrets),
        timeout=httpx2.Timeout(server.connect_seconds, read=None, pool=None),
        auth=auth,
        transport=_BoundedTransport(server, most_bytes, guarded),
        trust_env=False,
    )


def headers_of(server: McpServer, secrets: Secrets) -> Mapping[str, str]:
    """Returns the headers that every request to the server carries."""
    named = {
        name: secrets.require(variable, what=f"the header {name} for the MCP server {server.name!r}")
        for name, variable in server.headers_from.items()
    }
    if server.token_env is not None:
        token = secrets.require(server.token_env, what=f"the token for the MCP server {server.name!r}")
        named["Authorization"] = f"Bearer {token}"
    return {**server.headers, **named}


def _origin(url: httpx2.URL) -> Origin:
    return url.scheme, url.host, url.port or PORTS.get(url.scheme, 0)


def _harmless_headers(request: httpx2.Request) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name.lower() in _HEADERS_FROM_HERE}


class _BoundedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, server: McpServer, most_bytes: int, guarded: Callable[[], GuardedClient]) -> None:
        # One connection per call and one for the stream of changes. httpx2 itself would stop at 100 in all.
        limits = httpx2.Limits(max_connections=server.concurrency + 10, max_keepalive_connections=server.concurrency)
        self._inner = httpx2.AsyncHTTPTransport(limits=limits)
        self._own = _origin(httpx2.URL(server.url or ""))
        self._authorities = frozenset(map(authority_origin, server.oauth.hosts if server.oauth else ()))
        self._most_bytes = most_bytes
        self._guarded = guarded

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        origin = _origin(request.url)
        if origin != self._own and not self._is_authority(origin):
            return await self._from_elsewhere(request)
        if origin != self._own:
            request = httpx2.Request(
                request.method, request.url, headers=_harmless_headers(request), content=await request.aread()
            )
        response = await self._inner.handle_async_request(request)
        if response.status_code == 404 and _SESSION_HEADER in request.headers:
            # Each server words this in its own way, so the body is dropped and the package says `SESSION_UNKNOWN`.
            await response.aclose()
            return httpx2.Response(404, request=request)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            # An event stream may last for ever; its single events are limited by the protocol's package.
            response.stream = _BoundedStream(response.stream, self._most_bytes, request)  # type: ignore[arg-type]
        return response

    def _is_authority(self, origin: Origin) -> bool:
        """Returns True if the settings name an origin as an authorization server."""
        scheme, host, _ = origin
        return bool(self._authorities & {origin, (scheme, host, ANY_PORT)})

    async def _from_elsewhere(self, request: httpx2.Request) -> httpx2.Response:
        """Sends a request to an origin that the server named, if its address is public."""
        headers = _harmless_headers(request)
        headers.pop("accept-encoding", None)
        body = await request.aread()
        try:
            async with self._guarded() as client:
                answer = await client.fetch(
                    str(request.url),
                    method=request.method,
                    headers=headers,
                    body=body or None,
                    max_bytes=self._most_bytes,
                )
        except OutboundError as error:
            named = f"{request.url.scheme}://{request.url.netloc.decode()}"
            advice = f"; if it is the authorization server of {self._own[1]}, add '{named}' to oauth.hosts"
            raise httpx2.ConnectError(f"{error}{advice}", request=request) from error
        left_out = ("content-encoding", "content-length", "transfer-encoding")
        kept = {name: value for name, value in answer.headers.items() if name not in left_out}
        return httpx2.Response(answer.status, headers=kept, content=answer.body, request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """Raises an error as soon as an answer is larger than allowed."""

    def __init__(self, inner: httpx2.AsyncByteStream, most_bytes: int, request: httpx2.Request) -> None:
        self._inner = inner
        self._most_bytes = most_bytes
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._most_bytes:
                reason = beyond("its answer is too large", self._most_bytes, "answer")
                raise httpx2.ReadError(reason, request=self._request)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
