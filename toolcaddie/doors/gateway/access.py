"""Who may use the gateway.

With keys: a live one in `Authorization: Bearer`. Without: only a client on this machine, and only one that is not a web
page somewhere else. A browser would send a page's requests to a loopback server too; so the Host must be a loopback name
(against rebound DNS names), an Origin, if there is one, as well (against foreign pages), and a body must be JSON (which a
page cannot send across origins without asking first).
"""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from toolcaddie.doors.gateway.problems import Problem, problem
from toolcaddie.ports import KeyStore
from toolcaddie.run import Principal

_FRESH = 1.0
"""Seconds a look-up of keys is believed: a revoked key works at most this much longer."""
_REMEMBERED = 1_000


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether a host name or literal means this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Access:
    """Decides for each request; looks keys up at most once a second each."""

    def __init__(self, keys: KeyStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self._any: tuple[float, bool] | None = None
        self._seen: OrderedDict[bytes, tuple[float, Principal | None]] = OrderedDict()

    async def check(self, headers: Mapping[bytes, bytes], *, client: str | None, has_body: bool) -> Principal | Problem:
        """The principal, or the answer that refuses."""
        if await self.has_keys():
            return await self._by_key(headers.get(b"authorization", b""))
        return _local(headers, client, has_body)

    async def has_keys(self) -> bool:
        now = self._clock()
        if self._any is None or now - self._any[0] > _FRESH:
            self._any = (now, await self._keys.any())
        return self._any[1]

    async def _by_key(self, header: bytes) -> Principal | Problem:
        scheme, _, secret = header.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            return _unauthorized("no API key was given; send 'Authorization: Bearer tc_...'")
        principal = await self._principal(secret.strip())
        if principal is None:
            return _unauthorized("the API key is unknown or revoked")
        return principal

    async def _principal(self, secret: str) -> Principal | None:
        now, known = self._clock(), hashlib.sha256(secret.encode()).digest()
        at, principal = self._seen.get(known, (float("-inf"), None))
        if now - at <= _FRESH:
            return principal
        key = await self._keys.check(secret)
        principal = None if key is None else key.principal
        self._seen[known] = (now, principal)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return principal


def _local(headers: Mapping[bytes, bytes], client: str | None, has_body: bool) -> Principal | Problem:
    if client is not None and not is_loopback(client):
        return _forbidden(
            "this server has no API keys and answers only its own machine; make one: toolcaddie keys add NAME"
        )
    host = _host(headers.get(b"host", b"").decode("latin-1"))
    if not is_loopback(host):
        return _forbidden(f"the Host {host[:100]!r} is not this machine; use 127.0.0.1 or make an API key")
    origin = headers.get(b"origin")
    if origin is not None and not is_loopback(_host(urlsplit(origin.decode("latin-1")).netloc)):
        return _forbidden("a page from another origin may not use this server without an API key")
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if has_body and kind != b"application/json":
        return _forbidden("send the body as Content-Type: application/json")
    return Principal()


def _host(netloc: str) -> str:
    """The host of 'name:port', '[::1]:port' or 'name'."""
    if netloc.startswith("["):
        return netloc.partition("]")[0][1:]
    return netloc.rpartition("@")[2].partition(":")[0]


def _unauthorized(message: str) -> Problem:
    return problem(401, message, kind="invalid_request_error", code="invalid_api_key")


def _forbidden(message: str) -> Problem:
    return problem(403, message, kind="invalid_request_error", code="forbidden")
