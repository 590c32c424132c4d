"""Vectors that are made before a selection compares them. They are cached in memory; those of catalogs are also written to a
`Store`, so that they need not be made again after a restart.

A selection does no I/O and never waits. The runtime therefore first awaits `prepare` with the texts of a request. The ranker then
gets the vectors from `Prepared`, which implements the port `Embedder`, so that the ranker need not know where they come from.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from toolcaddie.core.errors import ConfigError, ProviderError, ProviderProtocolError, StorageError, ToolcaddieError
from toolcaddie.embedders.bert import Floats, unit
from toolcaddie.ports import AsymmetricEmbedder, Embedder, RemoteEmbedder, Store, request_vectors
from toolcaddie.util.bounded import Bounded, Limit
from toolcaddie.util.log import Logger

log = Logger(__name__)

PATIENCE = 1.0
"""The longest time in seconds for which a request waits for vectors."""
PAUSE = 30.0
"""Seconds for which nothing is sent to an embedder that failed, so that it delays only one request."""

_Rows = Bounded[bytes, bytes]
"""Vectors as bytes of half floats, by the digest of their text."""

_QUERY_BYTES = 16 * 1024 * 1024
"""The largest size in bytes of the vectors of requests in memory."""
_CATALOG_BYTES = 256 * 1024 * 1024
"""The largest size in bytes of the vectors of catalogs in memory. 25,000 vectors of 3,072 numbers take 154 MB, of 384 numbers
19 MB."""
_LASTING_SECONDS = 180 * 86_400.0
"""Seconds after which a stored vector is deleted."""
_TOO_LONG = 1.5
"""Size of a number that no vector of length 1 can have; it leaves room for rounding."""
_LOCAL_AT_ONCE = 32
"""The number of texts that are embedded at once in this process. Each finished batch is cached, so that an interrupted catalog
continues after it."""
_REMOTE_AT_ONCE = 256
"""The same number for a remote embedder."""
_REQUEST = b"request"
"""Distinguishes the keys of requests from those of texts about tools."""
_BYTES_A_NUMBER = 2
"""Bytes of a half float."""


class Prepared:
    """Returns prepared vectors of texts. Safe for many threads. Implements `ports.Embedder`.

    `source` makes the vectors, and `documents` stores those of catalogs (None: they are only in memory). A text that was not
    prepared is embedded at once if `source` is local; if `source` is remote or fails, the text gets zeros. `patience`: the
    longest time in seconds for which `prepare` waits for a remote source.

    Vectors are stored as half floats. They are rounded to half floats before their first use, so that a restart changes no score;
    the cosine of two texts differs from that of float32 vectors by less than 1e-4.
    """

    def __init__(
        self,
        source: Embedder | RemoteEmbedder,
        documents: Store | None = None,
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._documents = documents
        self._patience = patience
        self._clock = clock
        self._lasting: _Rows = Bounded(None, Limit(_CATALOG_BYTES, len))
        self._passing: _Rows = Bounded(None, Limit(_QUERY_BYTES, len))
        self._down_until = float("-inf")
        self._down = False
        self._problem = ""
        self._dimensions = source.dimensions

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def dimensions(self) -> int:
        """The number of dimensions; 0: unknown, because it is not set and the remote source has not answered yet."""
        return self._dimensions or self._source.dimensions

    @property
    def languages(self) -> Collection[str] | None:
        return self._source.languages

    @property
    def is_down(self) -> bool:
        """True if the last request to the source failed."""
        return self._down

    @property
    def problem(self) -> str:
        """The error of the last request to the source; empty if that request succeeded."""
        return self._problem if self._down else ""

    def embed(self, texts: Sequence[str]) -> Floats:
        """Returns float32 [texts, dimensions] of texts about tools. A text that was not prepared is embedded now if the source is
        local, otherwise it gets zeros."""
        return self._vectors(texts, requests=False)

    def embed_requests(self, texts: Sequence[str]) -> Floats:
        """Returns the vectors of requests, which some sources read in another way."""
        return self._vectors(texts, requests=True)

    def _vectors(self, texts: Sequence[str], *, requests: bool) -> Floats:
        keys = self._keys(texts, requests=requests)
        rows_by_key = self._rows_in_memory(keys)
        if not isinstance(self._source, RemoteEmbedder) and (missing := _missing(texts, keys, rows_by_key)):
            fresh = self._rows_now(self._source, missing, requests=requests)
            _put_all(self._passing, fresh)
            rows_by_key |= fresh
        zeros = bytes(_BYTES_A_NUMBER * self.dimensions)
        rows = (row if len(row := rows_by_key.get(key, zeros)) == len(zeros) else zeros for key in keys)
        halves = np.frombuffer(b"".join(rows), dtype=np.float16)
        return unit(halves.astype(np.float32).reshape(len(texts), self.dimensions))

    async def prepare(self, texts: Sequence[str]) -> None:
        """Makes the vectors of a request's texts; a remote source gets `patience` seconds. If the source fails or is too slow,
        this is logged once, and nothing is sent to the source for `PAUSE` seconds. Nothing is raised or written to disk."""
        missing = self._lacking(texts, requests=True)
        if not missing or self._clock() < self._down_until:
            return
        try:
            async with asyncio.timeout(self._patience if isinstance(self._source, RemoteEmbedder) else None):
                vectors = await self._fresh_rows(list(missing.values()), requests=True)
        except Exception as error:  # noqa: BLE001  a stranger's embedder raises anything; no request fails because of it
            self._failed(error)
        else:
            _put_all(self._passing, dict(zip(missing, vectors, strict=True)))
            self._worked()

    async def prepare_lasting(self, texts: Sequence[str], *, written: bool = True) -> None:
        """Gets the vectors of a catalog's texts from memory, from the documents, or from the source, without a time limit.

        With `written`, vectors are read from and stored in the documents. Raises `ProviderError` if the source fails or has just
        failed, and `ConfigError` if it returns something that is not vectors; vectors that were made before the error are kept.
        """
        missing = await asyncio.to_thread(self._lacking, texts)  # a pass over 50,000 texts takes time
        if written:
            stored = await self._stored(list(missing))
            missing = {key: text for key, text in missing.items() if key not in stored}
        async for fresh in self._steps_made(missing):
            _put_all(self._lasting, fresh)
            if written:
                await self._write(fresh)

    async def made(self, texts: Sequence[str]) -> Floats:
        """Returns the vectors of texts about tools from memory, from the documents, or from the source, without a time limit.
        They are stored nowhere: the caller does that. Raises as `prepare_lasting`."""
        keys = self._keys(texts, requests=False)
        rows = self._rows_in_memory(keys)
        rows |= await self._stored([key for key in keys if key not in rows], cached=False)
        missing = _missing(texts, keys, rows)
        async for fresh in self._steps_made(missing):
            rows |= fresh
        halves = np.frombuffer(b"".join(rows[key] for key in keys), dtype=np.float16)
        return unit(halves.astype(np.float32).reshape(len(texts), self.dimensions))

    async def close(self) -> None:
        if isinstance(self._source, RemoteEmbedder):
            await self._source.close()

    async def _steps_made(self, missing: Mapping[bytes, str]) -> AsyncIterator[dict[bytes, bytes]]:
        """Yields the vectors that the source makes, some at a time. Raises as `prepare_lasting`."""
        if missing and self._clock() < self._down_until:
            raise ProviderProtocolError(f"{self.name} failed a moment ago and gets no request for a while")
        for step in _steps(missing, _REMOTE_AT_ONCE if isinstance(self._source, RemoteEmbedder) else _LOCAL_AT_ONCE):
            try:
                vectors = await self._fresh_rows(list(step.values()), requests=False)
            except (ProviderError, ConfigError) as error:
                self._failed(error)
                raise
            except Exception as error:
                self._failed(error)
                raise ProviderProtocolError(f"{self.name} failed: {error!r}") from error
            self._worked()
            yield dict(zip(step, vectors, strict=True))

    # --- sources of vectors -------------------------------------------------------------------------------------------

    async def _fresh_rows(self, texts: list[str], *, requests: bool) -> list[bytes]:
        """Returns vectors that the source makes now, as rows of half floats. Raises `ProviderProtocolError` if their length has
        changed."""
        source = self._source
        if isinstance(source, RemoteEmbedder):
            rows = _rows(await source.fetch(texts), len(texts), source.name)
            numbers = len(rows[0]) // _BYTES_A_NUMBER if rows else self._dimensions
            if self._dimensions not in (0, numbers):
                raise ProviderProtocolError(
                    f"{source.name} now returns vectors of {numbers} numbers, but the stored ones have {self._dimensions}; "
                    f"set embedding.dimensions to {numbers}, and all vectors are made again"
                )
        else:
            rows = _rows(await asyncio.to_thread(_embedded, source, texts, requests), len(texts), source.name)
        self._dimensions = self._dimensions or (len(rows[0]) // _BYTES_A_NUMBER if rows else 0)
        return rows

    def _rows_now(self, source: Embedder, missing: Mapping[bytes, str], *, requests: bool) -> dict[bytes, bytes]:
        """Returns vectors that a local source makes during a selection; an empty dict if the source fails or has just failed."""
        if self._clock() < self._down_until:
            return {}
        try:
            rows = _rows(_embedded(source, list(missing.values()), requests), len(missing), source.name)
        except Exception as error:  # noqa: BLE001  a stranger's embedder raises anything; no request fails because of it
            self._failed(error)
            return {}
        return dict(zip(missing, rows, strict=True))

    def _lacking(self, texts: Sequence[str], *, requests: bool = False) -> dict[bytes, str]:
        keys = self._keys(texts, requests=requests)
        return _missing(texts, keys, self._rows_in_memory(keys))

    def _keys(self, texts: Sequence[str], *, requests: bool) -> list[bytes]:
        """Returns a key for each text. Requests have other keys than texts about tools if the source reads them in another
        way."""
        kind = _REQUEST if requests and isinstance(self._source, AsymmetricEmbedder) else b""
        return [_key(text, kind) for text in texts]

    def _rows_in_memory(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return _rows_of(self._lasting, keys) | _rows_of(self._passing, keys)

    async def _stored(self, keys: Sequence[bytes], *, cached: bool = True) -> dict[bytes, bytes]:
        """Returns the stored vectors of the right size, which are `cached` in memory from then on. If the store fails, a warning
        is logged, and no vectors are returned, so that they are made again."""
        if self._documents is None or not keys:
            return {}
        try:
            values = await self._documents.get_many(self._kind, (key.hex() for key in keys))
        except StorageError as error:
            log.warning("vectors_not_read", embedder=self.name, error=str(error))
            return {}
        rows = await asyncio.to_thread(self._loaded, values)
        if cached:
            _put_all(self._lasting, rows)
        return rows

    def _loaded(self, values: Mapping[str, bytes]) -> dict[bytes, bytes]:
        """Returns stored vectors by the digest of their text. Those of a wrong length or with wrong numbers are omitted."""
        sizes = {len(value) for value in values.values()}
        if not self.dimensions and len(sizes) == 1:
            self._dimensions = sizes.pop() // _BYTES_A_NUMBER
        whole = {
            bytes.fromhex(key): value
            for key, value in values.items()
            if 0 < len(value) == _BYTES_A_NUMBER * self.dimensions
        }
        numbers = np.frombuffer(b"".join(whole.values()), dtype=np.float16).reshape(len(whole), self.dimensions)
        good: npt.NDArray[np.bool_] = np.asarray(np.isfinite(numbers).all(axis=1))
        return {key: whole[key] for place, key in enumerate(whole) if good[place]}

    async def _write(self, rows: Mapping[bytes, bytes]) -> None:
        """Stores vectors in the documents, if there are any. A failure is logged."""
        if self._documents is None:
            return
        try:
            await self._documents.put_many(
                self._kind, {key.hex(): row for key, row in rows.items()}, ttl=_LASTING_SECONDS
            )
        except StorageError as error:
            log.warning("vectors_not_written", embedder=self.name, error=str(error))

    @property
    def _kind(self) -> str:
        return f"vector:{hashlib.blake2b(self.name.encode(), digest_size=16).hexdigest()}"

    # --- a source that fails ------------------------------------------------------------------------------------------

    def _failed(self, error: Exception) -> None:
        """Notes a failure of the source: it gets no request for `PAUSE` seconds. Only the first of several failures is logged."""
        self._down_until = self._clock() + PAUSE
        self._problem = _error_sentence(error) or f"no answer within {self._patience:g} s"
        if not self._down:
            self._down = True
            log.warning(
                "embedder_failed", embedder=self.name, error=self._problem, until_it_works="words alone find the tools"
            )

    def _worked(self) -> None:
        if self._down:
            self._down = False
            log.info("embedder_works_again", embedder=self.name)


def _error_sentence(error: Exception) -> str:
    return str(error) if isinstance(error, ToolcaddieError | TimeoutError) else repr(error)


def _put_all(table: _Rows, rows: Mapping[bytes, bytes]) -> None:
    for key, row in rows.items():
        table.put(key, row)


def _rows_of(table: _Rows, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    return {key: row for key in keys if (row := table.get(key)) is not None}


def _key(text: str, kind: bytes) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, person=kind).digest()


def _embedded(source: Embedder, texts: list[str], requests: bool) -> Any:
    return request_vectors(source, texts) if requests else source.embed(texts)


def _missing(texts: Sequence[str], keys: Sequence[bytes], present: Mapping[bytes, bytes]) -> dict[bytes, str]:
    return {key: text for key, text in zip(keys, texts, strict=True) if key not in present}


def _steps(texts: Mapping[bytes, str], size: int) -> Iterator[dict[bytes, str]]:
    items = list(texts.items())
    return (dict(items[start : start + size]) for start in range(0, len(items), size))


def _rows(vectors: Any, count: int, name: str) -> list[bytes]:
    """Returns each row of `vectors` as the bytes of half floats. Raises `ConfigError` unless `vectors` is an array of `count`
    rows whose numbers are those of a vector of length 1."""
    try:
        array = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"the embedder {name!r} returned a {type(vectors).__name__} that is not an array of numbers"
        ) from error
    if array.ndim != 2 or len(array) != count:
        raise ConfigError(f"the embedder {name!r} returned an array of shape {array.shape} for {count} texts")
    if not (np.abs(array) < _TOO_LONG).all():  # no comparison with NaN is true, so NaN is refused too
        raise ConfigError(f"the embedder {name!r} returned numbers that cannot be those of vectors of length 1")
    return [row.tobytes() for row in array.astype(np.float16)]
