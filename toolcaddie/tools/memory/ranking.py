"""Ranks the chunks that a reader may see for a query, by words, spelling and meaning.

The score is the share of the query's words that a chunk has, by their rarity, plus its nearness in meaning, which counts the more
the fewer of the words the best chunk has: where words are certain, meaning only disturbs. A score is shown as 1 at most. All
counts are made among the chunks that the reader may see, so no score tells anything about others. The command
`python -m benchmarks.memory --fit` measures the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from toolcaddie.selection.word_table import word_table
from toolcaddie.tools.memory.index import MemoryIndex, words_of
from toolcaddie.tools.memory.segment import Bools, Floats, Ints
from toolcaddie.tools.memory.values import Match
from toolcaddie.tools.memory.visibility import Reader

_ALIKE = 0.4
"""The least likeness of two words that are spelled alike."""
_MOST_ALIKE = 6
"""The largest number of words of the memory that stand for one of the query."""
_LOOKED_AT = 24
"""The number of words spelled alike of which the first few are taken that the reader may see."""
_MOST_WORDS = 64
"""The largest number of different words of a query."""
_MORE = 50
"""The number of chunks by which a memory counts as larger."""
_SHOWN = 6
"""The largest number of words in a reason."""


class Weights(Struct, frozen=True, kw_only=True):
    """The parameters of the signals."""

    saturation: float = 2.0
    """BM25's parameter k1: how soon further occurrences of a word stop to count."""
    length: float = 0.9
    """BM25's parameter b: how much the length of a chunk matters."""
    meaning: float = 0.7
    """The weight of meaning if no chunk has a word of the query. It shrinks with the square of what the best chunk lacks."""
    spelling: float = 0.6
    """Factor on a word that is only spelled alike."""


WEIGHTS = Weights()


def ranked(
    index: MemoryIndex,
    query: str,
    reader: Reader,
    *,
    most: int,
    least: float,
    vector: Floats | None = None,
    weights: Weights = WEIGHTS,
) -> list[Match]:
    """Returns the best chunks, the best first. `least`: the lowest score. `vector`: that of the query by the embedder; None: it
    has none."""
    index.settle()
    visible = index.visible(reader)
    if not visible.any():
        return []
    words, rows_by_word = _word_shares(index, query, visible, weights)
    meaning = _nearness(np.concatenate([each.table @ _table_vector(query) for each in index.segments]), visible)
    if vector is not None:
        deep = _nearness(np.concatenate([each.matrix(len(vector)) @ vector for each in index.segments]), visible)
        meaning = np.where(index.embedded(), deep, meaning)
    doubt = max(0.0, 1.0 - float(words[visible].max()))
    scores = words + np.float32(weights.meaning * doubt**2) * meaning
    scores[~visible] = -1.0
    best = np.argpartition(-scores, min(most, len(scores) - 1))[:most] if most < len(scores) else np.arange(len(scores))
    best = best[np.argsort(-scores[best], kind="stable")]
    return [
        Match(
            chunk=index.chunk(row),
            score=min(1.0, float(scores[row])),
            words=_words_in(rows_by_word, row),
            meaning=float(meaning[row]),
        )
        for row in best.tolist()
        if scores[row] >= max(least, 1e-6)
    ]


def _table_vector(query: str) -> Floats:
    vector: Floats = word_table().embed_requests([query])[0]
    return vector


def _word_shares(
    index: MemoryIndex, query: str, visible: Bools, weights: Weights
) -> tuple[Floats, Mapping[str, Sequence[Ints]]]:
    """Returns the share of the query's words that each chunk has, by their rarity (BM25), and the chunks that have each word. A
    word that no chunk has is replaced by words that are spelled alike."""
    total = int(visible.sum())
    lengths = index.lengths()
    mean = max(1.0, float(lengths[visible].mean()))
    k1 = weights.saturation
    damping = np.float32(k1) * (np.float32(1 - weights.length) + lengths * np.float32(weights.length / mean))
    sums = np.zeros(len(visible), np.float32)
    rows_by_word: dict[str, list[Ints]] = {}

    def count(term: int, factor: float, word: str) -> float:
        """Adds a word of the memory to the sums and returns its rarity; 0: no visible chunk has it."""
        rows, counts = index.having(term)
        seen = visible[rows]
        rows, counts = rows[seen], counts[seen]
        if not len(rows):
            return 0.0
        rarity = _rarity(len(rows), total)
        sums[rows] += np.float32(factor * rarity * (k1 + 1)) * counts / (counts + damping[rows])
        rows_by_word.setdefault(word, []).append(rows)
        return rarity

    whole = 0.0
    for stem, word in list({stem: word for word, stem in words_of(query)}.items())[:_MOST_WORDS]:
        number = index.vocabulary.get(stem)
        rarity = 0.0 if number is None else count(number, 1.0, word)
        whole += rarity or _rarity(0, total)
        if rarity:
            continue
        spelling, hits = index.spelling(), 0
        alike = spelling.alike(word, (stem,), True)
        for term, likeness in zip(alike.ids[:_LOOKED_AT].tolist(), alike.likeness[:_LOOKED_AT].tolist(), strict=True):
            if likeness < _ALIKE or hits == _MOST_ALIKE:
                break
            hits += bool(count(term, weights.spelling * likeness, spelling.words[term]))
    return (sums / np.float32(whole) if whole else sums), rows_by_word


def _rarity(having: int, total: int) -> float:
    """Returns the rarity of a word. A small memory counts as if it had more chunks, in which every word is rare."""
    return float(np.log1p((total + _MORE - having + 0.5) / (having + 0.5)))


def _nearness(cosines: Floats, visible: Bools) -> Floats:
    """Returns how much nearer than usual each visible chunk is, 0 to 1."""
    usual = np.float32(max(0.0, float(cosines[visible].mean())))
    near: Floats = np.clip((cosines - usual) / max(np.float32(1e-6), 1 - usual), 0.0, 1.0)
    return near


def _words_in(rows_by_word: Mapping[str, Sequence[Ints]], row: int) -> tuple[str, ...]:
    return tuple(word for word, parts in rows_by_word.items() if any(_has(rows, row) for rows in parts))[:_SHOWN]


def _has(rows: Ints, row: int) -> bool:
    place = int(np.searchsorted(rows, row))
    return place < len(rows) and int(rows[place]) == row
