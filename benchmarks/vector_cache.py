"""A cache of vectors in a folder for the selection benchmarks, because a model takes half an hour for the texts of all labelled
sets."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolcaddie.ports import AsymmetricEmbedder, Embedder, request_vectors

Floats = npt.NDArray[np.float32]

_BATCH = 256
_PROGRESS_EVERY = 1_000


class VectorCache:
    """An embedder (`ports.Embedder`) with the name of `source`. It calls `source` only for texts whose vectors are not in the
    folder.

    There is one file per model, with the digest and the vector of each text in turn. An interrupted run continues where it
    stopped. Vectors are stored as half floats, like those that a running Toolcaddie compares (`embedders.prepared`).
    """

    def __init__(self, source: Embedder, folder: Path) -> None:
        self.name = source.name
        self.dimensions = source.dimensions
        self.languages = source.languages
        self._source = source
        self._record = np.dtype([("key", "S32"), ("row", "<f2", (source.dimensions,))])
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"{source.name}.vectors"
        self._rows = self._read()

    def embed(self, texts: Sequence[str]) -> Floats:
        """Returns float32 [texts, dimensions]; each row has length 1, or 0 if the model has no vector for the text."""
        return self._vectors(texts, "", self._source.embed)

    def embed_requests(self, texts: Sequence[str]) -> Floats:
        """Returns the vectors of requests, which some models read in another way."""
        kind = "request: " if isinstance(self._source, AsymmetricEmbedder) else ""
        return self._vectors(texts, kind, partial(request_vectors, self._source))

    def _vectors(self, texts: Sequence[str], kind: str, make: Callable[[Sequence[str]], Any]) -> Floats:
        keys = [_key(kind + text) for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._rows}
        self._make(missing, make)
        halves = np.array([self._rows[key] for key in keys], dtype=np.float16).reshape(len(texts), self.dimensions)
        vectors = halves.astype(np.float32)
        unit: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-9))
        return unit

    def _make(self, missing: dict[bytes, str], make: Callable[[Sequence[str]], Any]) -> None:
        """Makes the vectors of these texts (by digest) and appends them to the file, batch by batch."""
        items, started, done = list(missing.items()), time.monotonic(), 0
        while done < len(items):
            some = items[done : done + _BATCH]
            vectors = make([text for _, text in some]).astype(np.float16)
            records = np.zeros(len(some), dtype=self._record)
            records["key"], records["row"] = [key for key, _ in some], vectors
            with self._file.open("ab") as file:
                file.write(records.tobytes())
            self._rows |= {key: row for (key, _), row in zip(some, vectors, strict=True)}
            done += len(some)
            if len(items) >= _PROGRESS_EVERY and done // _PROGRESS_EVERY > (done - len(some)) // _PROGRESS_EVERY:
                seconds = time.monotonic() - started
                print(f"{self.name}: {done:,} of {len(items):,} texts, {seconds:.0f} s", file=sys.stderr, flush=True)

    def _read(self) -> dict[bytes, npt.NDArray[np.float16]]:
        if not self._file.exists():
            return {}
        whole = self._file.stat().st_size // self._record.itemsize
        with self._file.open("r+b") as file:
            file.truncate(whole * self._record.itemsize)  # drops the incomplete record of a killed run
        records = np.fromfile(self._file, dtype=self._record)
        return dict(zip(records["key"].tolist(), records["row"], strict=True))


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest().encode()
