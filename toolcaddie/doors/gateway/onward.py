"""Selects the headers of a client that are forwarded to the upstream (the model's API), and the headers of the upstream's answer
that are returned to the client."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import aiohttp

from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.vocabulary import KEY_HEADERS, WireName
from toolcaddie.doors.gateway.access import AUTHORIZATION
from toolcaddie.doors.gateway.exchange import Exchange
from toolcaddie.ports import Provider, RawResponse
from toolcaddie.providers.wrapping import wire_of
from toolcaddie.util.log import Logger

log = Logger(__name__)

_RETURNED_HEADERS = frozenset(
    b"age cache-control content-language content-length content-type deprecation etag expires last-modified pragma "
    b"request-id retry-after retry-after-ms server-timing sunset vary warning".split()
)
"""Standard HTTP headers that are returned. All other standard headers are meant for a browser, a proxy or the connection, and
would apply to the gateway itself (`set-cookie`, `access-control-*`, `strict-transport-security`, `alt-svc`, `clear-site-data`,
`refresh`, `location`, `link`, `content-security-policy`, `www-authenticate`, `connection`, `transfer-encoding`, `server`)."""

_VENDORS = (b"openai-", b"anthropic-", b"apim-", b"azureml-", b"cf-", b"fireworks-", b"llm_provider-", b"ratelimit")
"""Prefixes of the headers of model providers and of the proxies in front of them. These headers are returned."""

_BLOCKED_PREFIXES = (
    b"x-toolcaddie-",  # the gateway's own headers, which an upstream must not send in the gateway's name
    *(b"x-accel-", b"x-sendfile", b"x-lighttpd-", b"x-litespeed-"),  # a proxy in front would serve its own files
    *(b"x-frame-options", b"x-xss-protection", b"x-content-", b"x-permitted-", b"x-dns-prefetch-", b"x-ua-compatible"),
    b"x-powered-by",
)
"""Prefixes of `x-` headers that are not returned, because a browser or proxy acts on them. Other `x-` headers are a vendor's own
and are returned."""

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that could begin another header, or end the headers."""
_FORWARDED_HEADERS = (b"openai-organization", b"openai-project", b"openai-beta", b"x-request-id")
"""Headers of a client that are forwarded with every request to the upstream."""
_FORWARDED_BY_WIRE: Mapping[WireName, tuple[bytes, ...]] = {"messages": (b"anthropic-beta", b"anthropic-version")}
"""Further headers that are forwarded to an upstream of this wire (API format)."""
_FORWARDED_ONCE = (*_FORWARDED_HEADERS, b"idempotency-key")
"""Headers that are forwarded if the client's request becomes exactly one request to the upstream. A run may send several requests
that differ, and they must not share an idempotency key."""
_OUR_KEY = "tc_"
"""The beginning of the gateway's own keys."""
_BEARER = "Bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class Onward:
    """Filter of the headers that go from a client to the upstream. `handler` and `pages` use it for every request."""

    own_key: bool
    """True if the gateway sends the operator's key to the upstream."""
    key_header: str = AUTHORIZATION.decode()
    """The header in which the upstream expects its key, in lower case."""
    key_prefix: str = _BEARER
    wire: WireName = "chat"
    """The API of the upstream."""

    @classmethod
    def to(cls, provider: Provider, *, own_key: bool) -> Onward:
        """Returns the filter for a provider. The header of the key is set by the provider's settings, or else by its wire (API
        format)."""
        header: str = getattr(provider, "key_header", None) or KEY_HEADERS[wire_of(provider)]
        prefix: str = getattr(provider, "key_prefix", _BEARER if header == AUTHORIZATION.decode() else "")
        return cls(own_key=own_key, key_header=header, key_prefix=prefix, wire=wire_of(provider))

    def headers(
        self,
        client_headers: Mapping[bytes, bytes],
        *,
        keyed: bool,
        once: bool = False,
        key_headers: Collection[bytes] = (AUTHORIZATION,),
    ) -> dict[str, str]:
        """Returns the headers to forward. The client's key is forwarded only if it is not a key of the gateway, and the operator
        has set no key for the upstream.

        `keyed`: True if the client's key is a key of the gateway. `once`: True if the request becomes exactly one upstream
        request. `key_headers`: the headers that may contain the client's key.
        """
        forwarded = {
            name.decode(): client_headers[name].decode("latin-1")
            for name in _forwarded_names(self.wire, once=once)
            if name in client_headers
        }
        if keyed or self.own_key:
            return forwarded
        return forwarded | self._key(client_headers, key_headers)

    def _key(self, client_headers: Mapping[bytes, bytes], key_headers: Collection[bytes]) -> dict[str, str]:
        """Returns the client's key in the header that the upstream reads; empty if the client sent no key of its own.

        A key that the client sent in that header stays there. If the client uses the same API as the upstream, and the API has a
        key header of its own, `authorization` is forwarded unchanged too, because such APIs also accept tokens there. In
        all other cases the key is moved from the client's header to the upstream's.
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


@cache
def _forwarded_names(wire: WireName, *, once: bool) -> tuple[bytes, ...]:
    return (*(_FORWARDED_ONCE if once else _FORWARDED_HEADERS), *_FORWARDED_BY_WIRE.get(wire, ()))


def is_whole(response: RawResponse) -> bool:
    """Returns True for a successful answer that is a JSON document, not a stream."""
    kind = response.headers.get("content-type", "")
    return response.status == 200 and kind.partition(";")[0].strip().lower() == "application/json"


async def read_whole(response: RawResponse, most: int) -> bytes:
    """Returns the body of an answer of at most `most` bytes. Raises `ProviderProtocolError`."""
    body = bytearray()
    try:
        while piece := await response.content.readany():
            body += piece
            if len(body) > most:
                message = (
                    f"the upstream's answer is larger than the {most:,} bytes allowed for it (setting bounds.answer)"
                )
                raise ProviderProtocolError(message)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ProviderProtocolError(f"the upstream cut its answer short: {error}") from error
    finally:
        response.close()
    return bytes(body)


async def pass_on(response: RawResponse, exchange: Exchange) -> None:
    """Sends the upstream's answer to the client piece by piece, as it arrives."""
    try:
        await exchange.start(upstream_status(response), upstream_headers(response))
        is_over: Callable[[], bool] = getattr(response.content, "at_eof", _is_unknown)
        more = True
        while more and (piece := await response.content.readany()):
            more = not is_over()  # a short answer comes as one piece, and is sent as one
            await exchange.write(piece, more=more)
        if more:
            await exchange.write(b"", more=False)
    except (aiohttp.ClientError, TimeoutError) as error:
        response.close()
        log.warning("upstream_cut_its_answer", error=str(error))  # the client's answer is cut at the same place
    except BaseException:
        response.close()  # a connection with a half-read answer must not be used again
        raise
    else:
        response.release()


def _is_unknown() -> bool:
    """Returns False in place of `at_eof` of a stream that does not have it."""
    return False


def upstream_status(response: RawResponse) -> int:
    """Returns the upstream's status if it is a final status. Raises `ProviderProtocolError` for any other number."""
    if not 200 <= response.status <= 599:
        raise ProviderProtocolError(
            f"the upstream answered with the status {response.status}, which HTTP does not have"
        )
    return response.status


def upstream_headers(response: RawResponse) -> list[tuple[bytes, bytes]]:
    """Returns the upstream's headers for the client, in their original bytes."""
    pairs = [(_bytes(name).lower(), _bytes(value)) for name, value in response.headers.items()]
    # A compressed body was decompressed on receipt, so the length in the upstream's header is wrong.
    is_decoded = any(name == b"content-encoding" for name, _ in pairs)
    return [
        (name, value)
        for name, value in pairs
        if _is_returned(name) and not (is_decoded and name == b"content-length") and not _CONTROL.search(value)
    ]


@lru_cache(maxsize=256)  # an upstream sends the same names again and again
def _is_returned(name: bytes) -> bool:
    """Returns True if the upstream's header of this name is returned to the client."""
    if name.startswith(b"x-"):
        return not name.startswith(_BLOCKED_PREFIXES)
    return name in _RETURNED_HEADERS or name.startswith(_VENDORS)


def _bytes(text: str) -> bytes:
    """Returns the original bytes of a header. The HTTP client has decoded them as UTF-8, with surrogates for invalid bytes."""
    return text.encode(errors="surrogateescape")
