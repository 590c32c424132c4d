"""Splits a text of any language into the words that the language tables have: folded, and reduced to stems where there is a
stemmer. The script that makes the tables and the selection that reads them use the same functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from toolcaddie.selection.query import fold, stems_in

LANGUAGES: tuple[str, ...] = (
    *("ar", "bg", "ca", "cs", "da", "de", "el", "es", "fa", "fi", "fr", "he", "hi", "hu", "id", "it"),
    *("ja", "ko", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sr", "sv", "th", "tr", "uk", "vi", "zh"),
)
"""ISO 639-1 codes of the languages that have a table."""

UNSPACED = frozenset({"ja", "th", "zh"})
"""Languages that are written without spaces between words."""

_STEMMERS = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hi": "hindi",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "tr": "turkish",
}
_PARTICLES = (
    "에서는",
    "으로",
    "에서",
    "에게",
    "까지",
    "부터",
    "을",
    "를",
    "이",
    "가",
    "은",
    "는",
    "에",
    "의",
    "로",
    "도",
    "과",
    "와",
)
"""Korean particles, which are written together with the word before them, the longest first."""

_WORD = re.compile(r"(?:[^\W_]|[\u0591-\u05c7\u064b-\u0652\u0900-\u0963\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u200c])+")
"""Finds words. Vowel signs of Hebrew, Arabic, Devanagari and Thai, which are no letters by themselves, are parts of a word."""
_UNSPACED_LETTERS = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3005\u0e00-\u0e7f"
_RUN = re.compile(f"[{_UNSPACED_LETTERS}]+|[^{_UNSPACED_LETTERS}]+")
"""Splits a word at the border between scripts that are written without spaces and others."""
_MARKS = re.compile("[\u0591-\u05c7\u064b-\u0652\u0640\u200c]")
_LETTERS = str.maketrans(
    {
        "أ": "ا",
        "إ": "ا",
        "آ": "ا",
        "ى": "ي",
        "ی": "ي",
        "ة": "ه",
        "ک": "ك",
        "ı": "i",
        "ø": "o",
        "æ": "ae",
        "đ": "d",
        "ł": "l",
    }
)
"""Letters that are often typed in another way."""


def spelled(text: str) -> list[str]:
    """Returns the words of a text, folded: in lower case, without accents and without marks that people often omit. Runs of
    scripts without spaces stay whole."""
    folded = _MARKS.sub("", fold(text).translate(_LETTERS)) if not text.isascii() else text.lower()
    words = _WORD.findall(folded)
    if text.isascii():
        return words
    return [part for word in words for part in _RUN.findall(word)]


def stemmed(words: Sequence[str], code: str) -> list[str]:
    """Returns the stem of each word as the table of this language has it; the word itself if the language has no stemmer."""
    if code == "ko":
        return [_without_particle(word) for word in words]
    stemmer = _STEMMERS.get(code)
    return stems_in(words, stemmer) if stemmer else list(words)


def longest_matches(run: str, known: Collection[str], longest: int) -> list[str]:
    """Returns the words of a run without spaces: the longest known word at each place. Characters that begin no known word are
    omitted."""
    words: list[str] = []
    start = 0
    while start < len(run):
        for end in range(min(len(run), start + longest), start, -1):
            if run[start:end] in known:
                words.append(run[start:end])
                start = end
                break
        else:
            start += 1
    return words


def _without_particle(word: str) -> str:
    for particle in _PARTICLES:
        if word.endswith(particle) and len(word) > len(particle) + 1:
            return word[: -len(particle)]
    return word
