"""Features by which the learning log compares requests: stems, pairs of words, and runs of three letters. Each feature is a hash
with a strength.

Hashes are smaller than words, and features of other people's requests do not show their words. The rarity of a feature (Sparck
Jones, "A statistical interpretation of term specificity", 1972) is counted later, over the whole log.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

from toolcaddie.core.selection import QueryWords
from toolcaddie.selection.query import language_of, split_words, stems_of
from toolcaddie.selection.stopwords import STOP_WORDS, Language

Floats = npt.NDArray[np.float32]
Hashes = npt.NDArray[np.uint32]

MOST = 256
"""The largest number of features of a request; of more, the strongest are used."""

_STOP_WORD = 0.6
"""Weight of a stop word; a content word has 1. It is higher than in the search of tools, because "how do I" and "show me"
distinguish requests."""
_PAIR = 0.5
"""Weight of a pair of adjacent words; a single word has 1."""
_PAIR_APART = 0.25
"""Weight of a pair of words with one word between them."""
_LETTERS = 0.8
"""Weight of all three-letter runs of a content word together; the word itself has 1."""
_MOST_WORDS = 64
"""The largest number of words that are read at each end of a message."""
_MOST_TEXT = 4_096
"""The largest number of characters that are read at each end of a message."""
_LONGEST_WORD = 24
"""The number of characters of a word of which three-letter runs are made."""
_MOST_CACHED = 16_384
"""The number of words whose hashes are cached."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """The features of a request: hashes in rising order, each once, and their strengths.

    Hashes of stems and pairs of words are even, and the index is searched by them. Hashes of three-letter runs are odd, and are
    only compared.
    """

    hashes: Hashes
    values: Floats


def features_of(words: QueryWords) -> Features:
    """Returns the features of a request. The strengths of a word in several messages add up. Names of tools that were called
    before are not features."""
    messages = [(_read(text), weight) for text, weight in (*words.messages, *words.replies)]
    if not messages:
        return Features(hashes=np.empty(0, dtype=np.uint32), values=np.empty(0, dtype=np.float32))
    hashes = np.concatenate([each.stems for each, _ in messages])
    values = np.concatenate([weight * each.stem_values for each, weight in messages])
    stems, numbers = np.unique(hashes, return_inverse=True)
    summed = np.bincount(numbers, weights=values, minlength=len(stems)).astype(np.float32)
    others, largest = _largest(
        np.concatenate([each.others for each, _ in messages]),
        np.concatenate([weight * each.other_values for each, weight in messages]),
    )
    hashes, values = np.concatenate([stems, others]), np.concatenate([summed, largest])
    if len(hashes) > MOST:
        strongest = np.lexsort((hashes, -values))[:MOST]
        hashes, values = hashes[strongest], values[strongest]
    hashes, first = np.unique(hashes, return_index=True)
    return Features(hashes=hashes, values=values[first].astype(np.float32))


@dataclass(frozen=True, slots=True)
class _Word:
    """The hashes of a word: of its stem, of the word itself, and of its three-letter runs unless it is a stop word."""

    stem: int
    itself: int
    value: float
    """Weight of the word: 1, or less for a stop word."""
    letters: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Message:
    """The features of one message: its stems, each once, and all others (pairs of words and three-letter runs)."""

    stems: Hashes
    stem_values: Floats
    others: Hashes
    other_values: Floats


def _read(text: str) -> _Message:
    """Returns the features of a message; of a long one, those of its beginning and its end."""
    if len(text) > 2 * _MOST_TEXT:
        text = f"{text[:_MOST_TEXT]} {text[-_MOST_TEXT:]}"
    all_words = split_words(text.encode("utf-8", "replace").decode())  # without unpaired surrogates
    if len(all_words) > 2 * _MOST_WORDS:
        all_words = [*all_words[:_MOST_WORDS], *all_words[-_MOST_WORDS:]]
    language = language_of(all_words) or "english"
    words = [_word(word, language) for word in all_words]
    once = {word.stem: word for word in words}.values()
    itself = np.array([word.itself for word in words], dtype=np.uint32)
    near, apart = _pair_hashes(itself[:-1], itself[1:]), _pair_hashes(itself[:-2], itself[2:])
    letters = [letter for word in once for letter in word.letters]
    sizes = [len(word.letters) for word in once]
    strengths = [_LETTERS / len(word.letters) ** 0.5 if word.letters else 0.0 for word in once]
    return _Message(
        stems=np.array([word.stem for word in once], dtype=np.uint32),
        stem_values=np.array([word.value for word in once], dtype=np.float32),
        others=np.concatenate([near, apart, np.array(letters, dtype=np.uint32)]),
        other_values=np.concatenate(
            [
                np.full(len(near), _PAIR, dtype=np.float32),
                np.full(len(apart), _PAIR_APART, dtype=np.float32),
                np.repeat(np.array(strengths, dtype=np.float32), sizes),
            ]
        ),
    )


@lru_cache(maxsize=_MOST_CACHED)
def _word(word: str, language: Language) -> _Word:
    """Returns the hashes and the weight of a word. The lowest bit of a stem's hash is 0, that of a three-letter run is 1
    (`Features`)."""
    stem = stems_of([word], (language,))[0][0]
    is_stop_word = word in STOP_WORDS[language]
    marked = f" {stem} "[:_LONGEST_WORD]
    runs = () if is_stop_word else dict.fromkeys(marked[start : start + 3] for start in range(len(marked) - 2))
    return _Word(
        _hashed("w", stem) & ~1,
        _hashed("i", word),
        _STOP_WORD if is_stop_word else 1.0,
        tuple(_hashed("l", run) | 1 for run in runs),
    )


def _pair_hashes(first: Hashes, second: Hashes) -> Hashes:
    """Returns an even hash for each pair of words; the hash depends on the order of the two words."""
    mixed: Hashes = (first * np.uint32(0x9E3779B1) ^ second) & np.uint32(0xFFFFFFFE)
    return mixed


def _largest(hashes: Hashes, values: Floats) -> tuple[Hashes, Floats]:
    """Returns each hash once, with its largest value."""
    if not len(hashes):
        return hashes, values
    order = np.argsort(hashes, kind="stable")
    hashes, values = hashes[order], values[order]
    starts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
    return hashes[starts], np.maximum.reduceat(values, starts)


def _hashed(kind: str, text: str) -> int:
    return crc32(f"{kind}{text}".encode())
