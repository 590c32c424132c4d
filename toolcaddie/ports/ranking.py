"""Interfaces (sockets, which plugins fill) for ranking: rankers, which score the tools of a catalog for a request, and the value
that they return. The selector combines the scores of all rankers. The position of a tool is its index in the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords

Scores = npt.NDArray[np.float32]
"""One score for each position of a catalog."""

Visible = npt.NDArray[np.bool_]
"""True for each position of a catalog that the caller may see; read-only."""

Reasons = Sequence[tuple[str, ...]]
"""Reasons of the score of each tool, in words for people."""


class FixedWeight(msgspec.Struct, frozen=True, kw_only=True):
    """Includes the ranker in the weighted mean of all rankers with a fixed weight. The weight is in the settings."""


class OwnWeight(msgspec.Struct, frozen=True, kw_only=True):
    """Adds the ranker to the mean of the rankers with a fixed weight. The ranker chooses its weight for each request."""

    weight: float
    """Weight of the ranker, where that mean has weight 1; 0: the ranker abstains."""


class LastWord(msgspec.Struct, frozen=True, kw_only=True):
    """Lets the ranker turn the combined scores of all other rankers into the final scores."""

    blend: Callable[[Scores, float], Scores]
    """Lets the ranker turn the combined scores of all others into the final scores."""


Influence = FixedWeight | OwnWeight | LastWord


def no_reasons(positions: Sequence[int]) -> Reasons:
    """Returns an empty tuple of reasons for each position."""
    return [()] * len(positions)


class Ranking(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A ranker's answer to one request."""

    scores: Scores
    """Scores of 0 and more; 0: no opinion. Hidden positions have 0."""
    calibrated: bool = False
    """True: scores are 0 to 1 and mean the same in every request. False: they are scaled so that the best tool has 1."""
    influence: Influence = FixedWeight()
    explain: Callable[[Sequence[int]], Reasons] = no_reasons
    """Returns the reasons for the tools at these positions. Called only for displayed tools, when somebody first reads their
    reasons: perhaps later, and from another thread."""


class Ranker(Protocol):
    """Scores every tool of one catalog. Made once per catalog, called once per request, from any thread."""

    @property
    def name(self) -> str: ...
    def rank(self, words: QueryWords, visible: Visible | None) -> Ranking:
        """Returns the ranking of all tools; `visible` None: the caller may see them all."""
        ...


class RankerFactory(Protocol):
    """Makes the ranker of a catalog.

    If the catalog differs in few tools from an earlier one, `previous` is this factory's ranker for that catalog, which may
    be used to save work; otherwise it is None. The result must score as one made without it, and `previous` must not
    change, because other threads still use it.
    """

    def __call__(self, catalog: Catalog, previous: Ranker | None = None, /) -> Ranker: ...
