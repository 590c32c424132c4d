"""Which headers go on to the upstream, and which come back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.ports import RawResponse

_SENT_BACK = frozenset(
    b"age cache-control content-language content-length content-type deprecation etag expires last-modified pragma "
    b"request-id retry-after retry-after-ms server-timing sunset vary warning".split()
)
"""Headers without `x-` belong to HTTP itself: what is not listed speaks to a browser, a proxy or the connection, and would
speak for this server's origin (`set-cookie`, `access-control-*`, `strict-transport-security`, `alt-svc`, `clear-site-data`,
`refresh`, `location`, `link`, `content-security-policy`, `www-authenticate`, `connection`, `transfer-encoding`, `server`)."""

_VENDORS = (b"openai-", b"anthropic-", b"apim-", b"azureml-", b"cf-", b"fireworks-", b"llm_provider-", b"ratelimit")
"""Names that model providers and their front ends begin their own headers with."""

_KEPT_HERE = (
    b"x-toolcaddie-",  # ours: an upstream must not speak for the gateway
    *(b"x-accel-", b"x-sendfile", b"x-lighttpd-", b"x-litespeed-"),  # a proxy in front would serve its own files
    *(b"x-frame-options", b"x-xss-protection", b"x-content-", b"x-permitted-", b"x-dns-prefetch-", b"x-ua-compatible"),
    b"x-powered-by",
)
"""Of the `x-` names, which are a vendor's own and go back, those that somebody acts on."""

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""A value with these would begin another header, or end the head."""
_SENT_ON = (b"openai-organization", b"openai-project", b"openai-beta", b"x-request-id")
_SENT_ON_ONCE = (*_SENT_ON, b"idempotency-key")
"""Only where one request becomes exactly one: a run asks several times, and each is another question."""
_OUR_KEY = "tc_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Onward:
    """Of a client's headers only those the upstream should know. `own_key`: the upstream is asked with a key of ours."""

    own_key: bool

    def headers(self, found: Mapping[bytes, bytes], *, keyed: bool, once: bool = False) -> dict[str, str]:
        """The client's own Authorization goes on only where neither side of the gateway has keys, and one of ours never.

        `keyed`: it is a key of the gateway's. `once`: the request becomes exactly one to the upstream.
        """
        names = _SENT_ON_ONCE if once else _SENT_ON
        sent = {name.decode(): found[name].decode("latin-1") for name in names if name in found}
        theirs = found.get(b"authorization", b"").decode("latin-1")
        if theirs and not keyed and not self.own_key and _OUR_KEY not in theirs:
            sent["authorization"] = theirs
        return sent


def answered_status(response: RawResponse) -> int:
    """The upstream's status, if it is one that ends a request. Raises `ProviderProtocolError` for others."""
    if not 200 <= response.status <= 599:
        raise ProviderProtocolError(
            f"the upstream answered with the status {response.status}, which HTTP does not have"
        )
    return response.status


def answered_headers(response: RawResponse) -> list[tuple[bytes, bytes]]:
    """The upstream's headers that are for the client, in the bytes they came in."""
    pairs = [(_bytes(name).lower(), _bytes(value)) for name, value in response.headers.items()]
    # An encoded body has been decoded on its way in, so that its length is another.
    decoded = any(name == b"content-encoding" for name, _ in pairs)
    return [
        (name, value)
        for name, value in pairs
        if _goes_back(name) and not (decoded and name == b"content-length") and not _CONTROL.search(value)
    ]


@lru_cache(maxsize=256)  # an upstream sends the same names again and again
def _goes_back(name: bytes) -> bool:
    if name.startswith(b"x-"):
        return not name.startswith(_KEPT_HERE)
    return name in _SENT_BACK or name.startswith(_VENDORS)


def _bytes(text: str) -> bytes:
    """What came over the wire: the client library reads headers as UTF-8, and hides in surrogates what is none."""
    return text.encode(errors="surrogateescape")
