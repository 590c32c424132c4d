"""The HTTP client of the MCP client. Answers are limited in size, and requests to other origins (scheme, host and port) than the
server's own reach public addresses only, because a hostile server may name any address as its authorization server."""

from __future__ import annotations

import asyncio
import functools
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Mapping

import httpx2
import msgspec
from msgspec import Struct

from toolcaddie.core.bounds import LARGE, beyond
from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.json_counts import counts
from toolcaddie.guards.net import GuardedClient, turn
from toolcaddie.parts import Secrets
from toolcaddie.sources.mcp.server import ANY_PORT, PORTS, McpServer, Origin, authority_origin

_HEADERS_FROM_HERE = frozenset({"accept", "accept-encoding", "content-type", "user-agent", "authorization"})
"""Headers that are sent to an authorization server at another origin. `authorization` is the client's own secret for it."""

_ENCODINGS = ("gzip", "deflate")
"""Compressions of answers that are asked for and understood."""
_ANY_HEADER = 32 + zlib.MAX_WBITS
"""For zlib: the data say which of the two it is."""
_MOST_VALUES = 100_000
"""The largest number of JSON values in one answer; a list of 1,000 tools has about half as many."""
_PIECE = 128 * 1024
"""Bytes that are decompressed at once."""

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
        headers={**headers_of(server, secrets), "Accept-Encoding": ", ".join(_ENCODINGS)},
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


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Returns what checks the certificates of servers. To read all authorities takes 25 ms of the event loop, so it is done once,
    and not for each connection."""
    return httpx2.create_ssl_context(trust_env=False)


class _BoundedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, server: McpServer, most_bytes: int, guarded: Callable[[], GuardedClient]) -> None:
        # One connection per call and one for the stream of changes. httpx2 itself would stop at 100 in all.
        limits = httpx2.Limits(max_connections=server.concurrency + 10, max_keepalive_connections=server.concurrency)
        self._inner = httpx2.AsyncHTTPTransport(limits=limits, verify=_certificates())
        self._url = httpx2.URL(server.url or "")
        self._own = _origin(self._url)
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
        # An event stream may last for ever; its single events are limited by the protocol's package.
        kind = response.headers.get("content-type", "").lower()
        is_stream = kind.startswith("text/event-stream")
        response = await _bounded(response, None if is_stream else self._most_bytes, request)
        if kind.startswith("application/json") and response.status_code == 200 and self._is_call(request):
            await _check_message(response, request)
        return response

    def _is_call(self, request: httpx2.Request) -> bool:
        """Returns True for a message to the MCP server itself, and not for the OAuth pages beside it."""
        return request.method == "POST" and request.url == self._url

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


async def _bounded(response: httpx2.Response, most_bytes: int | None, request: httpx2.Request) -> httpx2.Response:
    """Returns the answer with a body that is decompressed piece by piece, and that fails beyond `most_bytes`. Raises
    `httpx2.ReadError` for a compression that nobody asked for."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", *_ENCODINGS):
        await response.aclose()
        raise httpx2.ReadError(
            f"its answer is compressed by {encoding[:40]!r}, which was not asked for", request=request
        )
    if encoding != "identity":
        response.headers = httpx2.Headers(
            [pair for pair in response.headers.multi_items() if pair[0] not in ("content-encoding", "content-length")]
        )
    response.stream = _BoundedStream(response.stream, most_bytes, request, encoding in _ENCODINGS)  # type: ignore[arg-type]
    return response


class _Message(Struct):
    """The outermost fields of a message in JSON-RPC, undecoded where they can be large."""

    jsonrpc: str
    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


async def _check_message(response: httpx2.Response, request: httpx2.Request) -> None:
    """Reads the answer. Raises `httpx2.ReadError` if it is no message in JSON-RPC, or has too many values.

    The package `mcp` compares an answer with four kinds of message, on the event loop. For an object of 300,000 fields that is
    none of them, that takes seconds.
    """
    body = await response.aread()
    if len(body) >= LARGE and (await asyncio.to_thread(_values, body)) > _MOST_VALUES:
        raise httpx2.ReadError(f"its answer holds more than {_MOST_VALUES:,} JSON values", request=request)
    try:
        msgspec.json.decode(body, type=_Message)
    except (msgspec.DecodeError, RecursionError) as error:
        raise httpx2.ReadError(f"its answer is no JSON-RPC message: {error}", request=request) from error


def _values(body: bytes) -> int:
    return counts(body, most=_MOST_VALUES, deepest=len(body)).values


class _BoundedStream(httpx2.AsyncByteStream):
    """Decompresses an answer, and raises an error as soon as it is larger than allowed. httpx2 would decompress all that has
    arrived at once, which is a thousand times as much if a server is hostile."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, most_bytes: int | None, request: httpx2.Request, compressed: bool
    ) -> None:
        self._inner = inner
        self._most_bytes = most_bytes
        self._request = request
        self._compressed = compressed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._pieces():
            size += len(chunk)
            if self._most_bytes is not None and size > self._most_bytes:
                reason = beyond("its answer is too large", self._most_bytes, "answer")
                raise httpx2.ReadError(reason, request=self._request)
            yield chunk
            if size > LARGE:
                await turn()

    async def _pieces(self) -> AsyncIterator[bytes]:
        if not self._compressed:
            async for chunk in self._inner:
                yield chunk
            return
        unpacker = zlib.decompressobj(_ANY_HEADER)
        async for chunk in self._inner:
            while chunk:
                try:
                    piece = unpacker.decompress(chunk, _PIECE)
                except zlib.error as error:
                    raise httpx2.ReadError(
                        f"its answer cannot be decompressed: {error}", request=self._request
                    ) from error
                yield piece
                chunk = unpacker.unconsumed_tail

    async def aclose(self) -> None:
        await self._inner.aclose()
