"""One score a tool, from the scores of the rankers.

Most rankers count by a fixed weight: their weighted mean is the score by words. A ranker with a `weight` of its own (meaning,
experience) counts beside that mean by the weight it has in this request; both sides are stretched first, so that neither is
lost beside the other's high scores. The fit of the best tool is the weighted mean of its unstretched scores.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.selection import QueryWords
from toolcaddie.ports import FixedWeight, LastWord, OwnWeight, Ranking, Visible
from toolcaddie.selection.index.catalog_index import CatalogIndex
from toolcaddie.selection.rankers.categories import CategoryMatches

Floats = npt.NDArray[np.float32]

WEIGHTS_FILE = Path(__file__).with_name("weights.toml")

WEIGHTS: Mapping[str, float] = tomllib.loads(WEIGHTS_FILE.read_text(encoding="utf-8"))
"""Weight of a ranker, relative to a ranker of weight 1; for a ranker that weighs itself, a factor on that."""

FLOOR = 0.05
"""A tool with less than this part of the best score is omitted: it has a frequent word in common with the request, no more."""

NEAR = 1 / 3
"""A tool without a word of the request is omitted if a ranker of its own weight gives it less than this part of the best score:
half of any catalog is nearer than the median."""

NOTHING_FITS = 0.03
"""Least score by words of the best tool, unless a keyword hit. Below it the request shares hardly a word with any tool."""

WORDS_FIT = 0.25
"""From here on the words alone suffice for something to fit, whatever the other rankers score."""

UNRELATED = 0.15
"""Least score of the best tool by a ranker of its own weight, as far as it counts: unrelated texts are this near by chance."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """Signals of each ranker for every tool, 0 to 1, and the scores made of them."""

    signals: Mapping[str, Floats]
    rankings: Mapping[str, Ranking]
    scores: Floats
    """0 to 1; the best tool has `fit`."""
    floor: float
    """A tool must score more."""

    @property
    def fit(self) -> float:
        """Score of the best tool: how well it serves the request."""
        return float(self.scores.max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signals:
    """Signals of the rankers for a request, unweighted."""

    by_ranker: Mapping[str, Floats]
    """One score a tool, 0 to 1."""
    own_weights: Mapping[str, float]
    """Weights of the rankers that weigh themselves."""
    matched: bool
    """A keyword hit."""
    last_words: Mapping[str, LastWord] = field(default_factory=dict)
    """Rankers that have the last word."""
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    """The rankers' own answers, for their reasons."""


def signals_of(
    index: CatalogIndex, names: Sequence[str], words: QueryWords, matches: CategoryMatches, mask: Visible | None
) -> Signals:
    """Returns the signals of each ranker, unweighted."""
    rankings = {
        name: index.categories.ranking_of(matches, mask)
        if name == "categories"
        else index.ranker(name).rank(words, mask)
        for name in names
    }
    signals = {  # the categories' scores are the selector's own and need no check
        name: ranking.scores if name == "categories" else _signal(index, name, ranking, mask)
        for name, ranking in rankings.items()
    }
    own: dict[str, float] = {}
    last: dict[str, LastWord] = {}
    for name, ranking in rankings.items():
        match ranking.influence:
            case LastWord():
                own[name] = 0.0
                last[name] = ranking.influence
            case OwnWeight(weight=weight):
                own[name] = max(0.0, float(weight)) if signals[name].any() else 0.0
            case FixedWeight():
                pass
    return Signals(
        by_ranker=signals, own_weights=own, matched=bool(matches.matched), last_words=last, rankings=rankings
    )


def fused(signals: Signals, weights: Mapping[str, float], nothing_fits: float | None = None) -> Scored:
    """Returns one score a tool. Pure: the same signals and weights give the same scores, for some of the tools as for all."""
    by_ranker = signals.by_ranker
    beside = {name: own * weights.get(name, WEIGHTS.get(name, 1.0)) for name, own in signals.own_weights.items()}
    factors = {name: weights.get(name, WEIGHTS.get(name, 1.0)) for name in by_ranker if name not in beside}
    total = sum(factors.values())
    by_words = np.zeros(len(next(iter(by_ranker.values()), ())), dtype=np.float32)
    for name, factor in factors.items():
        by_words += by_ranker[name] * np.float32(factor / total if total else 0.0)
    scores = _joined(by_words, {name: weight for name, weight in beside.items() if weight}, by_ranker)
    for name, influence in signals.last_words.items():
        scores = influence.blend(scores, weights.get(name, WEIGHTS.get(name, 1.0)))
    much = sum(beside.values())
    usual = (NOTHING_FITS + much * UNRELATED) / (1 + much) if nothing_fits is None else nothing_fits
    certain = signals.matched or (nothing_fits is None and float(by_words.max(initial=0.0)) >= WORDS_FIT)
    return Scored(
        signals=by_ranker, rankings=signals.rankings, scores=scores, floor=_floor(scores, 0.0 if certain else usual)
    )


def weights_of(signals: Signals, weights: Mapping[str, float]) -> dict[str, float]:
    """Returns the weight of each of these rankers, with these weights in place of the shipped ones."""
    return {name: weights.get(name, WEIGHTS.get(name, 1.0)) for name in signals.by_ranker}


def _joined(by_words: Floats, beside: Mapping[str, float], signals: Mapping[str, Floats]) -> Floats:
    """The words' scores and the others' by their weights. The order follows the stretched ones, the best tool's score the
    unstretched ones."""
    if not beside:
        return by_words
    joined = _stretched(by_words)
    hit = joined > FLOOR
    for name, weight in beside.items():
        stretched = _stretched(signals[name])
        hit |= stretched > NEAR
        joined = joined + np.float32(weight) * stretched
    joined[~hit] = 0.0
    best = int(joined.argmax())
    fit = by_words[best] + sum(weight * signals[name][best] for name, weight in beside.items())
    return joined * np.float32(fit / (1 + sum(beside.values())) / joined[best]) if joined[best] > 0 else joined


def _stretched(signal: Floats) -> Floats:
    best = signal.max(initial=0.0)
    return signal / best if best > 0 else signal


def _floor(scores: Floats, least: float) -> float:
    """Returns the floor; if even the best tool is too weak, all are under it."""
    best = float(scores.max(initial=0.0))
    return FLOOR * best if best >= least else least


def _signal(index: CatalogIndex, name: str, ranking: Ranking, mask: Visible | None) -> Floats:
    """Returns a ranker's scores, 0 to 1. It may be a stranger's: scores of hidden tools, scores below 0 and what is no number
    are dropped, and scores above 1 are scaled down."""
    raw = np.asarray(ranking.scores, dtype=np.float32)
    if raw.shape != (index.size,):
        raise ConfigError(
            f"ranker {name!r} gave scores of shape {raw.shape}; it must give one for each of {index.size} tools"
        )
    raw = np.maximum(raw, np.float32(0.0))  # a copy: what is changed below is not the ranker's own
    if mask is not None:
        raw[~mask] = 0.0
    best = raw.max(initial=0.0)
    if not np.isfinite(best):
        raw[~np.isfinite(raw)] = 0.0
        best = raw.max(initial=0.0)
    return raw if best == 0 or (ranking.calibrated and best <= 1) else raw / best
