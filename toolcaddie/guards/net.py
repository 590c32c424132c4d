"""Two clients for outgoing HTTP requests. `operator_client` is for addresses that the operator of this program has set;
`guarded_client` is for addresses from anyone else, such as a model, a document or a remote server.

The guarded client reaches only the public Internet. It checks the IP address for which a socket is about to be opened, so that no
spelling of a URL, no name server and no redirect can get around the check. Earlier checks of URLs and redirects only give
earlier and clearer errors.
"""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from toolcaddie.core.errors import OutboundError

AddressInfo = tuple[
    int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]
]
"""An address as `socket.getaddrinfo` returns it: family, type, protocol, canonical name, socket address."""

OpenSocket = Callable[[AddressInfo], socket.socket]

CONNECT_SECONDS = 10.0
MEGABYTE = 1024 * 1024
USER_AGENT = "toolcaddie"

_FAILURES = (aiohttp.ClientError, OSError, ValueError, RuntimeError)
"""Errors with which a request may end. `ValueError`: the host name cannot be looked up; `RuntimeError`: it has no address."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAFE_ACROSS_HOSTS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Headers that are sent again after a redirect to another origin. Any other header may contain a credential."""


# ---------------------------------------------------------------- addresses from settings and flags


def operator_client(
    *, seconds: float | None = 300.0, headers: Mapping[str, str] | None = None
) -> aiohttp.ClientSession:
    """Returns a session for addresses set by the operator: any address is allowed, also one of this machine.

    `seconds` limits the time of a whole request with its answer. Proxies of the environment are ignored, and cookies are not
    stored. A redirect is followed only on the same host. A redirect to another host raises `OutboundError` naming both hosts,
    because the key in the headers is meant for the first host alone. The function must be called inside a running event loop.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0
        ),  # the gateway limits concurrent requests; requests that wait in this client would be hidden from it
        timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS),
        headers={"User-Agent": USER_AGENT, **(headers or {})},
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        middlewares=(_stay_on_host,),
    )


async def _stay_on_host(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Sends a request. Raises `OutboundError` for a redirect to another host."""
    response = await send(request)
    target = _redirect_target(response)
    if target is not None and not _same_host(request.url, target):
        response.close()
        raise OutboundError(
            f"{_safe(request.url)} redirects to another host, {_safe(target)}, which is not followed; "
            "if that host is the right one, set its address instead"
        )
    return response


def _same_host(source: URL, target: URL) -> bool:
    """Returns True for the same origin, or for a change of the same host from http to https."""
    upgrade = source.host == target.host and (source.scheme, target.scheme, target.port) == ("http", "https", 443)
    return _origin(source) == _origin(target) or upgrade


async def read_capped(response: aiohttp.ClientResponse, limit: int, *, setting: str = "") -> bytes:
    """Returns the whole body, decompressed. Raises `OutboundError` as soon as it exceeds `limit` bytes.

    `setting`: the name of the setting of this limit, for the error message.
    """
    declared = response.content_length
    if declared is not None and declared > limit:
        response.close()
        raise _too_large(response, limit, setting)
    pieces = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > limit:
            response.close()
            raise _too_large(response, limit, setting)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(response: aiohttp.ClientResponse, limit: int, setting: str) -> OutboundError:
    note = f" (setting {setting})" if setting else ""
    return OutboundError(f"the answer of {_safe(response.url)} is larger than the {limit:,} bytes allowed for it{note}")


# ---------------------------------------------------------------- addresses from anyone else


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A whole answer. `url` is the address after all redirects; header names are in lower case."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class GuardedClient:
    """Sends http(s) requests to public addresses only.

    async with guarded_client() as client:
        page = await client.fetch("https://example.com/")

    Every failure is an `OutboundError`. Cookies are not stored, and proxies of the environment are ignored. Headers that may
    contain credentials are sent to the first origin only, and not after a redirect to another.
    """

    def __init__(self, session: aiohttp.ClientSession, *, max_redirects: int, max_bytes: int) -> None:
        self._session = session
        self._max_redirects = max_redirects
        self._max_bytes = max_bytes

    async def __aenter__(self) -> GuardedClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        max_bytes: int | None = None,
    ) -> Fetched:
        """Returns the whole answer, whatever its status. Raises `OutboundError` for a body above `max_bytes` (None: the client's
        own limit)."""
        async with self.open(url, method=method, headers=headers, body=body) as response:
            content = await read_capped(response, self._max_bytes if max_bytes is None else max_bytes)
            return Fetched(
                url=str(response.url),
                status=response.status,
                headers={name.lower(): value for name, value in response.headers.items()},
                body=content,
            )

    @asynccontextmanager
    async def open(
        self, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yields the answer after all redirects, to be read as a stream. It is closed at the end of the `async with` block."""
        target = checked_url(url)
        response = await self._follow(method, target, dict(headers or {}), body)
        try:
            yield response
        except TimeoutError as error:
            raise OutboundError(f"{_safe(target)} did not finish its answer in time") from error
        except aiohttp.ClientError as error:
            raise OutboundError(f"{_safe(target)} broke off its answer: {error}") from error
        finally:
            response.close()

    async def _follow(
        self, method: str, target: URL, headers: dict[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        """Sends the request and follows its redirects, each of which is checked."""
        for _ in range(self._max_redirects + 1):
            response = await self._send(method, target, headers, body)
            location = _redirect_target(response)
            if location is None:
                return response
            response.close()
            source, target = target, _checked_redirect(target, location)
            if _origin(source) != _origin(target):
                headers = {name: value for name, value in headers.items() if name.lower() in _SAFE_ACROSS_HOSTS}
            if response.status == 303 or (response.status in (301, 302) and method == "POST"):
                method, body = "GET", None
        raise OutboundError(f"{_safe(target)}: more than {self._max_redirects} redirects; the last is not followed")

    async def _send(
        self, method: str, target: URL, headers: Mapping[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        try:
            return await self._session.request(method, target, headers=headers, data=body, allow_redirects=False)
        except TimeoutError as error:
            raise OutboundError(f"{_safe(target)} did not answer in time") from error
        except _FAILURES as error:
            raise OutboundError(f"{_safe(target)} cannot be fetched: {error or type(error).__name__}") from error


def guarded_client(
    *,
    seconds: float = 30.0,
    max_redirects: int = 5,
    max_bytes: int = 10 * MEGABYTE,
    resolver: AbstractResolver | None = None,
    open_socket: OpenSocket | None = None,
) -> GuardedClient:
    """Returns a client for addresses from a model, a document or a remote server. It must be called inside a running event loop.

    `seconds` limits the time of each request of a chain of redirects. `resolver` replaces the system's name resolver.
    `open_socket` makes the socket after its address has passed the check, to bind it or to observe it in a test. Neither can make
    more addresses reachable.
    """
    make = open_socket or _plain_socket

    def checked_socket(address: AddressInfo) -> socket.socket:
        reason = why_not_public(address[4][0])
        if reason is not None:
            raise OSError(errno.EACCES, f"the address {address[4][0]} is not public: {reason}")
        return make(address)

    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=resolver, socket_factory=checked_socket),
        timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS),
        headers={"User-Agent": USER_AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )
    return GuardedClient(session, max_redirects=max_redirects, max_bytes=max_bytes)


def _plain_socket(address: AddressInfo) -> socket.socket:
    return socket.socket(family=address[0], type=address[1], proto=address[2])


# ---------------------------------------------------------------- URLs


_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\xa0\ud800-\udfff]")
_ENDS_IN_A_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)\Z")


def checked_url(text: str) -> URL:
    """Parses a URL that may be fetched: it uses http(s), has a host, and is understood by all parsers alike.

    Raises `OutboundError` for any other URL. An IP address in the URL is checked at once; the address of a host name is checked
    when the connection is opened.
    """
    text = text.strip()
    if _UNPRINTABLE.search(text) or "\\" in re.split(r"[?#]", text, maxsplit=1)[0]:
        raise OutboundError(
            f"{text!r} is not a URL: spaces, control characters and backslashes must be percent-encoded"
        )
    try:
        return _checked(URL(text))
    except ValueError as error:
        raise OutboundError(f"{text!r} is not a URL: {error}") from error


def _checked(url: URL) -> URL:
    """Returns a URL that may be fetched. Raises `OutboundError` for any other."""
    if url.scheme not in ("http", "https"):
        raise OutboundError(
            f"{_safe(url)}: only http and https are fetched, not {url.scheme or 'a URL without scheme'!r}"
        )
    host = (url.host or "").rstrip(".")
    if not host:
        raise OutboundError(f"{_safe(url)}: the URL names no host")
    reason = _why_not_host(host)
    if reason is not None:
        raise OutboundError(f"{_safe(url)} is not fetched: {reason}")
    return url


def _checked_redirect(source: URL, target: URL) -> URL:
    """Returns the target of a redirect if it may be fetched, else raises `OutboundError`. A `URL` parses some of its parts only
    when they are read, and raises `ValueError` then."""
    try:
        return _checked(target)
    except ValueError as error:
        raise OutboundError(f"{_safe(source)} redirects to something that is not a URL: {error}") from error


def _why_not_host(host: str) -> str | None:
    """Returns the reason why nothing is fetched from a host; None: the host name or address is allowed."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        if _ENDS_IN_A_NUMBER.search(host):
            return f"{host!r} is an IP address in a spelling that not all programs read alike; write it as four decimal numbers"
        return "a host name may not contain a percent sign" if "%" in host else None
    reason = why_not_public(host)
    return reason and f"the address {host} is not public: {reason}"


def _redirect_target(response: aiohttp.ClientResponse) -> URL | None:
    """Returns the target of a redirect; None: the answer is no redirect."""
    location = response.headers.get("Location")
    if response.status not in _REDIRECTS or location is None:
        return None
    location = location.strip()
    if _UNPRINTABLE.search(location) or "\\" in location:
        response.close()
        raise OutboundError(f"{_safe(response.url)} redirects to {location!r}, which is not a URL")
    try:
        return response.url.join(URL(location))
    except ValueError as error:
        response.close()
        raise OutboundError(f"{_safe(response.url)} redirects to {location!r}, which is not a URL: {error}") from error


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.host, url.port


def _safe(url: URL) -> str:
    """Returns the URL for an error message, without user name and password, and without the query, which often contains a key."""
    return str(url.with_user(None).with_query(None).with_fragment(None)) if url.absolute else str(url)


# ---------------------------------------------------------------- addresses


def why_not_public(address: str) -> str | None:
    """Returns the reason why an address is not part of the public Internet; None: it is public.

    `address` is an IPv4 or IPv6 address as sockets write it. It is compared with the tables below and not with
    `ipaddress.is_global`, which accepts addresses that a tunnel or a cloud maps to internal ones.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "it is not an IP address"
    value = int(parsed)
    if isinstance(parsed, ipaddress.IPv4Address):
        return _range_use(value, _CLOSED_4)
    if value >> 125 != 0b001:
        return _range_use(value, _OUTSIDE_6) or "outside 2000::/3, the public part of IPv6"
    if (value >> 32) & 0xFFFFFFFF in (0x00005EFE, 0x02005EFE):
        return "an IPv4 address in an ISATAP tunnel"
    return _range_use(value, _CLOSED_6)


Range = tuple[int, int, str]
"""First and last address, and their use."""


def _range_use(value: int, table: tuple[Range, ...]) -> str | None:
    """Returns the use of the first range that contains the address; None: no range of the table contains it."""
    return next((use for first, last, use in table if first <= value <= last), None)


def _table(text: str) -> tuple[Range, ...]:
    """Returns the ranges of a table with a network and its use in each line."""
    ranges = []
    for line in text.strip().splitlines():
        network, use = line.split(maxsplit=1)
        parsed = ipaddress.ip_network(network)
        ranges.append((int(parsed.network_address), int(parsed.broadcast_address), use))
    return tuple(ranges)


_CLOSED_4 = _table(
    """
    0.0.0.0/8          this network
    10.0.0.0/8         private
    100.64.0.0/10      carrier-grade NAT
    127.0.0.0/8        loopback
    168.63.129.16/32   Azure's host service
    169.254.0.0/16     link-local, cloud metadata
    172.16.0.0/12      private
    192.0.0.0/24       protocol assignments, cloud metadata
    192.0.2.0/24       documentation
    192.88.99.0/24     6to4 relay
    192.168.0.0/16     private
    198.18.0.0/15      benchmarking
    198.51.100.0/24    documentation
    203.0.113.0/24     documentation
    224.0.0.0/4        multicast
    240.0.0.0/4        reserved, broadcast
    """
)
"""IPv4 addresses that are refused."""

_CLOSED_6 = _table(
    """
    2001::/32       Teredo tunnel
    2001::/23       protocol assignments
    2001:db8::/32   documentation
    2002::/16       6to4 tunnel
    3fff::/20       documentation
    """
)
"""Addresses within the public part of IPv6 that are refused."""

_OUTSIDE_6 = _table(
    """
    ::/128            unspecified
    ::1/128           loopback
    ::ffff:0:0/96     an IPv4 address in IPv6
    ::ffff:0:0:0/96   an IPv4 address in IPv6
    ::/96             an IPv4 address in IPv6
    64:ff9b::/96      NAT64, an IPv4 address behind a translator
    64:ff9b:1::/48    NAT64, an IPv4 address behind a translator
    100::/64          discard
    fc00::/7          unique local
    fe80::/10         link-local
    fec0::/10         site-local
    ff00::/8          multicast
    """
)
"""Addresses outside the public part of IPv6. All such addresses are refused; the table only names the use of some."""
