"""Combines the scores of the rankers (their signals) into one score for each tool.

Rankers with a fixed weight compare words; their weighted mean is the score by words. A ranker that weighs itself (`OwnWeight`,
such as the ranking by meaning) is added to that mean with the weight that it gives itself for this request. Before the addition,
the scores of both sides are stretched, that is, divided by the highest score of their side, so that low scores of one side still
count beside high scores of the other. The score of the best tool, the fit, is the weighted mean of its unstretched scores. A
ranker with the last word (`LastWord`, such as the ranking by experience) then turns these scores into the final ones.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.selection import QueryWords
from toolcaddie.ports import FixedWeight, LastWord, OwnWeight, Ranking, Visible
from toolcaddie.selection.index.catalog_index import CatalogIndex
from toolcaddie.selection.rankers.categories import CategoryMatches
from toolcaddie.util.replacing import replace

Floats = npt.NDArray[np.float32]

WEIGHTS_FILE = Path(__file__).with_name("weights.toml")

WEIGHTS: Mapping[str, float] = tomllib.loads(WEIGHTS_FILE.read_text(encoding="utf-8"))
"""The shipped weight of each ranker, relative to a ranker of weight 1. For a ranker that weighs itself, a factor on its own
weight."""

FLOOR = 0.07
"""Share of the best score that a tool needs to be a candidate. A tool below it has only a frequent word in common with the
request."""

NEAR = 1 / 3
"""Share of the best score by a ranker that weighs itself which a tool needs if it has no word of the request. Without this rule,
half of any catalog would be candidates, because half of the tools are nearer than the median."""

NOTHING_FITS = 0.035
"""The least score by words that the best tool needs, unless a keyword of a category matched. Below this score the request has
hardly a word in common with any tool."""

WORDS_FIT = 0.25
"""The score by words of the best tool from which the request fits the catalog, whatever the other rankers score."""

UNRELATED = 0.15
"""The least score by a ranker that weighs itself which the best tool needs, in proportion to the ranker's weight: unrelated texts
are this near by chance."""


class Scored(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The signals of each ranker for every tool, 0 to 1, and the scores made from them."""

    signals: Mapping[str, Floats]
    rankings: Mapping[str, Ranking]
    scores: Floats
    """One score for each tool, 0 to 1."""
    floor: float
    """Only tools with a higher score are candidates."""
    by_words: float = 0.0
    """The highest score by words alone."""
    doubt: float | None = None
    """The probability that no tool fits the request; None: not estimated."""

    def without_doubtful(self, sure: float) -> Scored:
        """Returns these scores, with a floor above all of them if the doubt is at least `sure`."""
        if self.doubt is None or self.doubt < sure:
            return self
        return replace(self, floor=max(self.floor, self.fit))

    @property
    def fit(self) -> float:
        """The score of the best tool: a measure of how well the catalog serves the request."""
        return float(self.scores.max(initial=0.0))


class Signals(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The unweighted signals of the rankers for a request."""

    by_ranker: Mapping[str, Floats]
    """The scores of each ranker, one for each tool, 0 to 1."""
    own_weights: Mapping[str, float]
    """The weights of the rankers that weigh themselves, and 0 for rankers with the last word."""
    matched: bool
    """True if a category matched."""
    last_words: Mapping[str, LastWord] = msgspec.field(default_factory=dict)
    """The influence of each ranker with the last word."""
    rankings: Mapping[str, Ranking] = msgspec.field(default_factory=dict)
    """The rankings that the rankers returned, for their reasons."""


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
    """Returns one score for each tool, by the `weights` in the settings; for other rankers by the shipped ones.

    `nothing_fits` replaces the least score of the best tool. Pure: the same signals and weights give the same scores.
    """
    by_ranker = signals.by_ranker
    beside = {name: own * weights.get(name, WEIGHTS.get(name, 1.0)) for name, own in signals.own_weights.items()}
    factors = {name: weights.get(name, WEIGHTS.get(name, 1.0)) for name in by_ranker if name not in beside}
    total = sum(factors.values())
    by_words = np.zeros(len(next(iter(by_ranker.values()), ())), dtype=np.float32)
    for name, factor in factors.items():
        if name != "categories" or signals.matched:  # otherwise all categories score 0
            by_words += by_ranker[name] * np.float32(factor / total if total else 0.0)
    scores = _joined(by_words, {name: weight for name, weight in beside.items() if weight}, by_ranker)
    for name, influence in signals.last_words.items():
        scores = influence.blend(scores, weights.get(name, WEIGHTS.get(name, 1.0)))
    much = sum(beside.values())
    usual = (NOTHING_FITS + much * UNRELATED) / (1 + much) if nothing_fits is None else nothing_fits
    most = float(by_words.max(initial=0.0))
    certain = signals.matched or (nothing_fits is None and most >= WORDS_FIT)
    return Scored(
        signals=by_ranker,
        rankings=signals.rankings,
        scores=scores,
        floor=_floor(scores, 0.0 if certain else usual),
        by_words=most,
    )


def weights_of(signals: Signals, weights: Mapping[str, float]) -> dict[str, float]:
    """Returns the weight of each ranker in `signals`: the one in `weights`, or else the shipped one."""
    return {name: weights.get(name, WEIGHTS.get(name, 1.0)) for name in signals.by_ranker}


def _joined(by_words: Floats, beside: Mapping[str, float], signals: Mapping[str, Floats]) -> Floats:
    """Returns the sum of the scores by words and of the rankers in `beside`, by their weights. The stretched scores decide the
    order of the tools; the unstretched ones decide the score of the best tool."""
    if not beside:
        return by_words
    joined = _stretched(by_words)
    hit = joined > FLOOR
    for name, weight in beside.items():
        stretched = _stretched(signals[name])
        hit |= stretched > NEAR
        joined = joined + np.float32(weight) * stretched
    joined *= hit  # a fifth of the time of assigning zeros
    best = int(joined.argmax())
    fit = by_words[best] + sum(weight * signals[name][best] for name, weight in beside.items())
    return joined * np.float32(fit / (1 + sum(beside.values())) / joined[best]) if joined[best] > 0 else joined


def _stretched(signal: Floats) -> Floats:
    best = signal.max(initial=0.0)
    return signal / best if best > 0 else signal


def _floor(scores: Floats, least: float) -> float:
    """Returns the floor of candidates. If the best tool scores less than `least`, the floor is `least`, above all scores."""
    best = float(scores.max(initial=0.0))
    return FLOOR * best if best >= least else least


def _signal(index: CatalogIndex, name: str, ranking: Ranking, mask: Visible | None) -> Floats:
    """Returns a ranker's scores, checked and scaled to 0 to 1, because the ranker may come from another package. Scores of hidden
    tools, negative scores and values that are not finite become 0; scores above 1 and uncalibrated ones are scaled."""
    raw = np.asarray(ranking.scores, dtype=np.float32)
    if raw.shape != (index.size,):
        raise ConfigError(
            f"ranker {name!r} returned scores of shape {raw.shape}; it must return one for each of {index.size} tools"
        )
    raw = np.maximum(raw, np.float32(0.0))  # a copy, so that the changes below do not change the ranker's array
    if mask is not None:
        raw[~mask] = 0.0
    best = raw.max(initial=0.0)
    if not np.isfinite(best):
        raw[~np.isfinite(raw)] = 0.0
        best = raw.max(initial=0.0)
    return raw if best == 0 or (ranking.calibrated and best <= 1) else raw / best
