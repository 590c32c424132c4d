"""One model server over pooled connections: what every wire shares and none of them knows about the others.

A wire makes a body and reads an answer; here is how it gets there and back, what an error status means, how large an answer
may be, and that no error ever carries the key.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TypeVar

import aiohttp
from yarl import URL

from toolcaddie.core.bounds import DEFAULT, LARGE, Bounds
from toolcaddie.core.errors import (
    ConfigError,
    OutboundError,
    ProviderError,
    ProviderProtocolError,
    ProviderRejectedError,
    ProviderUnavailableError,
    RequestError,
)
from toolcaddie.core.message import ModelDelta, ModelReply
from toolcaddie.core.wire import ErrorReport
from toolcaddie.guards.aside import aside
from toolcaddie.guards.json_counts import check_counts
from toolcaddie.guards.net import CONNECT_SECONDS, operator_client, read_capped
from toolcaddie.guards.proofs import PROOFS
from toolcaddie.ports.wires import StreamReader
from toolcaddie.providers.sse import EventReader
from toolcaddie.wires.bodies import error_message, error_report

T = TypeVar("T")

_NOT_PASSED_ON = frozenset(
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
_KEPT_URLS = 64
_ERROR_SECONDS = 10.0
_DRAIN_SECONDS = 0.2
_DRAIN_BYTES = 4096
_LONGEST_WAIT = 86_400.0
_MIN_SECRET = 8
"""Shorter keys are placeholders such as 'none'; blotting those out would only garble error messages."""
_SECRET_NAME = re.compile(r"auth|key|secret|token")


class HttpServer:
    """A server at `base_url`, asked with `key_header: key_prefix + api_key`.

    `name` stands in every error. `api_key` None sends none. `timeout` bounds a whole answer in seconds. A `session` given is
    used and not closed; otherwise one is made at first use, inside the running loop, and again after `close`. `read_error` is
    the wire's reading of an error answer.
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
        self._clock = _clock(timeout)
        self._headers = _headers(headers)
        if api_key:
            self._headers[key_header] = key_prefix + _sendable(api_key)
        self._secrets = _secrets(self._headers, api_key)
        self._session = session
        self._owns_session = session is None
        self._urls: dict[str, URL] = {}

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
        """What `read` makes of the body of a whole JSON answer with status 200. Raises `ProviderError`."""
        with self._keyless(headers):
            response = await self._request(method, path, body, headers, timeout)
            try:
                await self._check(response, "json")
                with self._reading():
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
    ) -> AsyncIterator[ModelDelta | ModelReply]:
        """Deltas of a streamed answer as they come, then the reply. Closing the iterator closes the connection."""
        with self._keyless(headers):
            response = await self._request("POST", path, body, headers, timeout)
            try:
                await self._check(response, "text/event-stream")
                events = EventReader()
                while not reader.done:
                    piece = await self._piece(response, events)
                    for event in events.feed(piece) if piece else events.rest():
                        delta = await self._read(event, reader.add) if len(event) >= LARGE else reader.add(event)
                        if delta is not None:
                            yield delta
                    if not piece:
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
        """The raw answer to a raw request, whatever its status: the caller streams it on and closes it.

        `path` begins with a slash and comes behind the base URL. Our key and headers stand above the caller's; the body comes
        uncompressed, whatever its content-encoding says. Raises `ProviderUnavailableError` where there is no answer at all.
        """
        with self._keyless(headers):
            return await self._request(method, path, body, headers, timeout)

    async def close(self) -> None:
        if self._owns_session and self._session is not None:
            session, self._session = self._session, None
            await session.close()

    # ---------------------------------------------------------------- asking

    async def _request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None, timeout: float | None
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = operator_client(seconds=None)
        clock = self._clock if timeout is None else _clock(timeout)
        try:
            return await self._session.request(
                method, self._url(path), data=body, headers=self._merged(headers), timeout=clock
            )
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
                f"{self.name} at {self._base.origin()} does not speak HTTP as it should: {error}"
            ) from error

    def _merged(self, theirs: Mapping[str, str] | None) -> Mapping[str, str]:
        """The caller's headers under ours, without those that belong to its own connection or prove who it is to us.

        `authorization` is the exception: where we have no key, a caller's own is what the upstream is asked with, and
        whoever passes headers here decides whether it is one of ours (which must stay) or one of the upstream's.
        """
        if not theirs:
            return self._headers
        kept = {name: value for given, value in theirs.items() if (name := given.lower()) not in _NOT_PASSED_ON}
        return {**kept, **self._headers}

    def _url(self, path: str) -> URL:
        found = self._urls.get(path)
        if found is None:
            plain, _, query = path.partition("?")
            url = self._base.with_path(self._base.path.rstrip("/") + plain, keep_query=True)
            found = url.update_query(query) if query else url
            if len(self._urls) < _KEPT_URLS:
                self._urls[path] = found
        return found

    # ---------------------------------------------------------------- reading the answer

    async def _check(self, response: aiohttp.ClientResponse, kind: str) -> None:
        """Raise what an error status means, or that the answer is not of the kind that was asked for."""
        if response.status != 200:
            raise await self._refusal(response)
        if kind not in response.content_type:
            body = await _beginning(response, self._bounds.error)
            raise ProviderProtocolError(
                f"{self.name} answered with {response.content_type}, not {kind}: {error_message(body)}",
                status=response.status,
                body=body,
            )

    async def _refusal(self, response: aiohttp.ClientResponse) -> ProviderError:
        body, wait = await _beginning(response, self._bounds.error), _retry_after(response.headers)
        report = self._read_error(response.status, body)
        wait = report.retry_after if wait is None else wait
        return report.kind(
            f"{self.name}: {report.message} {_meaning(response.status, wait)}",
            status=response.status,
            retry_after=wait,
            body=body,
        )

    async def _piece(self, response: aiohttp.ClientResponse, events: EventReader) -> bytes:
        """The next bytes of a stream; empty at its end."""
        bounds = self._bounds
        if events.total > bounds.answer:
            told = f"{self.name} streamed more than the {bounds.answer:,} bytes allowed for it (setting bounds.answer)"
            raise ProviderProtocolError(told)
        if events.pending > bounds.event:
            told = f"{self.name} streamed an event of more than {bounds.event:,} bytes (setting bounds.event)"
            raise ProviderProtocolError(told)
        with self._reading():
            return await response.content.readany()

    async def _read(self, data: bytes, read: Callable[[bytes], T]) -> T:
        """What `read` makes of the data; of much data it is made beside the event loop, once it was counted."""
        return read(data) if len(data) < LARGE else await aside(self._counted, data, read)

    def _counted(self, data: bytes, read: Callable[[bytes], T]) -> T:
        try:
            check_counts(data, self._bounds, what=f"the answer of {self.name}")
        except RequestError as error:
            raise ProviderProtocolError(str(error)) from error
        return read(data)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise self._too_slow() from error
        except aiohttp.ClientError as error:
            raise ProviderProtocolError(f"{self.name} cut its answer short: {error}") from error
        except OutboundError as error:
            raise ProviderProtocolError(f"{self.name}: {error}") from error

    # ---------------------------------------------------------------- saying what went wrong

    def _too_slow(self) -> ProviderUnavailableError:
        return ProviderUnavailableError(f"{self.name} did not answer in time at {self._base.origin()}")

    @contextmanager
    def _keyless(self, theirs: Mapping[str, str] | None) -> Iterator[None]:
        """Some servers repeat the key they were sent, ours or the caller's; no error hands that on."""
        try:
            yield
        except ProviderError as error:
            for secret in (*self._secrets, *_secrets(theirs or {})):
                error.args = tuple(str(arg).replace(secret, "***") for arg in error.args)
                error.body = error.body.replace(secret.encode(), b"***")
            raise


def _meaning(status: int, wait: float | None) -> str:
    """The status, and what it may mean that the answer does not say."""
    if status == 404:
        return "(HTTP 404: does that model exist there, and is the address the API's own?)"
    asks = f", retry after {wait:g} s" if wait is not None else ""
    return f"(HTTP {status}{asks})"


def _why(error: aiohttp.ClientConnectionError) -> str:
    """Why there is no connection, in the system's words; the library's speak of TLS where there is none."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"its name is not known ({error.os_error.strerror})"
    if not isinstance(error, aiohttp.ClientConnectorError) or isinstance(error, aiohttp.ClientSSLError):
        return str(error)
    said = os.strerror(error.os_error.errno) if error.os_error.errno else str(error.os_error)
    return f"{said} (is it running?)" if error.os_error.errno == errno.ECONNREFUSED else said


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
    """The key, and what headers hold whose names speak of one, the longest first: one may be a part of another."""
    told = [value.removeprefix("Bearer ") for name, value in headers.items() if _SECRET_NAME.search(name.lower())]
    return tuple(sorted({each for each in (api_key or "", *told) if len(each) >= _MIN_SECRET}, key=len, reverse=True))


def _sendable(api_key: str) -> str:
    if not api_key.isascii() or not api_key.isprintable():
        raise ConfigError("the api_key holds characters that no header can carry; was it copied whole, and alone?")
    return api_key


def _clock(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, a day at most, from either spelling of the header; None: not said, or not understood."""
    said = headers.get("Retry-After", "").strip()
    try:
        seconds = float(said)
    except ValueError:
        seconds = _seconds_until(said)
    return min(max(0.0, seconds), _LONGEST_WAIT) if math.isfinite(seconds) else None


def _seconds_until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan


async def _beginning(response: aiohttp.ClientResponse, most: int) -> bytes:
    """An error's body, as far as it is reasonable and comes at all: what it was sent for is known from its status."""
    found = bytearray()
    try:
        async with asyncio.timeout(_ERROR_SECONDS):
            async for piece in response.content.iter_any():
                found += piece
                if len(found) > most:
                    break
    except (aiohttp.ClientError, TimeoutError):
        pass
    return bytes(found[:most])


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read the end that follows the last event, so that the connection can be used again; not for long, and not much of it."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            await response.content.read(_DRAIN_BYTES)
    except (aiohttp.ClientError, TimeoutError):
        pass
