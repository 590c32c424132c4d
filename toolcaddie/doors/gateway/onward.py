"""Headers that are forwarded to the upstream, and headers that are returned to the client."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.vocabulary import KEY_HEADERS
from toolcaddie.doors.gateway.access import AUTHORIZATION
from toolcaddie.ports import Provider, RawResponse
from toolcaddie.providers.wrapping import wire_of

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
_BEARER = "Bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class Onward:
    """Filter of a client's headers for the upstream."""

    own_key: bool
    """The upstream is asked with a key of ours."""
    key_header: str = AUTHORIZATION.decode()
    """The header in which the upstream expects its key, in lower case."""
    key_prefix: str = _BEARER

    @classmethod
    def to(cls, provider: Provider, *, own_key: bool) -> Onward:
        """Returns the filter for a provider: the header is that of its settings, or of its wire."""
        header: str = getattr(provider, "key_header", None) or KEY_HEADERS[wire_of(provider)]
        prefix: str = getattr(provider, "key_prefix", _BEARER if header == AUTHORIZATION.decode() else "")
        return cls(own_key=own_key, key_header=header, key_prefix=prefix)

    def headers(
        self,
        client_headers: Mapping[bytes, bytes],
        *,
        keyed: bool,
        once: bool = False,
        key_headers: Collection[bytes] = (AUTHORIZATION,),
    ) -> dict[str, str]:
        """Returns the headers to forward. The client's key is among them only if neither side of the gateway has a key of ours.

        `keyed`: it is a key of the gateway. `once`: the request becomes exactly one upstream request. `key_headers`: the
        headers that may contain the client's key.
        """
        names = _FORWARDED_ONCE if once else _FORWARDED_HEADERS
        forwarded = {name.decode(): client_headers[name].decode("latin-1") for name in names if name in client_headers}
        if keyed or self.own_key:
            return forwarded
        return forwarded | self._key(client_headers, key_headers)

    def _key(self, client_headers: Mapping[bytes, bytes], key_headers: Collection[bytes]) -> dict[str, str]:
        """Returns the client's key in the header that the upstream reads.

        It is unchanged if the upstream reads the header in which the client sent it. Wires with a header of their own also read
        tokens in `authorization`, but only a client of the same wire sends a token there: another sends a key.
        """
        values = {
            name.decode(): client_headers[name].decode("latin-1") for name in key_headers if name in client_headers
        }
        values = {name: value for name, value in values.items() if value and _OUR_KEY not in value}
        has_own_header = self.key_header != AUTHORIZATION.decode()
        if not values or (has_own_header and self.key_header.encode() in key_headers):
            return values
        if self.key_header in values:
            return {self.key_header: values[self.key_header]}
        name, value = values.popitem()
        secret = value.removeprefix(_BEARER) if name == AUTHORIZATION.decode() else value
        return {self.key_header: f"{self.key_prefix}{secret}"}


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
