"""Makes the arrays of the language tables: English words for the words of each language, and the words and parts of words by
which a language is recognised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from scripts.language_table.alignment import Alignment
from toolcaddie.selection.languages.guess import ALPHABETS, parts_of

MOST_WORDS = 10_000
"""The largest number of words of a language that are translated, the most frequent."""
MOST_ENGLISH = 3
"""The largest number of English words for a word."""
GUESS_WORDS, GUESS_PARTS = 2_500, 1_200
"""The numbers of words and of parts of words of each language by which it is recognised, the most frequent."""
SPREAD = 7.0
"""The largest distance of a language's log-probability from the best one that is stored; larger ones are cut."""

Arrays = dict[str, npt.NDArray[np.generic]]


def translation_arrays(alignments: Mapping[str, Alignment]) -> Arrays:
    """Returns the words of each language with the numbers of English words and their weights."""
    kept = {code: _kept(alignment) for code, alignment in sorted(alignments.items())}
    used = Counter(word for entries in kept.values() for _, words in entries for word, _ in words)
    english = {word: number for number, word in enumerate(sorted(used))}
    arrays: Arrays = {"english": np.array("\n".join(english))}
    for code, entries in kept.items():
        rows = np.zeros((len(entries), MOST_ENGLISH), dtype=np.uint16)
        weights = np.zeros((len(entries), MOST_ENGLISH), dtype=np.uint8)
        for at, (_, words) in enumerate(entries):
            for place, (word, weight) in enumerate(words):
                rows[at, place] = english[word]
                weights[at, place] = max(1, min(255, round(255 * weight)))
        arrays[f"{code}.words"] = np.array("\n".join(word for word, _ in entries))
        arrays[f"{code}.rows"], arrays[f"{code}.weights"] = rows, weights
    return arrays


def guess_arrays(spelled: Mapping[str, Counter[str]]) -> Arrays:
    """Returns, for each alphabet with several languages, its words and parts of words, and how much each speaks for each of its
    languages. `spelled` has the words of each language, English included."""
    arrays: Arrays = {}
    for alphabet, codes in ALPHABETS.items():
        present = [code for code in codes if code in spelled]
        words = {code: spelled[code] for code in present}
        parts = {code: _parts(spelled[code]) for code in present}
        for name, counts, most in (("words", words, GUESS_WORDS), ("parts", parts, GUESS_PARTS)):
            texts, scores = _scores([counts[code] for code in present], most)
            arrays[f"{alphabet}.{name}"], arrays[f"{alphabet}.{name}_scores"] = np.array("\n".join(texts)), scores
    return arrays


def _kept(alignment: Alignment) -> list[tuple[str, list[tuple[str, float]]]]:
    """Returns the most frequent words with their translations, in alphabetical order."""
    usable = [
        (word, words[:MOST_ENGLISH])
        for word, words in alignment.translations.items()
        if len(word) <= 30 and "\n" not in word and not (len(word) == 1 and word.isascii())
    ]
    usable.sort(key=lambda each: (-alignment.counts[each[0]], each[0]))
    return sorted(usable[:MOST_WORDS])


def _parts(words: Counter[str]) -> Counter[str]:
    parts: Counter[str] = Counter()
    for word, count in words.items():
        for part in parts_of(word):
            parts[part] += min(count, 50)
    return parts


def _scores(counts: Sequence[Counter[str]], most: int) -> tuple[list[str], npt.NDArray[np.uint8]]:
    """Returns the most frequent texts of all languages, and for each how far its log-probability in each language is below the
    best one, in steps of a 32nd."""
    texts = sorted({text for each in counts for text in sorted(each, key=lambda text: (-each[text], text))[:most]})
    totals = np.array([sum(each.values()) for each in counts], dtype=np.float64)
    table = np.array([[each.get(text, 0) for each in counts] for text in texts], dtype=np.float64)
    logs = np.log((table + 0.3) / (totals + 0.3 * len(texts)))
    below = np.minimum(logs.max(axis=1, keepdims=True) - logs, SPREAD)
    return texts, np.round(below * 32).astype(np.uint8)
