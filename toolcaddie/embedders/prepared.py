"""Vectors that are made before a selection compares them. They are cached in memory, and those of a catalog also in a `Store`, so
that a restart does not make them again.

A selection does no I/O and never waits. Its caller therefore awaits `prepare` with the texts first; the ranker then finds the
vectors here, through the same port `Embedder` as if it called the model itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from toolcaddie.core.errors import ConfigError, ProviderError, ProviderProtocolError, StorageError, ToolcaddieError
from toolcaddie.embedders.bert import Floats, unit
from toolcaddie.ports import Embedder, RemoteEmbedder, Store
from toolcaddie.util.bounded import Bounded, Limit
from toolcaddie.util.log import Logger

log = Logger(__name__)

PATIENCE = 1.0
"""Most seconds that a request waits for vectors."""
PAUSE = 30.0
"""Seconds for which a failed embedder gets no request, so that it delays one request and not all."""

_Rows = Bounded[bytes, bytes]
"""Vectors by the digest of their text."""

_QUERY_BYTES = 16 * 1024 * 1024
_CATALOG_BYTES = 256 * 1024 * 1024
"""Most bytes in memory: 25,000 tools of 3,072 numbers take 154 MB, of 384 numbers 19 MB."""
_LASTING_SECONDS = 180 * 86_400.0
"""Seconds that vectors of removed tools stay on disk."""
_TOO_LONG = 1.5
_LOCAL_AT_ONCE = 32
_REMOTE_AT_ONCE = 256
"""Texts of one batch. Finished batches are cached, so that an interrupted catalog continues where it stopped."""


class Prepared:
    """Implements `ports.Embedder` over prepared vectors. Safe for many threads.

    A text without a vector is embedded at once by a local `source`; if the source is remote or fails, its vector is zeros.
    Vectors are stored as half floats and rounded to these from the beginning, so that a restart changes no score. The cosine of
    two texts differs from that of float32 vectors by less than 1e-4.
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
        """Numbers in a vector; 0: not set, and a remote source has not answered yet."""
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
        """The error of the last request to the source; empty: it succeeded."""
        return self._problem if self._down else ""

    def embed(self, texts: Sequence[str]) -> Floats:
        """Returns float32 [texts, dimensions]; a text without a vector is treated as the class says."""
        keys = [_key(text) for text in texts]
        rows_by_key = self._rows_in_memory(keys)
        if not isinstance(self._source, RemoteEmbedder) and (missing := _missing(texts, keys, rows_by_key)):
            fresh = self._rows_now(self._source, missing)
            _put_all(self._passing, fresh)
            rows_by_key |= fresh
        zeros = bytes(2 * self.dimensions)
        rows = (row if len(row := rows_by_key.get(key, zeros)) == len(zeros) else zeros for key in keys)
        halves = np.frombuffer(b"".join(rows), dtype=np.float16)
        return unit(halves.astype(np.float32).reshape(len(texts), self.dimensions))

    async def prepare(self, texts: Sequence[str]) -> None:
        """Makes the vectors of a request's texts, within `patience` seconds. A source that fails or is too slow is logged once
        and gets no request for a while; nothing is raised and nothing is written to disk."""
        missing = self._lacking(texts)
        if not missing or self._clock() < self._down_until:
            return
        try:
            async with asyncio.timeout(self._patience if isinstance(self._source, RemoteEmbedder) else None):
                vectors = await self._fresh_rows(list(missing.values()))
        except Exception as error:  # noqa: BLE001  a stranger's embedder raises anything; no request fails because of it
            self._failed(error)
        else:
            _put_all(self._passing, dict(zip(missing, vectors, strict=True)))
            self._worked()

    async def prepare_lasting(self, texts: Sequence[str], *, written: bool = True) -> None:
        """Gets the vectors of a catalog from memory, from the documents, or from the source, without a limit of time. `written`:
        store them in the documents.

        Raises `ProviderError` if the source fails, or has just failed, and `ConfigError` if it returns no vectors; vectors made
        until then are kept.
        """
        missing = await asyncio.to_thread(self._lacking, texts)  # a pass over 50,000 texts takes time
        if written:
            stored = await self._stored(list(missing))
            missing = {key: text for key, text in missing.items() if key not in stored}
        if missing and self._clock() < self._down_until:
            raise ProviderProtocolError(f"{self.name} failed a moment ago and gets no request for a while")
        for step in _steps(missing, _REMOTE_AT_ONCE if isinstance(self._source, RemoteEmbedder) else _LOCAL_AT_ONCE):
            try:
                vectors = await self._fresh_rows(list(step.values()))
            except (ProviderError, ConfigError) as error:
                self._failed(error)
                raise
            except Exception as error:
                self._failed(error)
                raise ProviderProtocolError(f"{self.name} failed: {error!r}") from error
            self._worked()
            fresh = dict(zip(step, vectors, strict=True))
            _put_all(self._lasting, fresh)
            if written:
                await self._write(fresh)

    async def close(self) -> None:
        if isinstance(self._source, RemoteEmbedder):
            await self._source.close()

    # --- sources of vectors -------------------------------------------------------------------------------------------

    async def _fresh_rows(self, texts: list[str]) -> list[bytes]:
        source = self._source
        if isinstance(source, RemoteEmbedder):
            rows = _rows(await source.fetch(texts), len(texts), source.name)
            numbers = len(rows[0]) // 2 if rows else self._dimensions
            if self._dimensions not in (0, numbers):
                raise ProviderProtocolError(
                    f"{source.name} gives vectors of {numbers} numbers now; the stored ones have {self._dimensions}; "
                    f"set embedding.dimensions to {numbers}, and all vectors are made again"
                )
        else:
            rows = _rows(await asyncio.to_thread(source.embed, texts), len(texts), source.name)
        self._dimensions = self._dimensions or (len(rows[0]) // 2 if rows else 0)
        return rows

    def _rows_now(self, source: Embedder, missing: Mapping[bytes, str]) -> dict[bytes, bytes]:
        """Returns vectors of a local source during a selection; none if it fails, or has just failed."""
        if self._clock() < self._down_until:
            return {}
        try:
            rows = _rows(source.embed(list(missing.values())), len(missing), source.name)
        except Exception as error:  # noqa: BLE001  a stranger's embedder raises anything; no request fails because of it
            self._failed(error)
            return {}
        return dict(zip(missing, rows, strict=True))

    def _lacking(self, texts: Sequence[str]) -> dict[bytes, str]:
        keys = [_key(text) for text in texts]
        return _missing(texts, keys, self._rows_in_memory(keys))

    def _rows_in_memory(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return _rows_of(self._lasting, keys) | _rows_of(self._passing, keys)

    async def _stored(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Returns the vectors in the documents that have the right size; if the store fails, they are made again."""
        if self._documents is None or not keys:
            return {}
        try:
            values = await self._documents.get_many(self._kind, (key.hex() for key in keys))
        except StorageError as error:
            log.warning("vectors_not_read", embedder=self.name, error=str(error))
            return {}
        return await asyncio.to_thread(self._loaded, values)

    def _loaded(self, values: Mapping[str, bytes]) -> dict[bytes, bytes]:
        sizes = {len(value) for value in values.values()}
        if not self.dimensions and len(sizes) == 1:
            self._dimensions = sizes.pop() // 2
        whole = {bytes.fromhex(key): value for key, value in values.items() if 0 < len(value) == 2 * self.dimensions}
        numbers = np.frombuffer(b"".join(whole.values()), dtype=np.float16).reshape(len(whole), self.dimensions)
        good: npt.NDArray[np.bool_] = np.asarray(np.isfinite(numbers).all(axis=1))
        rows = {key: whole[key] for place, key in enumerate(whole) if good[place]}
        _put_all(self._lasting, rows)
        return rows

    async def _write(self, rows: Mapping[bytes, bytes]) -> None:
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


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _missing(texts: Sequence[str], keys: Sequence[bytes], present: Mapping[bytes, bytes]) -> dict[bytes, str]:
    return {key: text for key, text in zip(keys, texts, strict=True) if key not in present}


def _steps(texts: Mapping[bytes, str], size: int) -> Iterator[dict[bytes, str]]:
    items = list(texts.items())
    return (dict(items[start : start + size]) for start in range(0, len(items), size))


def _rows(vectors: Any, count: int, name: str) -> list[bytes]:
    """Returns each row as half floats. Raises `ConfigError` unless `vectors` is an array of `count` rows of length 1 or less."""
    try:
        array = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"the embedder {name!r} gave a {type(vectors).__name__} that is no array of numbers"
        ) from error
    if array.ndim != 2 or len(array) != count:
        raise ConfigError(f"the embedder {name!r} gave an array of shape {array.shape} for {count} texts")
    if not (np.abs(array) < _TOO_LONG).all():  # NaN is below nothing, so it is refused too
        raise ConfigError(f"the embedder {name!r} gave numbers that are not those of a vector of length 1")
    return [row.tobytes() for row in array.astype(np.float16)]
