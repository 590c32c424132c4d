"""The language tables: English words for the words of other languages. `scripts/language_table` makes them from translations of
user interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from toolcaddie.selection.languages.guess import ALPHABETS, Alphabet, Guess
from toolcaddie.selection.languages.words import LANGUAGES, UNSPACED, longest_matches, spelled, stemmed
from toolcaddie.selection.shipped import reading

_FILE = Path(__file__).with_name("tables.npz")
_SHORTEST_PREFIX = 4
"""The least number of letters of a known word that stands for a longer unknown one."""
_MOST_CACHED = 4_096
"""The largest number of words of a language whose English words are cached."""
_STEP = 1 / 32
"""The unit of the scores by which languages are recognised."""

Words = tuple[tuple[str, float], ...]
"""English words with weights of 0 to 1, the best first."""


class LanguageTable:
    """English words for the words of one language. Safe for many threads."""

    def __init__(
        self, code: str, words: Sequence[str], english: Sequence[str], rows: np.ndarray, weights: np.ndarray
    ) -> None:
        self.code = code
        self._words = words
        self._english = english
        self._rows, self._weights = rows, weights
        self._numbers = {word: number for number, word in enumerate(words)}
        self._longest = max(map(len, words), default=0)
        self._english_for = lru_cache(maxsize=_MOST_CACHED)(self._look_up)

    def translated(self, text: str) -> list[tuple[str, Words]]:
        """Returns each word of a text with its English words; none for a word that the table does not have, such as a name."""
        words = spelled(text)
        if self.code in UNSPACED:
            words = [
                part
                for word in words
                for part in ((word,) if word.isascii() else longest_matches(word, self._numbers, self._longest))
            ]
        return [(word, self._english_for(stem)) for word, stem in zip(words, stemmed(words, self.code), strict=True)]

    def _look_up(self, stem: str) -> Words:
        number = self._numbers.get(stem)
        if number is None:
            number = self._longest_start(stem)
        if number is None:
            return ()
        return tuple(
            (self._english[row], weight / 255)
            for row, weight in zip(self._rows[number].tolist(), self._weights[number].tolist(), strict=True)
            if weight
        )

    def _longest_start(self, stem: str) -> int | None:
        """Returns the number of the longest known word with which an unknown one begins."""
        least = 2 if self.code in ("ko", "hi") else _SHORTEST_PREFIX
        if self.code in UNSPACED or stem.isdigit():
            return None
        for end in range(len(stem) - 1, least - 1, -1):
            if (number := self._numbers.get(stem[:end])) is not None:
                return number
        return None


class LanguageTables:
    """All tables of the package; each is read when its language first occurs."""

    def __init__(self, file: Path = _FILE) -> None:
        self._file = file
        self.guess = Guess({name: self._alphabet(name) for name in ALPHABETS})
        self.of = lru_cache(maxsize=len(LANGUAGES))(self._of)

    def _of(self, code: str) -> LanguageTable:
        stored = self._read(f"{code}.words", f"{code}.rows", f"{code}.weights")
        words = str(stored[f"{code}.words"]).split("\n")
        return LanguageTable(code, words, self._english(), stored[f"{code}.rows"], stored[f"{code}.weights"])

    @lru_cache(maxsize=1)  # noqa: B019  # there is one object for each process
    def _english(self) -> list[str]:
        return str(self._read("english")["english"]).split("\n")

    def _alphabet(self, name: str) -> Alphabet:
        names = [f"{name}.{kind}" for kind in ("words", "words_scores", "parts", "parts_scores")]
        words, word_scores, parts, part_scores = (self._read(*names)[each] for each in names)
        return Alphabet(
            codes=ALPHABETS[name],
            words={word: number for number, word in enumerate(str(words).split("\n"))},
            word_scores=word_scores.astype(np.float32) * np.float32(_STEP),
            parts={part: number for number, part in enumerate(str(parts).split("\n"))},
            part_scores=part_scores.astype(np.float32) * np.float32(_STEP),
        )

    def _read(self, *names: str) -> Mapping[str, np.ndarray]:
        with reading(self._file), np.load(self._file) as stored:
            return {name: stored[name] for name in names}


@lru_cache(maxsize=1)
def language_tables() -> LanguageTables:
    """Returns the tables of the package. Raises `ConfigError` if their file is damaged."""
    return LanguageTables()
