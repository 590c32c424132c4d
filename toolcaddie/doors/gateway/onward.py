"""Headers that are forwarded to the upstream, and headers that are returned to the client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.ports import RawResponse

_RETURNED_HEADERS = frozenset(
    b"age cache-control content-language content-length content-type deprecation etag expires last-modified pragma "
    b"request-id retry-after retry-after-ms server-timing sunset vary warning".split()
)
"""Headers of HTTP itself that are returned. The others address a browser, a proxy or the connection, and would apply to this
server's origin (`set-cookie`, `access-control-*`, `strict-transport-security`, `alt-svc`, `clear-site-data`, `refresh`,
`location`, `link`, `content-security-policy`, `www-authenticate`, `connection`, `transfer-encoding`, `server`)."""

_VENDORS = (b"openai-", b"anthropic-", b"apim-", b"azureml-", b"cf-", b"fireworks-", b"llm_provider-", b"ratelimit")
"""Prefixes of the headers of model providers and their front ends."""

_BLOCKED_PREFIXES = (
    b"x-toolcaddie-",  # ours: an upstream must not speak for the gateway
    *(b"x-accel-", b"x-sendfile", b"x-lighttpd-", b"x-litespeed-"),  # a proxy in front would serve its own files
    *(b"x-frame-options", b"x-xss-protection", b"x-content-", b"x-permitted-", b"x-dns-prefetch-", b"x-ua-compatible"),
    b"x-powered-by",
)
"""Prefixes of `x-` headers that a browser or proxy acts on; other `x-` headers are a vendor's own and are returned."""

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that could begin another header, or end the headers."""
_FORWARDED_HEADERS = (b"openai-organization", b"openai-project", b"openai-beta", b"x-request-id")
_FORWARDED_ONCE = (*_FORWARDED_HEADERS, b"idempotency-key")
"""Headers for a request that becomes exactly one upstream request; a run sends several different ones."""
_OUR_KEY = "tc_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Onward:
    """Filter of a client's headers for the upstream. `own_key`: the upstream is asked with a key of ours."""

    own_key: bool

    def headers(self, client_headers: Mapping[bytes, bytes], *, keyed: bool, once: bool = False) -> dict[str, str]:
        """Returns the headers to forward. The client's Authorization is among them only if neither side of the gateway has a
        key of ours.

        `keyed`: it is a key of the gateway. `once`: the request becomes exactly one upstream request.
        """
        names = _FORWARDED_ONCE if once else _FORWARDED_HEADERS
        forwarded = {name.decode(): client_headers[name].decode("latin-1") for name in names if name in client_headers}
        authorization = client_headers.get(b"authorization", b"").decode("latin-1")
        if authorization and not keyed and not self.own_key and _OUR_KEY not in authorization:
            forwarded["authorization"] = authorization
        return forwarded


def upstream_status(response: RawResponse) -> int:
    """Returns the upstream's status if it is a final one. Raises `ProviderProtocolError` for others."""
    if not 200 <= response.status <= 599:
        raise ProviderProtocolError(
            f"the upstream answered with the status {response.status}, which HTTP does not have"
        )
    return response.status


def upstream_headers(response: RawResponse) -> list[tuple[bytes, bytes]]:
    """Returns the upstream's headers for the client, in their original bytes."""
    pairs = [(_bytes(name).lower(), _bytes(value)) for name, value in response.headers.items()]
    # An encoded body has been decoded on receipt, so that its length has changed.
    is_decoded = any(name == b"content-encoding" for name, _ in pairs)
    return [
        (name, value)
        for name, value in pairs
        if _is_returned(name) and not (is_decoded and name == b"content-length") and not _CONTROL.search(value)
    ]


@lru_cache(maxsize=256)  # an upstream sends the same names again and again
def _is_returned(name: bytes) -> bool:
    if name.startswith(b"x-"):
        return not name.startswith(_BLOCKED_PREFIXES)
    return name in _RETURNED_HEADERS or name.startswith(_VENDORS)


def _bytes(text: str) -> bytes:
    """Returns the original bytes: the client library decodes headers as UTF-8, with surrogates for invalid bytes."""
    return text.encode(errors="surrogateescape")
