"""Authentication of the gateway's clients. `router` calls it before the handler of a route.

Its result is a principal: the user, bot, role and tenant in whose name a request runs.

If the gateway has API keys, a request must contain a valid one in `Authorization: Bearer`, or in the key header of the API that
the client uses (`x-api-key` in Anthropic's Messages API). A gateway that ever had keys always requires one, because revoking the
last key must not open it to everybody.

If the gateway never had keys, it serves clients on this machine, but no web pages of other sites. A browser sends the requests of
such a page to a server on this machine too, so four things are checked:

    Host            a loopback name (against DNS rebinding)
    Origin          if present, a loopback name as well (against foreign pages)
    Sec-Fetch-Site  not another site (browsers add it to every request of a page, and the page cannot change it)
    Content-Type    JSON (before a page may send it to another origin, the browser asks with an OPTIONS request, which this
                    server refuses)

A header that decides about identity or meaning may occur only once: if there were two, a proxy in front of the gateway might read
one of them and the gateway the other. For the same reason two headers with different keys are refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.storage import ApiKey
from toolcaddie.core.vocabulary import KEY_HEADERS, WireName
from toolcaddie.core.wire import Problem
from toolcaddie.doors.gateway.problems import problem
from toolcaddie.ports import KeyStore

_NETLOC = re.compile(r"(?:\[(?P<literal>[0-9a-fA-F:.]+)\]|(?P<name>[^\[\]:@/?#\s]+))(?::[0-9]*)?\Z")
"""A host with or without a port: `name:port`, `[::1]:port`, `name`."""

AUTHORIZATION = b"authorization"

_SINGLE_HEADERS = frozenset(
    {
        *(b"host", b"origin", AUTHORIZATION, b"content-type", b"content-length", b"idempotency-key"),
        *(header.encode() for header in KEY_HEADERS.values()),
    }
)
"""Headers that may occur only once in a request."""
_OWN_SITE = (None, b"none", b"same-origin")
"""Accepted values of `Sec-Fetch-Site`: None from a client that is not a browser, `none` for an address that a person typed, and
`same-origin` from a page of this server."""


def key_headers(*wires: WireName) -> tuple[bytes, ...]:
    """Returns the headers in which clients of these wires (API formats) may send an API key: `authorization`, and the key header
    of each wire."""
    return tuple(dict.fromkeys((AUTHORIZATION, *(KEY_HEADERS[wire].encode() for wire in wires))))


def repeated_header(raw: Sequence[tuple[bytes, bytes]], headers: Mapping[bytes, bytes]) -> Problem | None:
    """Returns the refusal of a request that repeats a header of `_SINGLE_HEADERS`, else None.

    `raw`: the headers as they arrived; `headers`: the same headers by name.
    """
    if len(raw) == len(headers):
        return None
    names = [name for name, _ in raw]
    repeated = next((name for name in names if name in _SINGLE_HEADERS and names.count(name) > 1), None)
    if repeated is None:
        return None
    header_name = repeated.decode()
    return problem(
        400,
        f"the header {header_name!r} came more than once; send it once",
        kind="invalid_request_error",
        param=header_name,
    )


def is_loopback(host: str) -> bool:
    """Returns True if a host name or literal means this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """The authenticated sender of a request. `key`: the API key of the gateway that it sent; None: the gateway has none."""

    principal: Principal
    key: ApiKey | None = None


class Access:
    """Authenticates requests. The key store caches its lookups for at most a second."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys

    async def check(self, headers: Mapping[bytes, bytes], *, client: str | None, has_body: bool) -> Principal | Problem:
        """Returns the principal of the sender, or the refusal. See `sender`."""
        sender = await self.sender(headers, client=client, has_body=has_body)
        return sender.principal if isinstance(sender, Sender) else sender

    async def sender(
        self,
        headers: Mapping[bytes, bytes],
        *,
        client: str | None,
        has_body: bool,
        key_headers: Collection[bytes] = (AUTHORIZATION,),
    ) -> Sender | Problem:
        """Returns the sender, or the refusal.

        `client`: the address that the request came from, if it is known. `has_body`: True if the request has a body, whose
        content type is then checked. `key_headers`: the headers that may contain the API key.
        """
        if await self.has_keys():
            return await self._by_key({name: headers[name] for name in key_headers if name in headers}, key_headers)
        kind = headers.get(b"content-type", b"") if has_body else None
        site = headers.get(b"sec-fetch-site")
        principal = _local(client, headers.get(b"host", b""), headers.get(b"origin"), site, kind)
        return principal if isinstance(principal, Problem) else Sender(principal=principal)

    async def has_keys(self) -> bool:
        """Returns True if the gateway has or had a key."""
        return await self._keys.any()

    async def _by_key(self, values: Mapping[bytes, bytes], key_headers: Collection[bytes]) -> Sender | Problem:
        """Returns the owner of the key that the request contains, or the refusal. `values` has the request's values of
        `key_headers`."""
        secrets = {secret for name, value in values.items() if (secret := _secret(name, value))}
        if not secrets:
            return _unauthorized(f"no API key was sent; send {' or '.join(map(_example, key_headers))}")
        if len(secrets) > 1:
            names = " and ".join(repr(name.decode()) for name in values)
            return problem(400, f"the headers {names} have different keys; send one", kind="invalid_request_error")
        key = await self._keys.check(secrets.pop())
        return (
            _unauthorized("the API key is unknown or revoked")
            if key is None
            else Sender(principal=key.principal, key=key)
        )


def _secret(header: bytes, value: bytes) -> str:
    """Returns the key in a header; empty if there is none."""
    text = value.decode("latin-1").strip()
    if header != AUTHORIZATION:
        return text
    scheme, _, secret = text.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _example(header: bytes) -> str:
    """Returns the header with a sample key, for an error message."""
    return "'Authorization: Bearer tc_...'" if header == AUTHORIZATION else f"'{header.decode()}: tc_...'"


@lru_cache(maxsize=64)  # a client sends the same five values with every request
def _local(
    client: str | None, host: bytes, origin: bytes | None, site: bytes | None, kind: bytes | None
) -> Principal | Problem:
    """Returns the principal of a client of a gateway without keys, or the refusal.

    `client`: the address of the client. `host`, `origin`, `site`: the headers `Host`, `Origin` and `Sec-Fetch-Site`. `kind`: the
    content type of the body; None: there is no body.
    """
    if client is not None and not is_loopback(client):
        return _forbidden(
            "this server has no API keys and serves only clients on its own machine; make a key: toolcaddie keys add NAME"
        )
    name = _host(host.decode("latin-1"))
    if not is_loopback(name):
        return _forbidden(f"the Host {name[:100]!r} is not this machine; use 127.0.0.1 or make an API key")
    if origin is not None and not is_loopback(_origin_host(origin.decode("latin-1"))):
        return _forbidden("a page from another origin may not use this server without an API key")
    if site not in _OWN_SITE:
        return _forbidden("a page of another site may not use this server without an API key (Sec-Fetch-Site)")
    if kind is not None and kind.partition(b";")[0].strip().lower() != b"application/json":
        return _forbidden("send the body as Content-Type: application/json")
    return Principal()


def _origin_host(origin: str) -> str:
    """Returns the host of an `Origin` header; empty if it is not valid."""
    try:
        return _host(urlsplit(origin).netloc)
    except ValueError:
        return ""


def _host(netloc: str) -> str:
    """Returns the host of 'name:port', '[::1]:port' or 'name'; empty for anything else, which is never a loopback name."""
    match = _NETLOC.match(netloc)
    return (match["literal"] or match["name"]) if match else ""


def _unauthorized(message: str) -> Problem:
    return problem(401, message, kind="invalid_request_error", code="invalid_api_key")


def _forbidden(message: str) -> Problem:
    return problem(403, message, kind="invalid_request_error", code="forbidden")
