"""Any server that speaks OpenAI's chat completions, over one pooled connection: whole, streamed, or passed through raw."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
from yarl import URL

from toolcaddie.errors import (
    ConfigError,
    OutboundError,
    ProviderAuthError,
    ProviderError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
)
from toolcaddie.guards.net import CONNECT_SECONDS, MEGABYTE, operator_client, read_capped
from toolcaddie.message import ModelDelta, ModelReply, ModelRequest
from toolcaddie.providers.chat_wire import (
    Gathering,
    asks_for_usage,
    decoded,
    error_message,
    reply_from_wire,
    request_body,
)
from toolcaddie.providers.sse import EventReader
from toolcaddie.tool_types import JsonObject

OPENAI_URL = "https://api.openai.com/v1"

MAX_ANSWER = 64 * MEGABYTE
MAX_EVENT = 16 * MEGABYTE
MAX_ERROR = MEGABYTE
"""Sizes beyond which an answer, one event of a stream, or an error body is not an answer but an attack."""

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
        *("api-key", "cookie", "proxy-authorization", "x-api-key"),
    }
)
_KEPT_URLS = 64
_ERROR_SECONDS = 10.0
_DRAIN_SECONDS = 0.2
_DRAIN_BYTES = 4096
_LONGEST_WAIT = 86_400.0
_MIN_SECRET = 8
"""Shorter keys are placeholders such as 'none'; blotting those out would only garble error messages."""


class OpenAIChat:
    """A provider at `base_url` (with `/v1`, as the official package takes it). Implements `ports.Provider`.

    `api_key` None sends no key, for servers of one's own. `default_model` is asked where a request names none. `timeout`
    bounds a whole answer in seconds. `headers` go with every request. `stream_usage=False` is for servers that do not know
    `stream_options`; their streams then cost unknown tokens. A `session` given is used and not closed; otherwise one is made
    at first use, inside the running loop, and made anew after `close`.

    Raises `ProviderError` and its kinds, never with the key in it.
    """

    def __init__(
        self,
        base_url: str = OPENAI_URL,
        api_key: str | None = None,
        *,
        name: str = "openai",
        default_model: str = "",
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        session: aiohttp.ClientSession | None = None,
        stream_usage: bool = True,
    ) -> None:
        self.name = name
        self.default_model = default_model
        self._base = _base(base_url)
        self._secret = api_key or ""
        self._clock = _clock(timeout)
        self._headers = _headers(api_key, headers)
        self._session = session
        self._owns_session = session is None
        self._stream_usage = stream_usage
        self._urls: dict[str, URL] = {}

    def __repr__(self) -> str:
        return f"OpenAIChat(name={self.name!r}, host={self._base.host!r})"

    async def complete(self, request: ModelRequest) -> ModelReply:
        body = request_body(request, model=request.model or self.default_model, stream=False)
        with self._keyless():
            response = await self._ask(body, request)
            try:
                await self._check(response, "json")
                return reply_from_wire(await self._whole(response), who=self.name)
            finally:
                response.close()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelDelta | ModelReply]:
        """Deltas as they come, then the reply. Closing the iterator closes the connection to the provider.

        Usage is always asked for, so that the reply knows it; `raw` of a delta shows it only to a caller who asked.
        """
        shows = asks_for_usage(request)
        usage = self._stream_usage or shows
        body = request_body(request, model=request.model or self.default_model, stream=True, usage=usage)
        gathering = Gathering(who=self.name, show_usage=shows)
        with self._keyless():
            response = await self._ask(body, request)
            try:
                await self._check(response, "text/event-stream")
                reader = EventReader()
                while not gathering.done:
                    piece = await self._piece(response, reader)
                    for event in reader.feed(piece) if piece else reader.rest():
                        delta = gathering.add(event)
                        if delta is not None:
                            yield delta
                    if not piece:
                        gathering.end()
                yield gathering.reply()
                await _drain(response)
            finally:
                response.close()

    async def models(self) -> Sequence[JsonObject]:
        with self._keyless():
            response = await self._request("GET", "/models", None, self._headers, self._clock)
            try:
                await self._check(response, "json")
                listed = decoded(await self._whole(response), who=self.name).get("data")
            finally:
                response.close()
        if not isinstance(listed, list) or not all(isinstance(model, dict) for model in listed):
            raise ProviderProtocolError(f"{self.name} answered without a list of models")
        return listed

    async def forward(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> aiohttp.ClientResponse:
        """The raw answer to a raw request, whatever its status: the caller streams it on and closes it.

        `path` begins with a slash and comes behind `base_url`. Our key and headers stand above the caller's; the body comes
        uncompressed, whatever its content-encoding says. Raises `ProviderUnavailableError` where there is no answer at all.
        """
        with self._keyless():
            return await self._request(method, path, body, self._merged(headers), self._clock_of(timeout))

    async def close(self) -> None:
        if self._owns_session and self._session is not None:
            session, self._session = self._session, None
            await session.close()

    # ---------------------------------------------------------------- asking

    async def _ask(self, body: bytes, request: ModelRequest) -> aiohttp.ClientResponse:
        return await self._request(
            "POST", "/chat/completions", body, self._merged(request.headers), self._clock_of(request.timeout)
        )

    def _merged(self, theirs: Mapping[str, str] | None) -> Mapping[str, str]:
        """The caller's headers under ours, without those that belong to its own connection or prove who it is to us.

        `authorization` is the exception: where we have no key, a caller's own is what the upstream is asked with, and
        whoever passes headers here decides whether it is one of ours (which must stay) or one of the upstream's.
        """
        if not theirs:
            return self._headers
        kept = {name: value for given, value in theirs.items() if (name := given.lower()) not in _NOT_PASSED_ON}
        return {**kept, **self._headers}

    def _clock_of(self, seconds: float | None) -> aiohttp.ClientTimeout:
        return self._clock if seconds is None else _clock(seconds)

    async def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        clock: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = operator_client(seconds=None)
        try:
            return await self._session.request(method, self._url(path), data=body, headers=headers, timeout=clock)
        except TimeoutError as error:
            raise self._too_slow() from error
        except OutboundError as error:
            raise ProviderRejectedError(f"{self.name}: {error}") from error
        except aiohttp.ClientConnectionError as error:
            raise ProviderUnavailableError(
                f"{self.name} cannot be reached at {self._base.origin()}: {error}"
            ) from error
        except aiohttp.ClientError as error:
            raise ProviderProtocolError(
                f"{self.name} at {self._base.origin()} does not speak HTTP as it should: {error}"
            ) from error

    def _url(self, path: str) -> URL:
        found = self._urls.get(path)
        if found is None:
            found = self._base.with_path(self._base.path.rstrip("/") + path, keep_query=True)
            if len(self._urls) < _KEPT_URLS:
                self._urls[path] = found
        return found

    # ---------------------------------------------------------------- reading the answer

    async def _check(self, response: aiohttp.ClientResponse, kind: str) -> None:
        """Raise what an error status means, or that the answer is not of the kind that was asked for."""
        if response.status != 200:
            raise await self._refusal(response)
        if kind not in response.content_type:
            body = await _beginning(response)
            raise ProviderProtocolError(
                f"{self.name} answered with {response.content_type}, not {kind}: {error_message(body)}",
                status=response.status,
                body=body,
            )

    async def _refusal(self, response: aiohttp.ClientResponse) -> ProviderError:
        body = await _beginning(response)
        return _kind_of(response.status)(
            f"{self.name}: {error_message(body)} (HTTP {response.status})",
            status=response.status,
            retry_after=_retry_after(response.headers),
            body=body,
        )

    async def _whole(self, response: aiohttp.ClientResponse) -> bytes:
        with self._reading():
            return await read_capped(response, MAX_ANSWER)

    async def _piece(self, response: aiohttp.ClientResponse, reader: EventReader) -> bytes:
        """The next bytes of a stream; empty at its end."""
        if reader.total > MAX_ANSWER or reader.pending > MAX_EVENT:
            raise ProviderProtocolError(f"{self.name} streamed more than {MAX_ANSWER:,} bytes, or one event too large")
        with self._reading():
            return await response.content.readany()

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
    def _keyless(self) -> Iterator[None]:
        """Some servers repeat the key they were sent; no error hands that on."""
        try:
            yield
        except ProviderError as error:
            if len(self._secret) >= _MIN_SECRET:
                error.args = tuple(str(arg).replace(self._secret, "***") for arg in error.args)
                error.body = error.body.replace(self._secret.encode(), b"***")
            raise


def from_settings(
    *, base_url: str | None = None, api_key: str | None = None, model: str | None = None, **more: Any
) -> OpenAIChat:
    """The provider that settings describe; `more` goes to `OpenAIChat`. Raises `ConfigError` where nothing would work."""
    if base_url is None and not api_key:
        raise ConfigError("the provider 'openai' needs an api_key, or the base_url of a server that takes none")
    return OpenAIChat(base_url or OPENAI_URL, api_key, default_model=model or "", **more)


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


def _headers(api_key: str | None, more: Mapping[str, str] | None) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept-encoding": "identity"}
    headers.update((name.lower(), value) for name, value in (more or {}).items())
    if api_key:
        if not api_key.isascii() or not api_key.isprintable():
            raise ConfigError("the api_key holds characters that no header can carry; was it copied whole, and alone?")
        headers["authorization"] = f"Bearer {api_key}"
    return headers


def _clock(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)


def _kind_of(status: int) -> type[ProviderError]:
    if status in (401, 403):
        return ProviderAuthError
    if status == 429:
        return ProviderRateLimitError
    if status == 408 or status >= 500:
        return ProviderUnavailableError
    return ProviderRejectedError if status >= 400 else ProviderProtocolError


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


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """An error's body, as far as it is reasonable and comes at all: what it was sent for is known from its status."""
    found = bytearray()
    try:
        async with asyncio.timeout(_ERROR_SECONDS):
            async for piece in response.content.iter_any():
                found += piece
                if len(found) > MAX_ERROR:
                    break
    except (aiohttp.ClientError, TimeoutError):
        pass
    return bytes(found[:MAX_ERROR])


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read the end that follows [DONE], so that the connection can be used again; not for long, and not much of it."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            await response.content.read(_DRAIN_BYTES)
    except (aiohttp.ClientError, TimeoutError):
        pass
