"""Who may use the gateway.

With keys: a live one in `Authorization: Bearer`. A server that ever had keys stays so: revoking the last one must not open
the door. Without: only a client on this machine, and only one that is not a web page somewhere else. A browser would send a
page's requests to a loopback server too; so the Host must be a loopback name (against rebound DNS names), an Origin, if
there is one, as well (against foreign pages), and a body must be JSON (which a page cannot send across origins without
asking first).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from toolcaddie.doors.gateway.problems import Problem, problem
from toolcaddie.ports import KeyStore
from toolcaddie.run import Principal

_NETLOC = re.compile(r"(?:\[(?P<literal>[0-9a-fA-F:.]+)\]|(?P<name>[^\[\]:@/?#\s]+))(?::[0-9]*)?\Z")


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
    """Decides for each request. The key store remembers what it looked up, for a second at most."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys

    async def check(self, headers: Mapping[bytes, bytes], *, client: str | None, has_body: bool) -> Principal | Problem:
        """The principal, or the answer that refuses."""
        if await self.has_keys():
            return await self._by_key(headers.get(b"authorization", b""))
        kind = headers.get(b"content-type", b"") if has_body else None
        return _local(client, headers.get(b"host", b""), headers.get(b"origin"), kind)

    async def has_keys(self) -> bool:
        return await self._keys.any()

    async def _by_key(self, header: bytes) -> Principal | Problem:
        scheme, _, secret = header.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            return _unauthorized("no API key was given; send 'Authorization: Bearer tc_...'")
        key = await self._keys.check(secret.strip())
        return _unauthorized("the API key is unknown or revoked") if key is None else key.principal


@lru_cache(maxsize=64)  # a client asks again and again with the same four
def _local(client: str | None, host: bytes, origin: bytes | None, kind: bytes | None) -> Principal | Problem:
    """`kind`: the content type of the body, if there is one."""
    if client is not None and not is_loopback(client):
        return _forbidden(
            "this server has no API keys and answers only its own machine; make one: toolcaddie keys add NAME"
        )
    name = _host(host.decode("latin-1"))
    if not is_loopback(name):
        return _forbidden(f"the Host {name[:100]!r} is not this machine; use 127.0.0.1 or make an API key")
    if origin is not None and not is_loopback(_origin_host(origin.decode("latin-1"))):
        return _forbidden("a page from another origin may not use this server without an API key")
    if kind is not None and kind.partition(b";")[0].strip().lower() != b"application/json":
        return _forbidden("send the body as Content-Type: application/json")
    return Principal()


def _origin_host(origin: str) -> str:
    try:
        return _host(urlsplit(origin).netloc)
    except ValueError:
        return ""


def _host(netloc: str) -> str:
    """The host of 'name:port', '[::1]:port' or 'name'; empty for anything else, which is nobody's loopback."""
    found = _NETLOC.match(netloc)
    return (found["literal"] or found["name"]) if found else ""


def _unauthorized(message: str) -> Problem:
    return problem(401, message, kind="invalid_request_error", code="invalid_api_key")


def _forbidden(message: str) -> Problem:
    return problem(403, message, kind="invalid_request_error", code="forbidden")
