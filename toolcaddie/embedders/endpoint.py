"""The embedder `endpoint`: fetches vectors from any server with OpenAI's `/embeddings`. The vectors are fetched before a
selection, which does no I/O itself."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any
from weakref import WeakKeyDictionary

import aiohttp
import msgspec
import numpy as np
from msgspec import Meta, Struct
from yarl import URL

from toolcaddie.core.errors import (
    ConfigError,
    OutboundError,
    ProviderAuthError,
    ProviderError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRejectedError,
    ProviderUnavailableError,
)
from toolcaddie.embedders.bert import Floats, unit
from toolcaddie.guards.net import MEGABYTE, operator_client, read_capped

_MOST_TEXTS = 128
"""The largest number of texts of one request."""
_MOST_CHARACTERS = 8_000
"""The number of characters of a text that are sent: servers refuse a text of more than some 8,000 tokens instead of cutting
it."""
_MOST_AT_ONCE = 200_000
"""The largest number of characters of one request."""
_MOST_DIMENSIONS = 16_384
"""The largest number of dimensions that is accepted."""
_MAX_ANSWER = 64 * MEGABYTE
"""The largest size of an answer in bytes."""
_MAX_ERROR = 64 * 1024
"""The number of bytes of an error answer that are read."""
_SECONDS = 30.0
"""Timeout of one request in seconds. Callers that wait for vectors have a shorter timeout of their own."""
_TRIES = 3
"""The largest number of requests for the same texts."""
_FIRST_WAIT = 0.5
"""Seconds until the first retry; the time doubles with each further one."""
_LONGEST_WAIT = 20.0
"""The longest time in seconds until a retry, also if the server asks for more."""
_MIN_SECRET = 8
"""The least length of a key that is masked in error messages. Shorter keys are placeholders such as 'none', and masking them
would only make messages unreadable."""


class Endpoint:
    """Fetches vectors from the server at `url`, which ends in `/v1`, as in OpenAI's package. Implements `ports.RemoteEmbedder`.

    `api_key`: None sends no key, for a server without authentication. `dimensions` is sent to the server, for models that can
    shorten their vectors; None: the model's own number. Rate limits and failures of the server are retried, with three requests
    in all. The wait is the time in `Retry-After`, otherwise half a second and then a second; at most `longest_wait` seconds.

    Raises `ConfigError` for settings that cannot work, and a subclass of `ProviderError` if requests fail. No error contains the
    key.
    """

    languages = None

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str | None = None,
        *,
        dimensions: int | None = None,
        seconds: float = _SECONDS,
        longest_wait: float = _LONGEST_WAIT,
    ) -> None:
        self._url = _checked(url)
        self._model = model
        self._secret = api_key or ""
        if not self._secret.isascii() or not self._secret.isprintable():
            raise ConfigError("the embedder's key contains characters that no header may contain; copy the key again")
        self._requested_dimensions = dimensions
        self._seconds = seconds
        self._longest_wait = longest_wait
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()
        """Connections by event loop, because a connection belongs to one loop and a process may run several loops: one after
        the other in a command, at the same time in threads."""
        self.dimensions = dimensions or 0
        size = f":{dimensions}" if dimensions else ""
        folder = self._url.path.removesuffix("/embeddings")
        self.name = f"{model}{size} at {self._url.host}:{self._url.port}{'' if folder == '/v1' else folder}"

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r})"

    async def fetch(self, texts: Sequence[str]) -> Floats:
        """Returns float32 [texts, dimensions], each row a unit vector; zeros for an empty text, which servers refuse."""
        nonempty = [place for place, text in enumerate(texts) if text.strip()]
        rows = [
            (places, await self._embedded([texts[place][:_MOST_CHARACTERS] for place in places]))
            for places in _batches(texts, nonempty)
        ]
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)  # `dimensions` was set by the answers
        for places, batch_vectors in rows:
            vectors[places] = batch_vectors
        return vectors

    async def close(self) -> None:
        """Closes the connections of the running loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _embedded(self, texts: list[str]) -> Floats:
        """Returns the vectors of the texts of one request, after retries if the server fails."""
        body: dict[str, Any] = {"model": self._model, "input": [_encodable(text) for text in texts]}
        body["encoding_format"] = "float"
        if self._requested_dimensions is not None:
            body["dimensions"] = self._requested_dimensions
        encoded = msgspec.json.encode(body)
        for attempt in range(_TRIES):
            try:
                return self._vectors(await self._answer(encoded), len(texts))
            except ProviderError as error:
                if not error.retryable or isinstance(error, ProviderProtocolError) or attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(self._wait(error, attempt))
        raise AssertionError("unreachable: the last try returns or raises")

    def _wait(self, error: ProviderError, attempt: int) -> float:
        requested = error.retry_after
        return min(_FIRST_WAIT * 2**attempt if requested is None else requested, self._longest_wait)

    async def _answer(self, body: bytes) -> bytes:
        """Sends a request and returns the body of its answer. Raises a subclass of `ProviderError` if the server cannot be
        reached or refuses."""
        headers = {"content-type": "application/json"}
        if self._secret:
            headers["authorization"] = f"Bearer {self._secret}"
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            self._sessions[loop] = operator_client(seconds=self._seconds)
        try:
            async with self._sessions[loop].post(self._url, data=body, headers=headers) as response:
                if response.status != 200:
                    raise await self._refused(response)
                return await read_capped(response, _MAX_ANSWER)
        except TimeoutError as error:
            raise ProviderUnavailableError(f"{self._who} did not answer within {self._seconds:g} s") from error
        except OutboundError as error:
            raise ProviderRejectedError(self._keyless(f"{self._who}: {error}")) from error
        except aiohttp.ClientError as error:
            raise ProviderUnavailableError(self._keyless(f"{self._who} cannot be reached: {error}")) from error

    async def _refused(self, response: aiohttp.ClientResponse) -> ProviderError:
        """Returns the error for an answer with an error status, with the server's own words."""
        try:
            body = (await response.content.read(_MAX_ERROR)).decode("utf-8", "replace")
        except (aiohttp.ClientError, TimeoutError):
            body = ""
        detail = self._keyless(" ".join(body.split()))[:300]
        return _kind_of(response.status)(
            f"{self._who} answered HTTP {response.status}{': ' + detail if detail else ''}",
            status=response.status,
            retry_after=_retry_after(response.headers.get("Retry-After", "")),
        )

    # --- reading ------------------------------------------------------------------------------------------------------

    def _vectors(self, answer: bytes, count: int) -> Floats:
        """Returns the vectors in an answer, each scaled to length 1. Raises `ProviderProtocolError` unless the answer has `count`
        vectors of finite numbers and of the expected length."""
        try:
            items = msgspec.json.decode(answer, type=_Answer).data
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._broken(f"its answer is not a list of vectors: {error}") from error
        if sorted(item.index for item in items) != list(range(count)):
            raise self._broken(
                f"it returned {len(items)} vectors for {count} texts, or their indexes are not 0 to {count - 1}"
            )
        sizes = {len(item.embedding) for item in items}
        expected = self.dimensions or len(items[0].embedding)
        if sizes != {expected}:
            raise self._broken(f"its vectors have {_listed(sizes)} numbers; {expected} were expected")
        if not 0 < expected <= _MOST_DIMENSIONS:
            raise self._broken(f"its vectors have {expected} numbers; 1 to {_MOST_DIMENSIONS} are allowed")
        vectors = np.empty((count, expected), dtype=np.float64)
        for item in items:
            vectors[item.index] = item.embedding
        if not np.isfinite(vectors).all():
            raise self._broken("its vectors hold numbers that are not finite")
        self.dimensions = expected
        largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)  # squares of huge numbers would overflow
        return unit(np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0).astype(np.float32))

    def _broken(self, what: str) -> ProviderProtocolError:
        return ProviderProtocolError(self._keyless(f"{self._who}: {what}"))

    @property
    def _who(self) -> str:
        return f"the embedder at {self._url.with_query(None)}"

    def _keyless(self, text: str) -> str:
        """Returns the text with the key masked: some servers repeat the key in their answer, and no error may contain it."""
        return text.replace(self._secret, "***") if len(self._secret) >= _MIN_SECRET else text


def endpoint(
    *, url: str | None = None, model: str | None = None, api_key: str | None = None, dimensions: int | None = None
) -> Endpoint:
    """Returns the embedder for the settings of the table `embedding`. Raises `ConfigError` if `url` or `model` is missing."""
    if not url or not model:
        raise ConfigError(
            f"the embedder 'endpoint' needs embedding.{'model' if url else 'url'}; set it in toolcaddie.toml"
        )
    return Endpoint(url, model, api_key, dimensions=dimensions)


class _Item(Struct):
    index: Annotated[int, Meta(ge=0)]
    embedding: list[float]


class _Answer(Struct):
    data: list[_Item]


def _checked(text: str) -> URL:
    """Returns the address for requests of vectors below the base URL. Raises `ConfigError` for a URL that cannot be used."""
    try:
        url = URL(text.strip())
    except ValueError as error:
        raise ConfigError(f"embedding.url {text!r} is not a URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"embedding.url {text!r} must begin with http:// or https:// and name a host")
    if url.user or url.password:
        raise ConfigError(
            f"the embedding.url at {url.host} holds credentials; name their variable in embedding.key_env"
        )
    return url.with_path(url.path.rstrip("/") + "/embeddings", keep_query=True)


def _batches(texts: Sequence[str], places: Sequence[int]) -> Iterator[list[int]]:
    """Yields the indexes of the texts in `places`, divided into requests within the limits of size."""
    batch: list[int] = []
    size = 0
    for place in places:
        length = min(len(texts[place]), _MOST_CHARACTERS)
        if batch and (len(batch) == _MOST_TEXTS or size + length > _MOST_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(place)
        size += length
    if batch:
        yield batch


def _encodable(text: str) -> str:
    """Returns the text with lone surrogates replaced by "?", because they cannot be sent as JSON."""
    return text.encode("utf-8", "replace").decode()


def _listed(sizes: set[int]) -> str:
    return " and ".join(str(size) for size in sorted(sizes)[:3])


def _kind_of(status: int) -> type[ProviderError]:
    """Returns the class of the error for an HTTP status."""
    if status in (401, 403):
        return ProviderAuthError
    if status == 429:
        return ProviderRateLimitError
    if status == 408 or status >= 500:
        return ProviderUnavailableError
    return ProviderRejectedError if status >= 400 else ProviderProtocolError


def _retry_after(header: str) -> float | None:
    """Returns the seconds in a `Retry-After` header; None if it is absent or a date, which no known server of embeddings
    sends."""
    try:
        seconds = float(header)
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
