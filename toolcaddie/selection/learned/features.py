"""A request as numbers: its stems, its neighbouring words, and the letters of its words, each as a hash with a strength.

Hashes instead of words keep the memory small and the words of others out of it. How rare a feature is (Sparck Jones, "A
statistical interpretation of term specificity", 1972) is counted later, over the whole log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import numpy.typing as npt

from toolcaddie.ports import QueryWords
from toolcaddie.selection.query import language_of, split_words, stems_of
from toolcaddie.selection.stopwords import STOP_WORDS

Floats = npt.NDArray[np.float32]
Hashes = npt.NDArray[np.uint32]

MOST = 256
"""Features kept of a request, the strongest."""

_STOP_WORD = 0.6
"""A stop word beside a content word. More than where tools are searched: "how do I" and "show me" tell requests apart."""
_PAIR = 0.5
_PAIR_APART = 0.25
"""Two words in a row, and with one between them, beside a single word."""
_LETTERS = 0.8
"""The runs of three letters of a word together, beside the word."""
_MOST_WORDS = 64
"""Words read at each end of a message."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """Hashes in rising order, each once, and their strengths. Odd hashes are of letters: these are compared, not searched."""

    hashes: Hashes
    values: Floats


def features_of(words: QueryWords) -> Features:
    """What a request is compared by. A word said in several messages is as strong as these together; names of tools called
    lately are no part of it."""
    stems: dict[int, float] = {}
    others: dict[int, float] = {}
    for text, weight in (*words.messages, *words.replies):
        for hashed, value, alone in _features(text):
            if alone:
                stems[hashed] = stems.get(hashed, 0.0) + weight * value
            else:
                others[hashed] = max(others.get(hashed, 0.0), weight * value)
    found = {**others, **stems}
    hashes = np.fromiter(found, dtype=np.uint32, count=len(found))
    values = np.fromiter(found.values(), dtype=np.float32, count=len(found))
    if len(hashes) > MOST:
        kept = np.lexsort((hashes, -values))[:MOST]
        hashes, values = hashes[kept], values[kept]
    order = np.argsort(hashes)
    return Features(hashes=hashes[order], values=values[order])


def _features(text: str) -> Iterator[tuple[int, float, bool]]:
    """Hash, strength, and whether it is that of a single word."""
    spoken = split_words(text)
    if len(spoken) > 2 * _MOST_WORDS:
        spoken = [*spoken[:_MOST_WORDS], *spoken[-_MOST_WORDS:]]
    language = language_of(spoken) or "english"
    stop = STOP_WORDS[language]
    seen: set[str] = set()
    for word, (stem, *_) in zip(spoken, stems_of(spoken, (language,)), strict=True):
        if stem in seen:
            continue
        seen.add(stem)
        value = _STOP_WORD if word in stop else 1.0
        yield _hashed("w", stem) & ~1, value, True
        runs = _runs(stem)
        for run in runs:
            yield _hashed("l", run) | 1, _LETTERS * value / len(runs) ** 0.5, False
    for apart, value in ((1, _PAIR), (2, _PAIR_APART)):
        for first, second in zip(spoken, spoken[apart:], strict=False):
            yield _hashed("p", f"{first} {second}") & ~1, value, False


def _runs(stem: str) -> Sequence[str]:
    marked = f" {stem} "
    return list(dict.fromkeys(marked[start : start + 3] for start in range(len(marked) - 2)))


def _hashed(kind: str, text: str) -> int:
    return crc32(f"{kind}{text}".encode())
