"""The ranker `embedding`, ranking by meaning: tools score high if their vectors are near to the vector of the request.

It finds tools that words do not find (a heating tool for "I'm freezing"), but confuses tools that differ in one word only (two
tools of one server). Its weight is therefore highest if few words of the request are in the catalog, and lowest if they match
nearly all words of a tool. The ranker `static` is the same with vectors by a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords
from toolcaddie.core.tool import Tool
from toolcaddie.ports import (
    Embedder,
    OwnWeight,
    Ranker,
    RankerFactory,
    Ranking,
    RemoteEmbedder,
    Visible,
    request_vectors,
)
from toolcaddie.ports.ranking import Reasons
from toolcaddie.selection.index.change import change_between
from toolcaddie.selection.index.hubs import Hubs
from toolcaddie.selection.index.near import Near
from toolcaddie.selection.index.postings import EVEN_COUNT, Postings, QueryTerms, postings_of
from toolcaddie.selection.index.vectors import Vectors
from toolcaddie.selection.languages.guess import ENGLISH, OTHER
from toolcaddie.selection.query import content_words, is_foreign, latin_share, spaced, split_words
from toolcaddie.selection.shipped import reading

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_MOST_TEXT = 2_000
"""The largest number of characters of a description that are embedded; models read a few hundred words."""
_SHARES = (0.25, 0.5, 0.25)
"""Shares of a tool's three texts in its vector, if the belief is thorough."""
_UNREAD = 6.0
"""Factor on the weight for a request whose words have no translations, so that they prove nothing but names."""
_MOST_PARAMETERS = 12
"""The largest number of parameters whose names are embedded."""
_TALK = 0.4
"""The least cosine of the best tool for a request of stop words alone: "how old are you" fits a tool that tells the bot's age,
but "yes, do it" fits no tool by itself."""
SAMPLE = 1_000
"""The number of tools by which the median cosine is estimated in a large catalog."""
_LONG = 14
"""The number of content words of the current message from which the weight falls in proportion: the vector of a long message is
a blur of all that it says, while its words name what it needs."""
_WORTH_SAYING = 0.75
"""Share of the best score from which the reason "near in meaning" is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """The parameters of the ranker for one kind of vectors."""

    weight: float
    """Weight relative to the mean of the rankers by words, if these find nothing."""
    sure: float
    """Rate at which the weight falls as the words become certain: it is 0 from a certainty of 1 / sure."""
    name: float
    """Share of the name's vector in the vector of a tool; the rest is the vector of name and description together."""
    thorough: bool = False
    """True: the vector of a tool is a mean of those of its description, of its name, description and parameters together, and of
    its name; `name` is ignored."""
    foreign: float = 2.25
    """Weight for a request in another language than the tools, whose words prove little."""
    not_english: float | None = None
    """Weight if request and tools are in the same language, but not in English; None: as in English."""
    hub: float = 0.3
    """Share of a tool's nearness to its own nearest tools that is subtracted from its nearness to a foreign request: tools that
    are near to many others are near to any request in another language."""
    accent: str | None = None
    """The file with the direction in which the model's vectors of texts in other languages differ from those of the same texts in
    English, float32 [dimensions] of length 1. It is removed from the vectors of requests in languages without a table of words.
    None: there is no such direction."""


MODEL = Belief(weight=2.25, sure=3.5, name=0.25)
"""The parameters for the vectors of a sentence model."""

BELIEFS: Mapping[str, Belief] = {
    "multilingual-e5-small-q4": Belief(
        weight=0.75, sure=3.5, name=0.0, thorough=True, foreign=2.0, hub=0.25, accent="e5_accent.npy"
    )
}
"""The parameters for the vectors of certain models, by name."""

_CROWD = 20
"""Rank of the tool with which the best tool is compared: among thousands of tools, many have words in common with a request by
chance."""
_LEAST_AHEAD = 0.35
"""Lead of the best tool over that tool up to which the words are not certain at all."""
_AHEAD = 0.6
"""Lead from which the words are as certain as their cosine."""
_ROUNDING = 1e-5
"""Lead over the median tool that is only an error of rounding: products of different sizes are rounded differently."""


def _always(text: str) -> bool:
    return True


class Embedding:
    """Ranks tools by nearness to the request.

    The vector of the request is the weighted sum of the vectors of its messages. The nearness of a tool is the cosine of both
    vectors, less the cosine of the median visible tool, which is that of unrelated texts in this model. The scores are scaled so
    that the best tool has the highest cosine of the current message alone.
    """

    def __init__(
        self,
        catalog: Catalog,
        postings: Postings,
        embedder: Embedder,
        *,
        name: str = "embedding",
        belief: Belief = MODEL,
        is_worded: Callable[[str], bool] = _always,
        following: tuple[Vectors, Hubs] | None = None,
        near: Near | None = None,
    ) -> None:
        """Embeds the tools, unless `following` has their vectors, or `near` those that one request needs. `is_worded` returns
        True for a text that the embedder can read."""
        self.name = name
        self._catalog = catalog
        self._embedder = embedder
        self._postings = postings
        self._belief = belief
        self._is_worded = is_worded
        if following is None and near is None:
            vectors = Vectors(vectors_of(catalog.tools, embedder, belief))
            following = vectors, Hubs(vectors)
        self._whole = following
        """The vectors of all tools; None: there are only those that one request needs."""
        self._vectors: Vectors | Near
        self._hubs: Hubs | Near
        if following is not None:
            self._vectors, self._hubs = following
        elif near is not None:
            self._vectors = self._hubs = near

    def following(self, catalog: Catalog) -> Embedding:
        """Returns the ranker of a catalog that differs in few tools; only new tools are embedded."""
        assert self._whole is not None  # the vectors that one request needs are not those of another catalog
        change = change_between(self._catalog, catalog)
        added = [catalog.tools[position] for position in change.added.tolist()]
        before, hubs = self._whole
        vectors = before.changed(change.origin, vectors_of(added, self._embedder, self._belief))
        return Embedding(
            catalog,
            postings_of(catalog, self._postings),
            self._embedder,
            name=self.name,
            belief=self._belief,
            is_worded=self._is_worded,
            following=(vectors, hubs.changed(vectors, change)),
        )

    def beside(self, name: str, belief: Belief) -> Embedding:
        """Returns another ranker over the same vectors of the same catalog. The parts of `belief` by which vectors are made must
        be those of this ranker."""
        return Embedding(
            self._catalog,
            self._postings,
            self._embedder,
            name=name,
            belief=belief,
            is_worded=self._is_worded,
            following=self._whole,
        )

    def rank(self, words: QueryWords, visible: Visible | None) -> Ranking:
        """Returns the nearness of every tool to the request, with the weight that this ranker gives itself. The weight is 0 if
        the words are certain or the embedder can read nothing of the request."""
        weight = self._weight(words, visible)
        scores = self._scores(words, visible) if weight else None
        if scores is None:
            nothing = np.zeros(len(self._vectors), dtype=np.float32)
            return Ranking(scores=nothing, calibrated=True, influence=OwnWeight(weight=0.0))
        influence = OwnWeight(weight=weight)
        return Ranking(scores=scores, calibrated=True, influence=influence, explain=partial(_reasons, scores))

    def _scores(self, words: QueryWords, visible: Visible | None) -> Floats | None:
        """Returns the nearness of every tool, or None if the model can read nothing of the request."""
        read = request_of(words, self._embedder, self._belief, self._is_worded) if len(self._vectors) else None
        if read is None:
            return None
        texts, vectors, request = read
        cosines = self._vectors.cosines(request, visible)
        current = cosines if len(texts) == 1 else self._vectors.cosines(vectors[0], visible)
        nearest = min(1.0, max(0.0, float(current.max())))
        crowds = self._hubs.of(visible) * np.float32(words.foreign * self._belief.hub) if words.foreign else None
        near: Floats = cosines - self._usual(cosines, request, visible, crowds)
        if crowds is not None:
            near -= crowds
        near *= near >= _ROUNDING  # a fifth of the time of assigning zeros
        if visible is not None:
            near[~visible] = 0.0
        best = near.max()
        if not best > 0:
            return None
        said = words.translations[0][0] if words.translations else texts[0]
        if len(texts) == 1 and nearest < _TALK and not content_words(said[:_MOST_TEXT], "english"):
            return None
        near *= np.float32(nearest / best)
        return near

    def _usual(self, cosines: Floats, request: Floats, visible: Visible | None, crowds: Floats | None) -> np.float32:
        """Returns the cosine of the median visible tool, less what `crowds` has for each; if there are thousands, the median of
        an even sample. `cosines`: those of all tools, or of the nearest ones if there is a graph."""
        some = self._vectors.sample(visible, SAMPLE)
        sample = self._vectors.at(some) @ request if self._vectors.has_graph else cosines[some]
        return _median(sample if crowds is None else sample - crowds[some])

    def _weight(self, words: QueryWords, visible: Visible | None) -> float:
        """Returns the weight of this ranker for this request, relative to the mean of the rankers by words."""
        if words.foreign:
            own = self._belief.weight if words.foreign < 1 else 0.0
            foreign = self._belief.foreign * (_UNREAD if words.language == OTHER else 1.0)
            return words.foreign * foreign + (1 - words.foreign) * own
        query_terms = self._postings.query_terms(words, visible)
        clear = min(1.0, _LONG / max(1, _content_count(query_terms)))
        if words.language != ENGLISH and self._belief.not_english is not None:
            return clear * self._belief.not_english
        doubt = 1 - self._belief.sure * query_terms.scope.described * certainty(self._postings, query_terms, visible)
        return clear * self._belief.weight * max(0.0, doubt)


def request_of(
    words: QueryWords, embedder: Embedder, belief: Belief, is_worded: Callable[[str], bool] = _always
) -> tuple[Sequence[str], Floats, Floats] | None:
    """Returns the texts of a request, their vectors, and the vector of the request. None: the model can read nothing of it."""
    texts = [(text, weight) for text, weight in (*words.messages, *words.replies) if text.strip()]
    shares = (_language_share(text, embedder) if is_worded(text) else 0.0 for text, _ in texts)
    weights = np.array([weight * share for (_, weight), share in zip(texts, shares, strict=True)], dtype=np.float32)
    if not weights.any():
        return None
    vectors = _floats(request_vectors(embedder, [text for text, _ in texts]))
    if words.language == OTHER and belief.accent is not None:
        vectors = _without(vectors, _accent(belief.accent))
    return [text for text, _ in texts], vectors, vectors[0] if len(texts) == 1 else _unit(weights @ vectors)


def _language_share(text: str, embedder: Embedder) -> float:
    """Returns the estimated share of a text, 0 to 1, that is in a language of the model; 0 if its stop words are those of
    another language."""
    languages = embedder.languages
    if languages is None:
        return 1.0
    if is_foreign(split_words(text[:_MOST_TEXT]), languages):
        return 0.0
    return max(0.0, 2 * latin_share(text) - 1)


@lru_cache(maxsize=4)
def _accent(file: str) -> Floats:
    """Returns the direction in a file beside this module (see `Belief.accent`). Raises `ConfigError` if it cannot be read."""
    path = Path(__file__).with_name(file)
    with reading(path):
        accent: Floats = np.load(path)
    return accent


def _without(vectors: Floats, direction: Floats) -> Floats:
    """Returns the vectors without their parts in this direction, of length 1."""
    return _unit(vectors - np.outer(vectors @ direction, direction))


def _content_count(query_terms: QueryTerms) -> int:
    """Returns the number of different content words in the current message."""
    reading = query_terms.reading
    current = reading.messages[0][1] if reading.messages else ()
    return sum(reading.terms[place].content for place in current)


def belief_of(embedder: Embedder | RemoteEmbedder) -> Belief:
    """Returns the parameters for the vectors of this embedder."""
    return BELIEFS.get(embedder.name, MODEL)


def factory(embedder: Embedder) -> RankerFactory:
    """Returns the factory of the ranker `embedding` with the vectors of this embedder."""

    def make(catalog: Catalog, previous: Ranker | None = None) -> Ranker:
        if isinstance(previous, Embedding):
            return previous.following(catalog)
        return Embedding(catalog, postings_of(catalog), embedder, belief=belief_of(embedder))

    return make


def _reasons(nearness: Floats, positions: Sequence[int]) -> Reasons:
    least = _WORTH_SAYING * nearness.max(initial=0.0)
    near = nearness[np.array(positions, dtype=np.int64)].tolist()
    return [(f"near in meaning: {value:.2f}",) if value > 0 and value >= least else () for value in near]


def tool_text(tool: Tool) -> str:
    """Returns the name and description of a tool, as they are embedded."""
    name, description = spaced(tool.name), tool.description[:_MOST_TEXT].strip()
    return f"{name}: {description}" if description else name


def tool_texts(tool: Tool, belief: Belief = MODEL) -> tuple[str, ...]:
    """Returns the texts of a tool that are embedded, its name alone last."""
    name = spaced(tool.name)
    if not belief.thorough:
        return tool_text(tool), name
    description = tool.description[:_MOST_TEXT].strip()
    properties = tool.input_schema.get("properties")
    names = list(properties)[:_MOST_PARAMETERS] if isinstance(properties, Mapping) else ()
    parameters = ", ".join(spaced(str(each)) for each in names)
    return description or name, f"{tool_text(tool)} ({parameters})" if parameters else tool_text(tool), name


def vectors_of(tools: Sequence[Tool], embedder: Embedder, belief: Belief) -> Floats:
    """Returns the vectors of some tools, one row each."""
    texts = [tool_texts(tool, belief) for tool in tools]
    return combined(
        [_floats(embedder.embed(column)) for column in (zip(*texts, strict=True) if texts else ((), ()))], belief
    )


def combined(columns: Sequence[Floats], belief: Belief) -> Floats:
    """Returns the vectors of tools, one row each, from those of their texts: the first texts, the second ones, and so on."""
    if not belief.thorough:
        described, name_vectors = columns
        return _unit((1 - belief.name) * described + belief.name * name_vectors)
    # The sum is not made longer: the vector of a tool whose texts say different things is short, and a name alone is not.
    mixed: Floats = np.average(columns, axis=0, weights=_SHARES).astype(np.float32) if len(columns[0]) else columns[0]
    return mixed


def space_name(embedder: Embedder | RemoteEmbedder, belief: Belief) -> str:
    """Returns a name for the vectors of tools by this embedder. Those of another model, or made in another way, have another."""
    way = ":".join(map(str, _SHARES)) if belief.thorough else str(belief.name)
    return f"{embedder.name} {way}"


def certainty(postings: Postings, query_terms: QueryTerms, mask: Visible | None) -> float:
    """Returns how certain the words of a request are to find the right tool, 0 to 1.

    It is the highest cosine between the words of the request and those of a tool, weighted by rarity, including words that the
    catalog does not have. It is lower if other tools are nearly as good, and 0 if many are. Tools with short texts count as if
    their texts were longer.
    """
    if not len(query_terms.ids) or not postings.size:
        return 0.0
    scope, known = query_terms.scope, query_terms.visible
    rarity = np.full(len(query_terms.term_weights), scope.rarest, dtype=np.float32)
    rarity[query_terms.term[known]] = query_terms.rarity[known]
    query_length = float(np.sqrt(np.square(query_terms.term_weights * rarity).sum()))
    if not query_length:
        return 0.0
    weights = query_terms.weights * np.square(query_terms.rarity) * known
    cosines = postings.summed(query_terms.ids, weights, value=EVEN_COUNT) / scope.long_lengths
    cosines /= np.float32(query_length)
    if mask is not None:
        cosines[~mask] = 0.0
    best = float(cosines.max())
    return best * _ahead(cosines, best) if best > 0 else 0.0


def _ahead(cosines: Floats, best: float) -> float:
    """Returns a factor for the lead of the best tool over the tools behind it: 0 if many are nearly as good, 1 for a clear
    lead."""
    near = cosines[cosines > (1 - _AHEAD) * best]  # others give the same factor as a tool without any word
    if len(near) <= _CROWD:
        return 1.0
    crowd = float(np.partition(near, -_CROWD - 1)[-_CROWD - 1])
    return min(1.0, max(0.0, (1 - crowd / best - _LEAST_AHEAD) / (_AHEAD - _LEAST_AHEAD)))


def _median(values: Floats) -> np.float32:
    """Returns the median of some values, 0 if there are none, in a fifth of the time of `np.median`."""
    if not len(values):
        return np.float32(0.0)
    middle = len(values) // 2
    parted = np.partition(values, (max(0, middle - 1), middle))
    return np.float32(parted[middle] if len(values) % 2 else (parted[middle - 1] + parted[middle]) / 2)


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: Floats = (rows / np.maximum(lengths, 1e-9)).astype(np.float32, copy=False)
    return unit


def _floats(vectors: object) -> Floats:
    return np.asarray(vectors, dtype=np.float32)
