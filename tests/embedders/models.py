"""Two small models: a text is how often it says each letter."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from toolcaddie.core.errors import ProviderUnavailableError

Floats = npt.NDArray[np.float32]

_SYNONYMS = {"pause": "freeze", "halt": "freeze"}
"""What words alone cannot know."""


class Letters:
    """`ports.Embedder`; `asked` holds every text it was given."""

    dimensions = 26
    languages = None

    def __init__(self, name: str = "letters") -> None:
        self.name = name
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Floats:
        self.asked += texts
        return np.stack([_letters(text) for text in texts]) if texts else np.zeros((0, 26), dtype=np.float32)


class RemoteLetters:
    """`ports.RemoteEmbedder`, and all that may go wrong with one."""

    name = "remote letters"
    dimensions = 0
    languages = None

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.times_asked = 0
        self.fails = self.hangs = self.longer = self.closed = False
        self.fails_after: int | None = None
        """Texts it answers before it fails."""

    async def fetch(self, texts: Sequence[str]) -> Floats:
        self.times_asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails or (self.fails_after is not None and len(self.asked) >= self.fails_after):
            raise ProviderUnavailableError("the embedder at http://test cannot be reached")
        self.asked += texts
        found = np.stack([_letters(text) for text in texts])
        return np.pad(found, ((0, 0), (0, 1))) if self.longer else found

    async def close(self) -> None:
        self.closed = True


def _letters(text: str) -> Floats:
    said = " ".join(_SYNONYMS.get(word, word) for word in text.lower().split())
    counts = np.array([said.count(chr(ord("a") + i)) for i in range(26)], dtype=np.float32)
    length = np.linalg.norm(counts)
    return np.asarray(counts / length if length else counts, dtype=np.float32)


_CONCEPTS = {"pause": 0, "freeze": 0, "holiday": 0, "mail": 1, "letter": 1, "invoice": 2, "bill": 2}


class Meanings:
    """A model that knows a few words, and that some of them mean the same."""

    name = "meanings"
    dimensions = 3
    languages = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Floats:
        self.asked += texts
        found = np.zeros((len(texts), 3), dtype=np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in text.lower().replace(".", " ").replace(":", " ").split():
                if word in _CONCEPTS:
                    row[_CONCEPTS[word]] = 1.0
            row /= max(1.0, float(np.linalg.norm(row)))
        return found


class RemoteMeanings:
    """The same behind an address."""

    name = "remote meanings"
    dimensions = 0
    languages = None

    def __init__(self) -> None:
        self.model = Meanings()
        self.fails = self.hangs = self.closed = False
        self.times_asked = 0

    async def fetch(self, texts: Sequence[str]) -> Floats:
        self.times_asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise ProviderUnavailableError("the embedder at http://test cannot be reached")
        return self.model.embed(texts)

    async def close(self) -> None:
        self.closed = True
