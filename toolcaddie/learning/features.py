"""Features of a request: its stems, pairs of words, and three-letter runs, each as a hash with a strength.

Hashes keep the memory small, and the words of other people out of it. The rarity of a feature (Sparck Jones, "A statistical
interpretation of term specificity", 1972) is counted later, over the whole log.
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
"""Most features of a request, the strongest."""

_STOP_WORD = 0.6
"""Weight of a stop word; a content word has 1. Higher than in the search of tools: "how do I" and "show me" distinguish
requests."""
_PAIR = 0.5
_PAIR_APART = 0.25
"""Weights of two adjacent words, and of two with one between them; a single word has 1."""
_LETTERS = 0.8
"""Weight of all three-letter runs of a content word together; the word has 1."""
_MOST_WORDS = 64
"""Words read at each end of a message."""
_MOST_TEXT = 4_096
_LONGEST_WORD = 24
_MOST_CACHED = 16_384


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """Hashes in rising order, each once, and their strengths. Odd hashes are of letters: these are compared, not searched."""

    hashes: Hashes
    values: Floats


def features_of(words: QueryWords) -> Features:
    """Returns the features that requests are compared by. A word in several messages is as strong as all of them together; names
    of tools called before are no features."""
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
    """A word's hashes: of its stem, of itself, and, if it is no stop word, of its letters."""

    stem: int
    itself: int
    value: float
    letters: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Message:
    """A message's features: its stems, each once, and the rest."""

    stems: Hashes
    stem_values: Floats
    others: Hashes
    other_values: Floats


def _read(text: str) -> _Message:
    if len(text) > 2 * _MOST_TEXT:
        text = f"{text[:_MOST_TEXT]} {text[-_MOST_TEXT:]}"
    all_words = split_words(text.encode("utf-8", "replace").decode())
    if len(all_words) > 2 * _MOST_WORDS:
        all_words = [*all_words[:_MOST_WORDS], *all_words[-_MOST_WORDS:]]
    language = language_of(all_words) or "english"
    words = [_word(word, language) for word in all_words]
    once = {word.stem: word for word in words}.values()
    itself = np.array([word.itself for word in words], dtype=np.uint32)
    near, apart = _together(itself[:-1], itself[1:]), _together(itself[:-2], itself[2:])
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


def _together(first: Hashes, second: Hashes) -> Hashes:
    """Returns the hashes of pairs of words, in their order; they are even."""
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
