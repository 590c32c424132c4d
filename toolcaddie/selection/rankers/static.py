"""The ranker `static`: nearness by the vectors of the word table, which is part of every installation (see `word_table`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from weakref import WeakValueDictionary

from toolcaddie.core.catalog import Catalog
from toolcaddie.ports import Embedder, Ranker, RankerFactory, RemoteEmbedder
from toolcaddie.selection.index.postings import postings_of
from toolcaddie.selection.rankers.embedding import Belief, Embedding
from toolcaddie.selection.word_table import word_table

BELIEF = Belief(weight=1.75, sure=3.0, name=0.2, foreign=2.0, not_english=0.9, hub=0.2)
"""The parameters for these vectors. They weigh less than those of a model, because the table knows words and not sentences."""

_BESIDE = replace(BELIEF, weight=0.0, not_english=0.0)
"""The parameters of the ranker `table` beside a model of English: it takes part only if the model cannot read the request."""
_BESIDE_MANY = replace(_BESIDE, foreign=0.7)
"""Those beside a model of many languages."""
_BESIDE_MODEL: Mapping[str, Belief] = {
    "multilingual-e5-small-q4": replace(_BESIDE_MANY, weight=1.25, not_english=0.5, foreign=1.0)
}
"""Those beside certain models, by name."""


_made: WeakValueDictionary[str, Embedding] = WeakValueDictionary()
"""A ranker of each catalog, so that `static` and `table` have the same vectors: those of 100,000 tools take 100 MB."""


def factory(catalog: Catalog, previous: Ranker | None = None) -> Ranker:
    return _ranker(catalog, previous, "static", BELIEF)


def beside(embedder: Embedder | RemoteEmbedder) -> RankerFactory:
    """Returns the factory of the ranker `table`: the same vectors, with the weight that helps beside those of this embedder."""
    belief = _BESIDE_MODEL.get(embedder.name, _BESIDE_MANY if embedder.languages is None else _BESIDE)

    def make(catalog: Catalog, previous: Ranker | None = None) -> Ranker:
        return _ranker(catalog, previous, "table", belief)

    return make


def with_embedder(embedder: Embedder | RemoteEmbedder, main: RankerFactory) -> dict[str, RankerFactory]:
    """Returns the factories of the rankers that an embedder adds: `main`, which compares its vectors, and `table` beside it."""
    return {"embedding": main, "table": beside(embedder)}


def _ranker(catalog: Catalog, previous: Ranker | None, name: str, belief: Belief) -> Ranker:
    if isinstance(previous, Embedding):
        return previous.following(catalog)
    if (other := _made.get(catalog.version)) is not None:
        return other.beside(name, belief)
    table = word_table()
    made = Embedding(catalog, postings_of(catalog), table, name=name, belief=belief, is_worded=table.is_worded)
    _made[catalog.version] = made
    return made
