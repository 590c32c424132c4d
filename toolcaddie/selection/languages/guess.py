"""Guesses the language of a text: by its script, and in scripts that several languages share by frequent words and parts of
words."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

ENGLISH = "en"
OTHER = ""
"""The code of a language without a table."""

ALPHABETS: Mapping[str, tuple[str, ...]] = {
    "latin": (
        *(
            ENGLISH,
            "ca",
            "cs",
            "da",
            "de",
            "es",
            "fi",
            "fr",
            "hu",
            "id",
            "it",
            "nl",
            "no",
            "pl",
            "pt",
            "ro",
            "sk",
            "sv",
        ),
        *("tr", "vi"),
    ),
    "cyrillic": ("bg", "ru", "sr", "uk"),
    "arabic": ("ar", "fa"),
}
"""The languages that share an alphabet, English first."""

_MOST_TEXT = 600
"""The number of characters of a text that are read."""
_MOST_WORDS = 60
"""The number of words of a text that are read."""
_SURE = 0.6
"""The lead over English from which a text is in another language, in log-probability."""
_SURE_A_WORD = 0.15
"""The part of that lead that every word of the text must have on average, because a long text leads by chance."""
_SURE_ALONE = 6.0
"""The same lead for one or two words."""
_NAME_WEIGHT = 0.25
"""Weight of a capitalised word, compared with others."""
_BETWEEN = 3
"""The largest distance between two capitalised words that belong to one title, as in "The House of the Rising Sun"."""
_PARTS_WEIGHT = 0.5
"""Weight of the parts of an unknown word, compared with a known word."""

_MOST_CACHED = 4_096
"""The number of texts whose language is cached."""
_MOST_WORDS_CACHED = 16_384
"""The number of words whose lead is cached."""
_FEW_WORDS = 2
"""A text in Latin letters with at most this many words is in another language only if these are very clear."""
_FEW_DESCRIBING = 4
"""A description in ASCII with fewer different words counts as English."""
_ENGLISH_WORDS = frozenset(("the", "and", "with", "this", "from", "that", "your"))
"""Words that stand in no other language of these tables, or in few of its texts."""

_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_SCRIPTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ko", re.compile("[가-힣ᄀ-ᇿ]")),
    ("th", re.compile("[\u0e01-\u0e4e]")),
    ("he", re.compile("[\u05d0-\u05ea]")),
    ("el", re.compile("[\u0370-\u03ff\u1f00-\u1fff]")),
    ("hi", re.compile("[\u0900-\u097f]")),
    ("cyrillic", re.compile("[\u0400-\u052f]")),
    ("arabic", re.compile("[\u0600-\u06ff]")),
    ("latin", re.compile("[A-Za-z\u00aa-\u024f\u1e00-\u1eff]")),
)
_FOREIGN_CYRILLIC = re.compile("[әғқңөұүһҗҙҡҫӑӗўӣӯҷҳӘҒҚҢӨҰҮҺ]")
"""Letters of Kazakh, Tatar, Belarusian, Tajik and others, which have no table."""
_FOREIGN_ARABIC = re.compile("[ٹڈڑںےۆێڕڵ]")
"""Letters of Urdu and Kurdish, which have no table."""
_FOREIGN_LATIN = re.compile("[ėųįāēūķļņģəġħċ]", re.IGNORECASE)
"""Letters of Lithuanian, Latvian, Azerbaijani and Maltese, which have no table."""
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alphabet:
    """How much words and parts of words speak for each language of an alphabet: 0 for the language they fit best, less for
    others."""

    codes: tuple[str, ...]
    words: Mapping[str, int]
    word_scores: npt.NDArray[np.float32]
    parts: Mapping[str, int]
    part_scores: npt.NDArray[np.float32]
    word_leads: Sequence[float] = field(init=False)
    """For each word the lead over the first language of the other one that it fits best."""
    part_leads: Sequence[float] = field(init=False)
    """The same for each part."""
    lead: Callable[[str], float] = field(init=False)
    """Returns the same for any word: that of an unknown word is made of those of its parts."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "word_leads", _leads(self.word_scores))
        object.__setattr__(self, "part_leads", _leads(self.part_scores))
        object.__setattr__(self, "lead", lru_cache(maxsize=_MOST_WORDS_CACHED)(self._lead))

    def most_ahead(self, words: Sequence[tuple[str, float]]) -> float:
        """Returns an upper bound of the lead of any other language over the first one, in much less time than `scores`."""
        lead, most = 0.0, self.lead
        for word, weight in words:
            lead += weight * most(word)
        return lead

    def _lead(self, word: str) -> float:
        if (number := self.words.get(word)) is not None:
            return self.word_leads[number]
        numbers = [number for part in parts_of(word) if (number := self.parts.get(part)) is not None]
        return _PARTS_WEIGHT * sum(self.part_leads[number] for number in numbers)

    def scores(self, words: Sequence[tuple[str, float]]) -> npt.NDArray[np.float32]:
        """Returns the log-probability of each language by these words and their weights, less that of the best language of each
        word."""
        numbers: list[int] = []
        weights: list[float] = []
        parts: list[int] = []
        part_weights: list[float] = []
        for word, weight in words:
            if (number := self.words.get(word)) is not None:
                numbers.append(number)
                weights.append(weight)
                continue
            own = [number for part in parts_of(word) if (number := self.parts.get(part)) is not None]
            parts += own
            part_weights += [_PARTS_WEIGHT * weight] * len(own)
        below: npt.NDArray[np.float32] = np.zeros(len(self.codes), dtype=np.float32)
        if numbers:
            below = np.array(weights, dtype=np.float32) @ self.word_scores[numbers]
        if parts:
            below = below + np.array(part_weights, dtype=np.float32) @ self.part_scores[parts]
        return -below


def _leads(scores: npt.NDArray[np.float32]) -> Sequence[float]:
    return array("d", (scores[:, :1] - scores[:, 1:]).max(axis=1, initial=-np.inf).tolist())


class Guess:
    """Guesses languages. Safe for many threads."""

    def __init__(self, alphabets: Mapping[str, Alphabet]) -> None:
        self._alphabets = alphabets
        self.of = lru_cache(maxsize=_MOST_CACHED)(self._of)
        self.of_description = lru_cache(maxsize=_MOST_CACHED)(self._of_description)

    def _of_description(self, text: str) -> str:
        """Returns the code of the language of a tool's description. English ones, which are most, are recognised at once by
        words like "the"; so are very short ones in Latin letters."""
        if not text.isascii():
            return self._of(text)
        words = set(_WORD.findall(text[:_MOST_TEXT].lower()))
        return ENGLISH if len(words) < _FEW_DESCRIBING or not _ENGLISH_WORDS.isdisjoint(words) else self._of(text)

    def _of(self, text: str) -> str:
        """Returns the code of the language of a text: one with a table, `ENGLISH`, or `OTHER`. In doubt it is English."""
        text = text[:_MOST_TEXT]
        script = _script(text)
        if script not in self._alphabets:
            return script
        if _is_foreign_to(script, text):
            return OTHER
        alphabet = self._alphabets[script]
        words = weighted_words(text)[:_MOST_WORDS]
        least = _SURE + _SURE_A_WORD * len(words) ** 0.5 if len(words) > _FEW_WORDS else _SURE_ALONE
        if script == "latin" and alphabet.most_ahead(words) < least:
            return ENGLISH  # as most texts
        scores = alphabet.scores(words)
        best = int(scores.argmax())
        lead = float(scores[best] - scores[0])
        return alphabet.codes[best] if script != "latin" or lead > least else ENGLISH


def plain_words(text: str) -> list[str]:
    """Returns the words of a text in lower case, with their accents, which tell languages apart."""
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def weighted_words(text: str) -> list[tuple[str, float]]:
    """Returns the words of a text in lower case with their weights. Words that begin with a capital weigh less, and so do one or
    two words between them, because they are often names and titles in any language; the first word does not."""
    words = _WORD.findall(unicodedata.normalize("NFC", text))
    capitals = [at for at in range(1, len(words)) if words[at][0].isupper()]
    in_names = set(capitals)
    for at, following in pairwise(capitals):
        if following - at <= _BETWEEN:
            in_names.update(range(at, following))
    return [(word.lower(), _NAME_WEIGHT if at in in_names else 1.0) for at, word in enumerate(words)]


def parts_of(word: str) -> list[str]:
    """Returns the runs of three letters of a word with a blank at both ends."""
    marked = f" {word} "
    return [marked[start : start + 3] for start in range(len(marked) - 2)]


def _script(text: str) -> str:
    """Returns the script of most letters of a text: an alphabet, or a language that has a script of its own."""
    if text.isascii():
        return "latin"
    letters = len(_LETTER.findall(text))
    han, kana = len(_HAN.findall(text)), len(_KANA.findall(text))
    if 6 * (han + kana) >= letters and han + kana:
        return "ja" if kana else "zh"
    counts = {name: len(pattern.findall(text)) for name, pattern in _SCRIPTS}
    best = max(counts, key=lambda name: counts[name] * (1 if name == "latin" else 4))
    return best if counts[best] else (OTHER if letters else "latin")


def _is_foreign_to(script: str, text: str) -> bool:
    """Returns True if a text has letters of a language without a table."""
    if text.isascii():
        return False
    pattern = {"cyrillic": _FOREIGN_CYRILLIC, "arabic": _FOREIGN_ARABIC, "latin": _FOREIGN_LATIN}[script]
    return pattern.search(text) is not None
