"""Vectors of words by a table: the vector of a text is the sum of the vectors of its word pieces. The table is part of every
installation, needs only numpy, and takes about 20 us for a text.

`scripts/make_word_table.py` made the table (`words.npz`), so that the sums have nearly the directions of a sentence model's
vectors. Words are cut into the pieces of that model (WordPiece, Schuster and Nakajima 2012), the longest piece first. A vector is
long if its word says much: 0.2 for "the", 1.7 for "superbowl".
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolcaddie.selection.languages.guess import ENGLISH, OTHER
from toolcaddie.selection.languages.tables import language_tables
from toolcaddie.selection.query import fold
from toolcaddie.selection.shipped import reading

Floats = npt.NDArray[np.float32]

_FILE = Path(__file__).with_name("words.npz")
_MOST_TEXT = 8_192
"""The number of characters of a text that are read."""
_LONGEST_WORD = 100
"""The largest number of characters of a word that is cut into pieces; longer ones have no vector."""
_LETTERS = 3
"""A text gets a vector only if one of its word pieces has at least this many letters. Shorter pieces, as those of 'xyzzy', are
near to others by chance."""
_MOST_CACHED = 16_384
"""The largest number of words whose pieces are cached."""
_MOST_REQUESTS = 256
"""The largest number of messages whose pieces are cached."""
_UNTRANSLATED = 0.25
"""Weight of a word without a translation in a foreign text: often a name."""
_UNKNOWN_IMPORTANCE = 1.5
"""Importance of a word without a piece in the table; such words are rare."""
_IMPORTANT = 1.2
"""Importance from which a word keeps all of its weight."""
_STEEPNESS = 0.8
"""Exponent of the importance of a word, relative to that."""
_LEAST_SHARE = 0.5
"""The least share of its weight that a word keeps."""
_AT_ONCE = 2_048
"""The number of rows whose lengths are computed in one step, which limits memory."""
_PART = re.compile(r"[^\W_]+|[^\w\s]|_")


class WordTable:
    """Makes vectors by the table of word pieces. Safe for many threads. Implements `ports.Embedder`."""

    name = "words-2"
    languages = None

    def __init__(self, pieces: Sequence[str], rows: npt.NDArray[np.int8], scales: Floats) -> None:
        self.dimensions = rows.shape[1]
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._rows, self._scales = rows, scales
        self._squares = _squared_lengths(rows, scales)
        self._worded = [len(piece.removeprefix("##")) >= _LETTERS for piece in pieces]
        self._pieces_of = lru_cache(maxsize=_MOST_CACHED)(self._cut)
        self._request = lru_cache(maxsize=_MOST_REQUESTS)(self._request_summands)
        self.importance = lru_cache(maxsize=_MOST_CACHED)(self._importance)
        """Returns the length of a word's vector before it is scaled: about 0.2 for "the" and 1.7 for "superbowl"."""
        self.share = lru_cache(maxsize=_MOST_CACHED)(self._share)
        """Returns the share of a word's weight that remains in a request, 0.5 to 1: less for words that are common in English,
        whatever the catalog. In a small catalog a common word is often as rare as the name of a thing."""
        self._tables = language_tables()

    def embed(self, texts: Sequence[str]) -> Floats:
        """Returns float32 [texts, 256]: unit vectors of texts about tools, or zeros if the tables have no piece of the text."""
        return self._vectors([self._summands(text, self._tables.guess.of_description(text)) for text in texts])

    def embed_requests(self, texts: Sequence[str]) -> Floats:
        """Returns the vectors of requests. They differ from `embed` in that a single word may be foreign."""
        return self._vectors([self._request(text) for text in texts])

    def is_worded(self, text: str) -> bool:
        """Returns True if a text has a piece of at least three letters. Texts of shorter pieces are near to others by chance."""
        return any(self._worded[number] for number in self._request(text)[0])

    def words(self) -> list[str]:
        """Returns the English words that are pieces by themselves."""
        return [piece for piece in self._numbers if piece.isascii() and piece.isalpha() and len(piece) >= _LETTERS]

    def _vectors(self, summands: Sequence[tuple[list[int], Floats | None]]) -> Floats:
        vectors = np.zeros((len(summands), self.dimensions), dtype=np.float32)
        for row, (numbers, weights) in zip(vectors, summands, strict=True):
            if numbers:
                scales = self._scales[numbers] if weights is None else self._scales[numbers] * weights
                np.dot(scales, self._rows[numbers].astype(np.float32), out=row)
        lengths = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
        unit: Floats = vectors / np.maximum(lengths, np.float32(1e-9))
        return unit

    def _request_summands(self, text: str) -> tuple[list[int], Floats | None]:
        """Returns the summands of a request. The latest are cached, because each later turn of a conversation has them again."""
        return self._summands(text, self._tables.guess.of(text))

    def _summands(self, text: str, code: str) -> tuple[list[int], Floats | None]:
        """Returns the numbers of the pieces whose rows make the vector of a text, and their weights; None: all weigh 1. A word of
        another language than English has the pieces of its English words."""
        if code in (ENGLISH, OTHER):
            return self._numbers_of(text), None
        numbers: list[int] = []
        weights: list[float] = []
        for word, english in self._tables.of(code).translated(text[:_MOST_TEXT]):
            for part, weight in english or ((word, _UNTRANSLATED),):
                own = self._pieces_of(part)
                numbers += own
                weights += [weight] * len(own)
        return numbers, np.array(weights, dtype=np.float32)

    def _numbers_of(self, text: str) -> list[int]:
        return [number for word in _PART.findall(fold(text[:_MOST_TEXT])) for number in self._pieces_of(word)]

    def _importance(self, word: str) -> float:
        numbers = self._pieces_of(word)
        return math.sqrt(sum(self._squares[number] for number in numbers)) if numbers else _UNKNOWN_IMPORTANCE

    def _share(self, word: str) -> float:
        share: float = min(1.0, self.importance(word) / _IMPORTANT) ** _STEEPNESS
        return max(_LEAST_SHARE, share)

    def _cut(self, word: str) -> tuple[int, ...]:
        """Returns the numbers of the pieces of a word; none if the table lacks a piece for some part of the word."""
        numbers: list[int] = []
        start = 0
        while start < len(word) <= _LONGEST_WORD:
            ends = range(len(word), start, -1)
            lead = "##" if start else ""
            hit = next(
                ((end, at) for end in ends if (at := self._numbers.get(lead + word[start:end])) is not None), None
            )
            if hit is None:
                return ()
            start, number = hit
            numbers.append(number)
        return tuple(numbers)


def _squared_lengths(rows: npt.NDArray[np.int8], scales: Floats) -> array[float]:
    """Returns the squared length of the vector of each piece."""
    squares = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE].astype(np.float32)
        squares[start : start + _AT_ONCE] = np.einsum("ij,ij->i", some, some)
    return array("d", (squares * scales.astype(np.float64) ** 2).tobytes())


@lru_cache(maxsize=1)
def word_table() -> WordTable:
    """Returns the table, which is read at first use (about 50 ms, 7 MB). Raises `ConfigError` if the file is damaged."""
    with reading(_FILE), np.load(_FILE) as stored:
        return WordTable(str(stored["pieces"]).split("\n"), stored["rows"], stored["scales"])
