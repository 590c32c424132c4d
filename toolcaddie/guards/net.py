"""The two ways out: to addresses an operator wrote down, and to addresses a model, a document or a remote server named.

The second kind is fenced where it cannot be talked around: at the socket, on the address that is really connected to.
Whatever a URL, a name server or a redirect says before that only makes the error come earlier and read better.
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
"""An address as `socket.getaddrinfo` gives it: family, type, protocol, canonical name, socket address."""

OpenSocket = Callable[[AddressInfo], socket.socket]

CONNECT_SECONDS = 10.0
MEGABYTE = 1024 * 1024
USER_AGENT = "toolcaddie"

PROOFS = frozenset({"authorization", "api-key", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key"})
"""Headers that prove who somebody is, in lower case: they go to whom they were given for, and are not kept."""

_FAILURES = (aiohttp.ClientError, OSError, ValueError, RuntimeError)
"""Errors a request may end with. ValueError: a name that cannot even be looked up; RuntimeError: one without any address."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAFE_ACROSS_HOSTS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Everything else may be a credential under some name, so a redirect to another origin loses it."""


# ---------------------------------------------------------------- addresses from settings and flags


def operator_client(
    *, seconds: float | None = 300.0, headers: Mapping[str, str] | None = None
) -> aiohttp.ClientSession:
    """A session for addresses the operator chose: any address, also this machine's.

    `seconds` bounds a whole exchange. No proxy is taken from the environment, no cookie is kept, and a redirect is followed
    only where it stays on its host: one to another host raises `OutboundError` naming both, because the key in the headers
    is meant for the first alone. To be made inside a running loop.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),  # the door bounds how much runs at once; a queue here would hide it
        timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS),
        headers={"User-Agent": USER_AGENT, **(headers or {})},
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        middlewares=(_stay_on_host,),
    )


async def _stay_on_host(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    response = await send(request)
    target = _redirect_target(response)
    if target is not None and not _same_host(request.url, target):
        response.close()
        raise OutboundError(
            f"{_shown(request.url)} redirects to another host, {_shown(target)}, which is not followed; "
            "if it is meant, set that address instead"
        )
    return response


def _same_host(here: URL, there: URL) -> bool:
    """The same origin, or the same host over TLS from now on."""
    upgrade = here.host == there.host and here.scheme == "http" and there.scheme == "https" and there.port == 443
    return _origin(here) == _origin(there) or upgrade


async def read_capped(response: aiohttp.ClientResponse, limit: int, *, setting: str = "") -> bytes:
    """The whole body, decompressed. Raises `OutboundError` as soon as it is larger than `limit` bytes; `setting` says where
    that is set."""
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
    named = f" (setting {setting})" if setting else ""
    return OutboundError(
        f"the answer of {_shown(response.url)} is larger than the {limit:,} bytes allowed for it{named}"
    )


# ---------------------------------------------------------------- addresses from anybody else


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A whole answer. `url` is where it came from in the end; header names are in lower case."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class GuardedClient:
    """Reaches public http(s) addresses and nothing else, whatever the URL, the name server or a redirect says.

    async with guarded_client() as client:
        page = await client.fetch("https://example.com/")

    Every failure is an `OutboundError`. No cookies, no proxies from the environment; headers other than the harmless ones
    go to the first origin only.
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
        """The whole answer, whatever its status, if it is not larger than `max_bytes` (None: the client's own limit)."""
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
        """The answer after all redirects, for callers who read it as it comes; closed at the end of the block."""
        target = checked_url(url)
        response = await self._follow(method, target, dict(headers or {}), body)
        try:
            yield response
        except TimeoutError as error:
            raise OutboundError(f"{_shown(target)} did not finish its answer in time") from error
        except aiohttp.ClientError as error:
            raise OutboundError(f"{_shown(target)} broke off its answer: {error}") from error
        finally:
            response.close()

    async def _follow(
        self, method: str, target: URL, headers: dict[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        for _ in range(self._max_redirects + 1):
            response = await self._send(method, target, headers, body)
            there = _redirect_target(response)
            if there is None:
                return response
            response.close()
            here, target = target, _checked_redirect(target, there)
            if _origin(here) != _origin(target):
                headers = {name: value for name, value in headers.items() if name.lower() in _SAFE_ACROSS_HOSTS}
            if response.status == 303 or (response.status in (301, 302) and method == "POST"):
                method, body = "GET", None
        raise OutboundError(f"{_shown(target)}: more than {self._max_redirects} redirects; the last is not followed")

    async def _send(
        self, method: str, target: URL, headers: Mapping[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        try:
            return await self._session.request(method, target, headers=headers, data=body, allow_redirects=False)
        except TimeoutError as error:
            raise OutboundError(f"{_shown(target)} did not answer in time") from error
        except _FAILURES as error:
            raise OutboundError(f"{_shown(target)} cannot be fetched: {error or type(error).__name__}") from error


def guarded_client(
    *,
    seconds: float = 30.0,
    max_redirects: int = 5,
    max_bytes: int = 10 * MEGABYTE,
    resolver: AbstractResolver | None = None,
    open_socket: OpenSocket | None = None,
) -> GuardedClient:
    """A client for addresses that came from a model, a document or a remote server. To be made inside a running loop.

    `seconds` bounds one exchange of the redirect chain. `resolver` replaces the system's; `open_socket` makes the socket
    once its address has passed (to bind it, or to watch it in a test). Neither can widen what is reachable.
    """
    make = open_socket or _plain_socket

    def checked_socket(address: AddressInfo) -> socket.socket:
        why = why_not_public(address[4][0])
        if why is not None:
            raise OSError(errno.EACCES, f"the address {address[4][0]} is not public: {why}")
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
    """The URL in `text`, if it is one we would go to: http(s), a host, nothing that different readers read differently.

    Raises `OutboundError`. A literal address is judged here already; a name is judged when it is connected to.
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
    if url.scheme not in ("http", "https"):
        raise OutboundError(
            f"{_shown(url)}: only http and https are fetched, not {url.scheme or 'a URL without scheme'!r}"
        )
    host = (url.host or "").rstrip(".")
    if not host:
        raise OutboundError(f"{_shown(url)}: the URL names no host")
    why = _why_not_host(host)
    if why is not None:
        raise OutboundError(f"{_shown(url)} is not fetched: {why}")
    return url


def _checked_redirect(here: URL, there: URL) -> URL:
    """A URL reads some of its parts only when they are asked for, and raises then."""
    try:
        return _checked(there)
    except ValueError as error:
        raise OutboundError(f"{_shown(here)} redirects to something that is not a URL: {error}") from error


def _why_not_host(host: str) -> str | None:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        if _ENDS_IN_A_NUMBER.search(host):
            return (
                f"{host!r} is an address in a spelling that programs read differently; write it as four decimal numbers"
            )
        return "a host holds no percent sign" if "%" in host else None
    why = why_not_public(host)
    return why and f"the address {host} is not public: {why}"


def _redirect_target(response: aiohttp.ClientResponse) -> URL | None:
    """Target of a redirect; None if it is none."""
    location = response.headers.get("Location")
    if response.status not in _REDIRECTS or location is None:
        return None
    location = location.strip()
    if _UNPRINTABLE.search(location) or "\\" in location:
        response.close()
        raise OutboundError(f"{_shown(response.url)} redirects to {location!r}, which is not a URL")
    try:
        return response.url.join(URL(location))
    except ValueError as error:
        response.close()
        raise OutboundError(f"{_shown(response.url)} redirects to {location!r}, which is not a URL: {error}") from error


def _origin(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.host, url.port


def _shown(url: URL) -> str:
    """The URL as an error may show it: without credentials and without the query, which often holds one."""
    return str(url.with_user(None).with_query(None).with_fragment(None)) if url.absolute else str(url)


# ---------------------------------------------------------------- addresses


def why_not_public(address: str) -> str | None:
    """Reason why an address is not of the public Internet; None if it is. Takes IPv4 and IPv6 as sockets write them.

    Our own table: `ipaddress.is_global` lets through what a tunnel or a cloud turns into something internal.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "it is no address at all"
    value = int(parsed)
    if isinstance(parsed, ipaddress.IPv4Address):
        return _why(value, _CLOSED_4)
    if value >> 125 != 0b001:
        return _why(value, _OUTSIDE_6) or "outside 2000::/3, the public part of IPv6"
    if (value >> 32) & 0xFFFFFFFF in (0x00005EFE, 0x02005EFE):
        return "an IPv4 address in an ISATAP tunnel"
    return _why(value, _CLOSED_6)


Range = tuple[int, int, str]
"""First and last address, and what they are for."""


def _why(value: int, table: tuple[Range, ...]) -> str | None:
    return next((use for first, last, use in table if first <= value <= last), None)


def _table(text: str) -> tuple[Range, ...]:
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

_CLOSED_6 = _table(
    """
    2001::/32       Teredo tunnel
    2001::/23       protocol assignments
    2001:db8::/32   documentation
    2002::/16       6to4 tunnel
    3fff::/20       documentation
    """
)

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
"""All of this is refused anyway; the table only says what it is."""
