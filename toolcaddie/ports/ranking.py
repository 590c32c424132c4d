"""Sockets of ranking: what scores the tools of a catalog, and the value it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.selection import QueryWords

Scores = npt.NDArray[np.float32]
"""One score for each position of a catalog."""

Visible = npt.NDArray[np.bool_]
"""Whether each position of a catalog may be seen by the caller; read-only."""

Reasons = Sequence[tuple[str, ...]]
"""For each tool, why it was scored as it was, in words for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedWeight:
    """The ranker counts in the weighted mean of its kind, by its weight of the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWeight:
    """The ranker counts beside that mean, by a weight that it finds for this request."""

    weight: float
    """Beside the mean, which counts 1. 0: it has nothing to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWord:
    """The ranker turns the scores that all others came to into the final ones."""

    blend: Callable[[Scores, float], Scores]
    """Takes the others' scores, 0 to 1, and the weight of the settings. It must leave the array it is given as it is."""


Influence = FixedWeight | OwnWeight | LastWord


def no_reasons(positions: Sequence[int]) -> Reasons:
    return [()] * len(positions)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranking:
    """A ranker's answer to one request."""

    scores: Scores
    """0 and up; 0: nothing to say. Hidden positions have 0."""
    calibrated: bool = False
    """Scores are 0 to 1 and mean the same in every request. Others are stretched so that the best tool has 1."""
    influence: Influence = FixedWeight()
    explain: Callable[[Sequence[int]], Reasons] = no_reasons
    """Returns the reasons for the tools at these positions. Called for the tools that are shown, or not at all."""


class Ranker(Protocol):
    """Scores every tool of one catalog. Made once per catalog, asked once per request, by any thread."""

    @property
    def name(self) -> str: ...
    def rank(self, words: QueryWords, visible: Visible | None) -> Ranking:
        """Returns the ranking of all tools; `visible` is None where the caller may see them all."""
        ...


class RankerFactory(Protocol):
    """Makes the ranker of a catalog.

    Where the catalog differs in few tools from an earlier one, `previous` is the ranker that this factory made for that one, and
    may be used to save work; otherwise it is None. The result scores as one made without it, and `previous` stays as it is,
    because other threads still use it.
    """

    def __call__(self, catalog: Catalog, previous: Ranker | None = None, /) -> Ranker: ...
