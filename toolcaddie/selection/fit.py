"""Estimates the probability that no tool fits a request (the doubt), from the scores of the best tool and from the words of the
request that it has.

A logistic model per kind of rankers adds up a few features (`Features`); `python -m benchmarks.nothing_fits --write` fits it. A
low score proves less in a conversation, where requests are short, and in a catalog of names without descriptions. So the model
has a threshold for each of these situations (`Model.thresholds`), which is subtracted from the sum.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from toolcaddie.core.presets import LEXICAL
from toolcaddie.core.selection import QueryWords
from toolcaddie.ports import Visible
from toolcaddie.selection.index.catalog_index import CatalogIndex
from toolcaddie.selection.index.postings import Postings, postings_of
from toolcaddie.selection.languages.guess import ENGLISH
from toolcaddie.selection.scores import Scored, Signals
from toolcaddie.selection.word_table import word_table

Kind = Literal["words", "static", "embedding"]
Situation = Literal["single", "conversation", "names"]

MODELS_FILE = Path(__file__).with_name("fit.toml")

AT_THRESHOLD = 0.85
"""The doubt at the threshold: with each kind of rankers, 0.84 to 0.86 in the labelled sets with both kinds of requests, if
requests with and without a right tool have the same weight in all."""
LOGIT_AT_THRESHOLD = math.log(AT_THRESHOLD / (1 - AT_THRESHOLD))
NO_HISTORY = 0.75
"""Value of `Features.covered` in a conversation: the words of earlier messages that a tool lacks prove nothing."""
_KINDS: Mapping[frozenset[str], Kind] = {
    frozenset(): "words",
    frozenset({"static"}): "static",
    frozenset({"embedding"}): "embedding",
    frozenset({"embedding", "table"}): "embedding",
}
"""The kinds by the rankers beside those by words."""
_KNOWN = 0.5
"""Score by a ranker with the last word from which a tool is known to fit."""
_NAMES = 0.5
"""Share of full descriptions below which a catalog counts as one of names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The measurements of a request from which the doubt is estimated; all numbers are from 0 to 1."""

    kind: Kind
    best: float
    """The score of the best tool."""
    words: float
    """The highest score by words of any tool."""
    meaning: float
    """The highest score of the ranker by meaning, an unstretched cosine; 0 if there is none."""
    covered: float
    """Share of the request's words that the best tool has, by their importance in the word table."""
    situation: Situation

    @property
    def values(self) -> tuple[float, ...]:
        """The features that are added up, in the order of `Model.weights`."""
        return (self.best, self.words, self.meaning, self.covered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The coefficients for one kind of rankers."""

    weights: tuple[float, ...]
    """Weight of each feature; negative, because high scores make it unlikely that nothing fits."""
    thresholds: Mapping[Situation, float]
    """Sum of the weighted features that 2 % of the requests with a right tool exceed, in each situation."""
    slope: float
    """Rise of the logit of the doubt with the sum."""

    def doubt(self, features: Features) -> float:
        """Returns the probability that nothing fits, if as many requests fit no tool as fit one."""
        above = self.sum(features) - self.thresholds[features.situation]
        return 1 / (1 + math.exp(-max(-20.0, min(20.0, LOGIT_AT_THRESHOLD + self.slope * above))))

    def sum(self, features: Features) -> float:
        return sum(weight * value for weight, value in zip(self.weights, features.values, strict=True))


def features_of(
    index: CatalogIndex, words: QueryWords, signals: Signals, scored: Scored, mask: Visible | None
) -> Features | None:
    """Returns the features of a request. None: they would say nothing, because no tool is visible, the request or the tools are
    not in English, the rankers are not those for which the models were made, or a tool was called after requests like this one
    (a ranker with the last word scored it): it fits, whatever its words."""
    kind = kind_of(signals)
    if kind is None or words.foreign or words.language != ENGLISH or not len(scored.scores):
        return None
    if mask is not None and not mask.any():
        return None
    if any(signals.by_ranker[name].max() >= _KNOWN for name in signals.last_words):
        return None
    postings = postings_of(index.catalog)
    alone = len(words.messages) + len(words.replies) <= 1
    best = int(scored.scores.argmax())
    return Features(
        kind=kind,
        best=float(scored.scores[best]),
        words=scored.by_words,
        meaning=0.0 if kind == "words" else float(signals.by_ranker[kind].max(initial=0.0)),
        covered=_covered(postings, words, mask, best if scored.scores[best] > 0 else None) if alone else NO_HISTORY,
        situation=_situation(postings, alone=alone, mask=mask),
    )


def kind_of(signals: Signals) -> Kind | None:
    """Returns the kind of the rankers; None if these are not the ones by words, alone or with one by meaning."""
    names = set(signals.by_ranker) - set(signals.last_words)
    if not names.issuperset(LEXICAL[1:]):
        return None
    return _KINDS.get(frozenset(names.difference(LEXICAL)))


@lru_cache(maxsize=1)
def models() -> Mapping[str, Model]:
    """Returns the shipped models by kind of rankers."""
    return {
        kind: Model(
            weights=tuple(stored["weights"].values()),
            thresholds=stored["thresholds"],
            slope=stored["slope"],
        )
        for kind, stored in tomllib.loads(MODELS_FILE.read_text(encoding="utf-8")).items()
    }


def doubt_of(
    index: CatalogIndex, words: QueryWords, signals: Signals, scored: Scored, mask: Visible | None
) -> float | None:
    """Returns the probability that no tool fits the request; None if it cannot be estimated."""
    if signals.matched:
        return 0.0
    features = features_of(index, words, signals, scored, mask)
    return None if features is None else models()[features.kind].doubt(features)


def _situation(postings: Postings, *, alone: bool, mask: Visible | None) -> Situation:
    if postings.scope(mask).described < _NAMES:
        return "names"
    return "single" if alone else "conversation"


def _covered(postings: Postings, words: QueryWords, mask: Visible | None, best: int | None) -> float:
    """Returns the share of the words that the tool at the position `best` has, by the squares of their importance. None: no tool
    has a score; the first of these equal tools may be hidden, so none is looked at."""
    if best is None:
        return 0.0
    query_terms = postings.query_terms(words, mask)
    importance = word_table().importance
    worth = [term.weight * importance(term.word) ** 2 for term in query_terms.reading.terms]
    total = float(sum(worth))
    if not total:
        return 0.0
    tool_terms = set(postings.terms_at(best))
    pairs = zip(query_terms.ids.tolist(), query_terms.term.tolist(), strict=True)
    has = {place for identity, place in pairs if identity in tool_terms}
    return float(sum(worth[place] for place in has)) / total
