"""The client for addresses from anyone but the operator."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from yarl import URL

from toolcaddie.core.errors import OutboundError
from toolcaddie.guards.net.addresses import why_not_public
from toolcaddie.guards.net.bodies import ENCODINGS, read_decoded
from toolcaddie.guards.net.operator import CONNECT_SECONDS, MEGABYTE, USER_AGENT
from toolcaddie.guards.net.reach import ANYWHERE_PUBLIC, Reach
from toolcaddie.guards.net.rules import refused
from toolcaddie.guards.net.urls import checked_redirect, checked_url, origin_of, redirect_target, shown

AddressInfo = tuple[
    int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]
]
"""An address as `socket.getaddrinfo` returns it: family, type, protocol, canonical name, socket address."""

OpenSocket = Callable[[AddressInfo], socket.socket]

_FAILURES = (aiohttp.ClientError, OSError, ValueError, RuntimeError)
"""Errors with which a request may end. `ValueError`: the host name cannot be looked up; `RuntimeError`: it has no address."""
_ERROR_NUMBER = re.compile(r"\[Errno -?\d+\] ")
_MOST_INTERIM = 10
"""The largest number of interim answers before an answer."""
_NOT_PUBLIC = "is not public"
"""Words of the error with which a socket is refused."""
_SAFE_ACROSS_HOSTS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
"""Headers that are sent again after a redirect to another origin. Any other header may contain a credential."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A whole answer. `url` is the address after all redirects; header names are in lower case."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def type(self) -> str:
        """The content type in lower case, without parameters. Empty: the answer names none."""
        return media_type(self.headers.get("content-type", ""))


class GuardedClient:
    """Sends http(s) requests to public addresses, and to the private hosts that the operator names.

    async with guarded_client() as client:
        page = await client.fetch("https://example.com/")

    Every failure is an `OutboundError`, and names the rule (`rules.RULES`) if it is a refusal. Cookies are not stored, and
    proxies of the environment are ignored. Headers that may contain credentials are sent to the first origin only, and not after
    a redirect to another.
    """

    def __init__(
        self,
        public: aiohttp.ClientSession,
        private: aiohttp.ClientSession | None,
        *,
        reach: Reach,
        seconds: float,
        max_redirects: int,
        max_bytes: int,
    ) -> None:
        self._public = public
        self._private = private
        self._reach = reach
        self._seconds = seconds
        self._max_redirects = max_redirects
        self._max_bytes = max_bytes

    async def __aenter__(self) -> GuardedClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._public.close()
        if self._private is not None:
            await self._private.close()

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        max_bytes: int | None = None,
        types: Sequence[str] | None = None,
        before_large: Callable[[], Awaitable[object]] | None = None,
    ) -> Fetched:
        """Returns the whole answer, whatever its status. Raises `OutboundError` for a body above `max_bytes` (None: the client's
        own limit), compressed or decompressed, and for a successful answer of another content type than `types`.

        `types`: content types such as `text/html`, `text/*` and `application/*+json`; None: any. An answer without a type is
        read. `before_large`: awaited once, before a body above 256 KiB is read further.
        """
        options = {"Accept-Encoding": ENCODINGS, **(headers or {})}
        async with self.open(url, method=method, headers=options, body=body, decompress=False) as response:
            if types is not None and response.ok:
                _check_type(response, types)
            most = self._max_bytes if max_bytes is None else max_bytes
            content = await read_decoded(response, most, before_large=before_large)
            return Fetched(
                url=str(response.url),
                status=response.status,
                headers={name.lower(): value for name, value in response.headers.items()},
                body=content,
            )

    @asynccontextmanager
    async def open(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        decompress: bool = True,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yields the answer after all redirects, to be read as a stream. It is closed at the end of the `async with` block, which
        has to end within the client's time. `decompress`: True if aiohttp decompresses the stream."""
        target = _first_target(url, self._reach)
        response: aiohttp.ClientResponse | None = None
        try:
            async with asyncio.timeout(self._seconds):
                response = await self._follow(method, target, dict(headers or {}), body, decompress=decompress)
                yield response
        except TimeoutError as error:
            what = "answer" if response is None else "finish its answer"
            raise refused("time", f"{shown(target)} did not {what} in time, within {self._seconds:g} s") from error
        except aiohttp.ClientError as error:
            raise OutboundError(f"{shown(target)} broke off its answer: {error}") from error
        finally:
            if response is not None:
                response.close()

    async def _follow(
        self, method: str, target: URL, headers: dict[str, str], body: bytes | None, *, decompress: bool
    ) -> aiohttp.ClientResponse:
        """Sends the request and follows its redirects, each of which is checked."""
        for hop in range(self._max_redirects + 1):
            try:
                response = await self._send(method, target, headers, body, decompress=decompress)
            except OutboundError as error:
                error.unanswered = hop == 0 and _never_connected(error.__cause__)
                raise
            location = redirect_target(response)
            if location is None:
                return response
            response.close()
            source, target = target, checked_redirect(target, location, self._reach)
            if origin_of(source) != origin_of(target):
                headers = {name: value for name, value in headers.items() if name.lower() in _SAFE_ACROSS_HOSTS}
            if response.status == 303 or (response.status in (301, 302) and method == "POST"):
                method, body = "GET", None
        raise refused(
            "redirects", f"{shown(target)}: more than {self._max_redirects} redirects; the last is not followed"
        )

    async def _send(
        self, method: str, target: URL, headers: Mapping[str, str], body: bytes | None, *, decompress: bool
    ) -> aiohttp.ClientResponse:
        session = self._private if self._reach.is_private_host(target) else self._public
        assert session is not None
        try:
            return await session.request(
                method, target, headers=headers, data=body, allow_redirects=False, auto_decompress=decompress
            )
        except TimeoutError:
            raise
        except _FAILURES as error:
            reason = f"{shown(target)} cannot be fetched: {_plain_reason(error)}"
            is_refused = _never_connected(error) and _NOT_PUBLIC in reason
            raise (refused("address", reason) if is_refused else OutboundError(reason)) from error


def _first_target(url: str, reach: Reach) -> URL:
    """Returns the URL if it may be fetched. Raises `OutboundError`."""
    try:
        return checked_url(url, reach)
    except OutboundError as error:
        error.unanswered = True
        raise


def _never_connected(error: BaseException | None) -> bool:
    """Returns True if no server has sent anything before this error. The error of a TLS handshake may quote a certificate."""
    return isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError)


def _plain_reason(error: Exception) -> str:
    """Returns the reason of a failure in words for a reader who does not know aiohttp."""
    return connection_reason(error) or str(error)[:1_000] or type(error).__name__


def connection_reason(error: Exception) -> str:
    """Returns the reason why no server was reached, in words for a reader who does not know aiohttp; of an address, they have at
    most host and port. Empty: a server was reached."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the name {error.host} cannot be looked up: {error.os_error.strerror or error.os_error}"
    if not _never_connected(error) or not isinstance(error, aiohttp.ClientConnectorError):
        return ""
    if error.os_error.errno == errno.ECONNREFUSED:
        return f"nothing answers at port {error.port} of {error.host}"
    return _ERROR_NUMBER.sub("", str(error.os_error))[:1_000]


def guarded_client(
    *,
    seconds: float = 30.0,
    max_redirects: int = 5,
    max_bytes: int = 10 * MEGABYTE,
    reach: Reach = ANYWHERE_PUBLIC,
    resolver: AbstractResolver | None = None,
    open_socket: OpenSocket | None = None,
    tls: ssl.SSLContext | None = None,
) -> GuardedClient:
    """Returns a client for addresses from a model, a document or a remote server. It must be called inside a running event loop.

    `seconds` limits the time of a request with all its redirects and its whole answer. `reach` says where the client may go.
    `resolver` replaces the system's name resolver. `open_socket` makes the socket after its address has passed the check, to bind
    it or to observe it in a test. `tls` has the certificates that are trusted; None: those of the system. None of them can make
    more addresses reachable.
    """
    make = open_socket or _plain_socket

    def public_socket(address: AddressInfo) -> socket.socket:
        reason = why_not_public(address[4][0])
        if reason is not None:
            raise OSError(errno.EACCES, f"the address {address[4][0]} {_NOT_PUBLIC}: {reason}")
        return make(address)

    def private_socket(address: AddressInfo) -> socket.socket:
        host, port = address[4][:2]
        if not reach.may_open(host, port):
            raise OSError(errno.EACCES, f"the address {host} {_NOT_PUBLIC}, and port {port} of it is not named")
        return make(address)

    private = None
    if reach.private_hosts:
        private = _session(private_socket, _PrivateNames(reach, resolver or aiohttp.ThreadedResolver()), tls)
    return GuardedClient(
        _session(public_socket, resolver, tls),
        private,
        reach=reach,
        seconds=seconds,
        max_redirects=max_redirects,
        max_bytes=max_bytes,
    )


def media_type(header: str) -> str:
    """Returns the type in the header Content-Type in lower case, without its parameters."""
    return header.partition(";")[0].strip().lower()


def _check_type(response: aiohttp.ClientResponse, types: Sequence[str]) -> None:
    media = media_type(response.headers.get("Content-Type", ""))
    if media and not any(_is_type(media, accepted) for accepted in types):
        response.close()
        raise refused(
            "types", f"{shown(response.url)} is of type {media[:80]!r}, which is not read; read are {', '.join(types)}"
        )


def _is_type(media: str, accepted: str) -> bool:
    first, _, last = accepted.partition("*")
    return media.startswith(first) and media.endswith(last) if "*" in accepted else media == accepted


def _session(
    open_socket: OpenSocket, resolver: AbstractResolver | None, tls: ssl.SSLContext | None
) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=resolver, socket_factory=open_socket, ssl=True if tls is None else tls),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        headers={"User-Agent": USER_AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
        response_class=_Answer,
        trust_env=False,
    )


class _Answer(aiohttp.ClientResponse):
    """An answer before which a server may send a few interim ones (100 Continue). aiohttp reads any number of them, one after the
    other without a turn of the event loop."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        protocol = connection.protocol
        assert protocol is not None
        read, left = protocol.read, _MOST_INTERIM

        async def counted() -> tuple[RawResponseMessage, aiohttp.StreamReader]:
            nonlocal left
            left -= 1
            if left < 0:
                raise aiohttp.ClientPayloadError(f"it sent more than {_MOST_INTERIM} interim answers")
            return await read()

        protocol.read = counted  # type: ignore[method-assign]
        try:
            return await super().start(connection)
        finally:
            protocol.read = read  # type: ignore[method-assign]


class _PrivateNames(AbstractResolver):
    """Looks up the names of the private hosts, and no other name."""

    def __init__(self, reach: Reach, inner: AbstractResolver) -> None:
        self._reach = reach
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if not self._reach.may_look_up(host):
            raise OSError(errno.EACCES, f"{host} is not named as a private host")
        return await self._inner.resolve(host, port, family)

    async def close(self) -> None:
        await self._inner.close()


def _plain_socket(address: AddressInfo) -> socket.socket:
    return socket.socket(family=address[0], type=address[1], proto=address[2])
