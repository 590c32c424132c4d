"""Aligns words of translated texts by IBM model 1 (Brown et al., "The Mathematics of Statistical Machine Translation", 1993),
in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ROUNDS = 6
LONGEST = 24
"""The largest number of words of a text that is aligned; long texts say little about single words."""
LEAST_CHANCE = 0.05
"""The least probability of an English word for a foreign one."""
LEAST_COUNT = 0.3
"""The least expected number of texts in which the foreign word stands for the English one."""
REVERSE = 0.25
"""Exponent of the probability in the other direction."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """English words for each foreign word, the best first, with weights that sum to 1 at most."""

    translations: dict[str, list[tuple[str, float]]]
    counts: dict[str, int]
    """The number of texts that have each foreign word."""


def aligned(pairs: Sequence[tuple[Sequence[str], Sequence[str]]], most: int) -> Alignment:
    """Returns at most `most` English words for each foreign word of pairs (English words, foreign words)."""
    english: dict[str, int] = {"": 0}  # number 0 is the empty word, to which words without a counterpart belong
    foreign: dict[str, int] = {}
    left, right = [], []
    for own, other in pairs:
        if not own or not other or len(own) > LONGEST or len(other) > LONGEST:
            continue
        e = [0, *(english.setdefault(word, len(english)) for word in own)]
        f = [foreign.setdefault(word, len(foreign)) for word in other]
        for number in f:
            left.append(np.array(e))
            right.append(np.full(len(e), number))
    if not left:
        return Alignment(translations={}, counts={})
    sizes = np.array([len(each) for each in left])
    e, f = np.concatenate(left), np.concatenate(right)
    of_word = np.repeat(np.arange(len(sizes)), sizes)  # the foreign token to which each combination belongs
    keys, inverse = np.unique(e.astype(np.int64) * len(foreign) + f, return_inverse=True)
    key_e, key_f = keys // len(foreign), keys % len(foreign)
    counts = np.bincount(inverse).astype(np.float64)
    chance: Floats = np.ones(len(keys))
    for _ in range(ROUNDS):
        share = chance[inverse]
        share /= np.bincount(of_word, weights=share)[of_word]
        counts = np.bincount(inverse, weights=share)
        chance = counts / np.bincount(key_e, weights=counts)[key_e]
    by_foreign = counts / np.bincount(key_f, weights=counts)[key_f]  # p(e|f) by the expected counts
    weight = by_foreign * (chance + 0.01) ** REVERSE
    good = (key_e > 0) & (by_foreign >= LEAST_CHANCE) & (counts >= LEAST_COUNT)
    english_words, foreign_words = list(english), list(foreign)
    order = np.lexsort((-weight, key_f))
    translations: dict[str, list[tuple[str, float]]] = {}
    for at in order[good[order]].tolist():
        words = translations.setdefault(foreign_words[key_f[at]], [])
        if len(words) < most:
            words.append((english_words[key_e[at]], float(weight[at])))
    frequency = np.bincount(np.array([each[0] for each in right]), minlength=len(foreign))
    return Alignment(
        translations=translations,
        counts={word: int(frequency[number]) for word, number in foreign.items()},
    )
