"""The HTTP transport to one model server, over pooled connections.

A wire, the code for one API, writes the body of a request and reads the body of an answer. This module sends and receives
them, reads the status of errors, limits the size of answers, and removes keys from errors.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TypeVar

import aiohttp
from yarl import URL

from toolcaddie.core.bounds import DEFAULT, LARGE, Bounds
from toolcaddie.core.errors import (
    ConfigError,
    OutboundError,
    ProviderError,
    ProviderPausedError,
    ProviderProtocolError,
    ProviderRejectedError,
    ProviderUnavailableError,
    RequestError,
)
from toolcaddie.core.message import ModelDelta, ModelReply
from toolcaddie.core.wire import ErrorReport
from toolcaddie.guards.aside import aside
from toolcaddie.guards.breakers import Breaker
from toolcaddie.guards.json_counts import check_counts
from toolcaddie.guards.known_secrets import KNOWN
from toolcaddie.guards.net import CONNECT_SECONDS, operator_client, read_capped
from toolcaddie.guards.proofs import PROOFS
from toolcaddie.ports.wires import StreamReader
from toolcaddie.providers.sse import EventReader
from toolcaddie.providers.whole import pieces_of
from toolcaddie.util.tracing import trace_headers
from toolcaddie.wires.bodies import error_message, error_report

T = TypeVar("T")

_NOT_FORWARDED = frozenset(
    {
        *(
            "connection",
            "content-length",
            "expect",
            "host",
            "keep-alive",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ),
        *(PROOFS - {"authorization"}),
    }
)
"""Headers of a caller that are not sent to the server: those of the caller's connection, and those with credentials."""
_FAILURE = 500
"""Status from which an answer is a failure of the server."""
_CACHED_URLS = 64
"""Largest number of cached URLs."""
_ERROR_SECONDS = 10.0
"""Seconds for reading the body of an error."""
_DRAIN_SECONDS = 0.2
"""Seconds for reading the rest of a stream after its last event."""
_DRAIN_BYTES = 4096
"""Largest number of bytes read of that rest."""
_LONGEST_WAIT = 86_400.0
"""Largest number of seconds that is taken from a `Retry-After` header."""
_MIN_SECRET = 8
"""Smallest length of a key that is removed from errors. Shorter keys are placeholders such as 'none', and common words."""
_SECRET_NAME = re.compile(r"auth|key|secret|token")
"""Names of headers that may contain a key."""


class HttpServer:
    """A server at `base_url` that expects the header `key_header: key_prefix + api_key`.

    `name` is in every error. `api_key` None: no key is sent. `timeout` bounds a whole answer in seconds. A `session` of the
    caller is used and not closed; without one, the server makes its own at first use, inside the running loop, and again after
    `close`. `read_error` is the wire's function that reads error answers.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        name: str,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        session: aiohttp.ClientSession | None = None,
        key_header: str = "authorization",
        key_prefix: str = "Bearer ",
        bounds: Bounds = DEFAULT,
        read_error: Callable[[int, bytes], ErrorReport] = error_report,
    ) -> None:
        self.name = name
        self._read_error = read_error
        self._bounds = bounds
        self._base = _base(base_url)
        self._timeout = _timeout(timeout)
        self._headers = _headers(headers)
        if api_key:
            self._headers[key_header] = key_prefix + _sendable(api_key)
        self._dropped = _NOT_FORWARDED if api_key else _NOT_FORWARDED - {key_header.lower()}
        self._secrets = _secrets(self._headers, api_key)
        self._session = session
        self._owns_session = session is None
        self._breaker: Breaker | None = None
        self._urls: dict[str, URL] = {}
        self._reading = _Reading(self._cut_short)

    def break_with(self, breaker: Breaker | None) -> None:
        """Sends nothing while the circuit of this breaker is open."""
        self._breaker = breaker

    @property
    def host(self) -> str | None:
        return self._base.host

    async def whole(
        self,
        method: str,
        path: str,
        body: bytes | None,
        read: Callable[[bytes], T],
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> T:
        """Returns the result of `read` for the body of a whole JSON answer with status 200. Raises `ProviderError`."""
        with _Keyless(self._secrets, headers):
            response = await self._request(method, path, body, headers, timeout)
            try:
                await self._check(response, "json")
                with self._reading:
                    answer = await read_capped(response, self._bounds.answer, setting="bounds.answer")
                return await self._read(answer, read)
            finally:
                response.close()

    async def streamed(
        self,
        path: str,
        body: bytes,
        reader: StreamReader,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        read_whole: Callable[[bytes], ModelReply] | None = None,
    ) -> AsyncIterator[ModelDelta | ModelReply]:
        """Yields the deltas of a streamed answer as they arrive, then the reply. Closing the iterator closes the connection.
        `read_whole` reads the whole answer of a server that does not stream."""
        with _Keyless(self._secrets, headers):
            response = await self._request("POST", path, body, headers, timeout)
            try:
                if read_whole is not None and response.status == 200 and "json" in response.content_type:
                    with self._reading:
                        answer = await read_capped(response, self._bounds.answer, setting="bounds.answer")
                    reply = await self._read(answer, read_whole)
                    for piece in pieces_of(reply):
                        yield piece
                    yield reply
                    return
                await self._check(response, "text/event-stream")
                events = EventReader()
                while not reader.done:
                    data = await self._piece(response, events)
                    for event in events.feed(data) if data else events.rest():
                        delta = await self._read(event, reader.add) if len(event) >= LARGE else reader.add(event)
                        if delta is not None:
                            yield delta
                    if not data:
                        reader.end()
                yield reader.reply()
                await _drain(response)
            finally:
                response.close()

    async def raw(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> aiohttp.ClientResponse:
        """Returns the raw answer to a raw request, whatever its status. The caller streams it to its client and closes it.

        `path` begins with a slash and is appended to the base URL. The key and headers of this object override the caller's.
        The body is uncompressed, whatever its content-encoding says. Raises `ProviderUnavailableError` if there is no answer.
        """
        with _Keyless(self._secrets, headers):
            return await self._request(method, path, body, headers, timeout)

    async def close(self) -> None:
        if self._owns_session and self._session is not None:
            session, self._session = self._session, None
            await session.close()

    # ---------------------------------------------------------------- requests

    async def _request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None, timeout: float | None
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = operator_client(seconds=None)
        limits = self._timeout if timeout is None else _timeout(timeout)
        breaker = self._breaker
        if breaker is not None and (wait := breaker.wait()):
            raise ProviderPausedError(
                f"{self.name} at {self._base.origin()} has failed too often; it is tried again in {math.ceil(wait)} s",
                retry_after=wait,
            )
        merged, traced = self._merged(headers), trace_headers()
        sent = {**merged, **traced} if traced else merged
        send = partial(self._session.request, method, self._url(path), data=body, headers=sent, timeout=limits)
        try:
            if breaker is None:
                return await send()
            with breaker.watched(TimeoutError, aiohttp.ClientConnectionError) as attempt:
                response = await send()
                attempt.failed = response.status >= _FAILURE
                return response
        except TimeoutError as error:
            raise self._too_slow() from error
        except OutboundError as error:
            raise ProviderRejectedError(f"{self.name}: {error}") from error
        except aiohttp.ClientConnectionError as error:
            raise ProviderUnavailableError(
                f"{self.name} cannot be reached at {self._base.origin()}: {_why(error)}"
            ) from error
        except aiohttp.ClientError as error:
            raise ProviderProtocolError(
                f"{self.name} at {self._base.origin()} does not answer with correct HTTP: {error}"
            ) from error

    def _merged(self, headers: Mapping[str, str] | None) -> Mapping[str, str]:
        """Returns the caller's headers and those of this object, which win. `_NOT_FORWARDED` is omitted.

        The caller's key for the model server is sent if this object has no key of its own; it is in `authorization` or in the
        server's own header for the key. The code that passes the headers decides whether a key is meant for the model server: a
        key for Toolcaddie's gateway must not be passed here.
        """
        if not headers:
            return self._headers
        forwarded = {name: value for key, value in headers.items() if (name := key.lower()) not in self._dropped}
        kind = forwarded.get("content-type")
        return {**forwarded, **self._headers, **({"content-type": kind} if kind else {})}

    def _url(self, path: str) -> URL:
        url = self._urls.get(path)
        if url is None:
            plain, _, query = path.partition("?")
            url = self._base.with_path(self._base.path.rstrip("/") + plain, keep_query=True)
            url = url.update_query(query) if query else url
            if len(self._urls) < _CACHED_URLS:
                self._urls[path] = url
        return url

    # ---------------------------------------------------------------- answers

    async def _check(self, response: aiohttp.ClientResponse, kind: str) -> None:
        """Raises `ProviderError` for an error status, or for an answer with another content type than the requested one."""
        if response.status != 200:
            raise await self._refusal(response)
        if kind not in response.content_type:
            body = KNOWN.redact_bytes(await _beginning(response, self._bounds.error))
            raise ProviderProtocolError(
                f"{self.name} answered with {response.content_type}, not {kind}: {error_message(body)}",
                status=response.status,
                body=body,
            )

    async def _refusal(self, response: aiohttp.ClientResponse) -> ProviderError:
        # Some servers repeat the key that they refuse.
        body = KNOWN.redact_bytes(await _beginning(response, self._bounds.error))
        wait = _retry_after(response.headers)
        report = self._read_error(response.status, body)
        wait = report.retry_after if wait is None else wait
        return report.kind(
            f"{self.name}: {report.message} {_meaning(response.status, wait)}",
            status=response.status,
            retry_after=wait,
            body=body,
        )

    async def _piece(self, response: aiohttp.ClientResponse, events: EventReader) -> bytes:
        """Returns the next bytes of a stream; empty at its end."""
        bounds = self._bounds
        if events.total > bounds.answer:
            message = (
                f"{self.name} streamed more than the {bounds.answer:,} bytes allowed for it (setting bounds.answer)"
            )
            raise ProviderProtocolError(message)
        if events.pending > bounds.event:
            message = f"{self.name} streamed an event of more than {bounds.event:,} bytes (setting bounds.event)"
            raise ProviderProtocolError(message)
        with self._reading:
            return await response.content.readany()

    async def _read(self, data: bytes, read: Callable[[bytes], T]) -> T:
        """Returns the result of `read`. Large data is read in another thread, so that the event loop does not wait."""
        return read(data) if len(data) < LARGE else await aside(self._counted, data, read)

    def _counted(self, data: bytes, read: Callable[[bytes], T]) -> T:
        try:
            check_counts(data, self._bounds, what=f"the answer of {self.name}")
        except RequestError as error:
            raise ProviderProtocolError(str(error)) from error
        return read(data)

    # ---------------------------------------------------------------- errors

    def _too_slow(self) -> ProviderUnavailableError:
        return ProviderUnavailableError(f"{self.name} did not answer in time at {self._base.origin()}")

    def _cut_short(self, error: BaseException) -> ProviderError | None:
        """Returns the error to raise if the rest of an answer does not arrive; None: `error` has another cause."""
        if isinstance(error, TimeoutError):
            return self._too_slow()
        if isinstance(error, aiohttp.ClientError):
            return ProviderProtocolError(f"{self.name} cut its answer short: {error}")
        return ProviderProtocolError(f"{self.name}: {error}") if isinstance(error, OutboundError) else None


# These two context managers are classes, because one made of a generator takes four times as long, at every request.


class _Reading:
    """Replaces an error of the connection, while an answer is read, by the `ProviderError` that `translate` returns for it."""

    __slots__ = ("_translate",)

    def __init__(self, translate: Callable[[BaseException], ProviderError | None]) -> None:
        self._translate = translate

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None and (translated := self._translate(error)) is not None:
            raise translated from error


class _Keyless:
    """Removes keys from errors, because some servers repeat the key in an error: those in our headers and in the caller's."""

    __slots__ = ("_headers", "_secrets")

    def __init__(self, secrets: tuple[str, ...], headers: Mapping[str, str] | None) -> None:
        self._secrets = secrets
        self._headers = headers

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ProviderError):
            for secret in (*self._secrets, *_secrets(self._headers or {})):
                error.args = tuple(str(arg).replace(secret, "***") for arg in error.args)
                error.body = error.body.replace(secret.encode(), b"***")


def _meaning(status: int, wait: float | None) -> str:
    """Returns the status in parentheses, with a likely reason that the answer does not name."""
    if status == 404:
        return "(HTTP 404: check that the model exists there, and that base_url is the address of the API)"
    advice = f", retry after {wait:g} s" if wait is not None else ""
    return f"(HTTP {status}{advice})"


def _why(error: aiohttp.ClientConnectionError) -> str:
    """Returns the reason for a failed connection in the words of the operating system.

    Those of the HTTP library mention TLS even for a connection without TLS.
    """
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"its name is not known ({error.os_error.strerror})"
    if not isinstance(error, aiohttp.ClientConnectorError) or isinstance(error, aiohttp.ClientSSLError):
        return str(error)
    reason = os.strerror(error.os_error.errno) if error.os_error.errno else str(error.os_error)
    return f"{reason} (is it running?)" if error.os_error.errno == errno.ECONNREFUSED else reason


def _base(base_url: str) -> URL:
    try:
        url = URL(base_url.strip())
    except ValueError as error:
        raise ConfigError(f"base_url {base_url!r} is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"base_url {base_url!r} must begin with http:// or https:// and name a host")
    if url.user or url.password:
        raise ConfigError(f"the base_url at {url.host} holds credentials; give them as api_key or as a header")
    return url


def _headers(more: Mapping[str, str] | None) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    headers.update((name.lower(), value) for name, value in (more or {}).items())
    return headers


def _secrets(headers: Mapping[str, str], api_key: str | None = None) -> tuple[str, ...]:
    """Returns the key and the values of headers with keys, without a scheme such as `Bearer`. The longest come first, because one
    of them may be a part of another."""
    values = [
        value.partition(" ")[2] or value if name.lower().endswith("authorization") else value
        for name, value in headers.items()
        if _SECRET_NAME.search(name.lower())
    ]
    return tuple(sorted({each for each in (api_key or "", *values) if len(each) >= _MIN_SECRET}, key=len, reverse=True))


def _sendable(api_key: str) -> str:
    if not isinstance(api_key, str):
        raise ConfigError(f"the api_key must be a text, not of the type {type(api_key).__name__}")
    if not api_key.isascii() or not api_key.isprintable():
        raise ConfigError(
            "the api_key contains characters that are not allowed in a header; copy the key again, and nothing else"
        )
    return api_key


def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds to wait, at most a day, from either form of the header; None: it is missing or not readable."""
    value = headers.get("Retry-After", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value)
    return min(max(0.0, seconds), _LONGEST_WAIT) if math.isfinite(seconds) else None


def _seconds_until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan


async def _beginning(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Returns at most `most` bytes of an error's body; fewer if the rest does not arrive in time or the connection fails."""
    body = bytearray()
    try:
        async with asyncio.timeout(_ERROR_SECONDS):
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > most:
                    break
    except (aiohttp.ClientError, TimeoutError):
        pass
    return bytes(body[:most])


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Reads the end of a stream after its last event, within strict bounds, so that the connection can be used again."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            await response.content.read(_DRAIN_BYTES)
    except (aiohttp.ClientError, TimeoutError):
        pass
