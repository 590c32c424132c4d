"""Finds the factories of a selector's rankers, among the installed ones and those of the caller, and checks the settings'
weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.presets import SIGNALS, SelectionSettings
from toolcaddie.ports import RankerFactory
from toolcaddie.registry import Registry
from toolcaddie.util.suggest import did_you_mean

RANKER = "ranker"
"""Name under which the plugin registry lists rankers."""

_MOST_FACTORIES = 64
"""The largest number of factories that are cached."""

_SHIPPED = frozenset({*SIGNALS["plain"], *SIGNALS["embedding"], "learned"})
"""Rankers of Toolcaddie. The settings may have weights for them even if an optional ranker is not installed."""


def ranker_factories(scorers: Sequence[str], own: Mapping[str, RankerFactory]) -> dict[str, RankerFactory]:
    """Returns the factories of the rankers named in `scorers`, of `bm25`, and all of the caller's `own`.

    A search uses `bm25` if the settings have no ranker. A factory of the caller replaces an installed one of the same name.
    Raises `ConfigError` for a ranker that is not installed.
    """
    factories = {name: own[name] if name in own else _installed(name, own) for name in scorers}
    return {**factories, "bm25": own.get("bm25") or _installed("bm25", own), **own}


def check_weights(settings: SelectionSettings, factories: Mapping[str, RankerFactory]) -> None:
    """Raises `ConfigError` if a weight in the settings is for a ranker that does not exist, is negative, or is not finite."""
    for name in settings.weights:
        if name not in _SHIPPED and name not in factories and name not in Registry().names(RANKER):
            raise ConfigError(f"selection.weights: no ranker {name!r}; {did_you_mean(name, _names(factories))}")
    for name, weight in settings.weights.items():
        if not 0 <= weight < math.inf:  # NaN fails this too
            raise ConfigError(f"selection.weights: {name} is {weight}; a weight is a number from 0 up")


@lru_cache(maxsize=_MOST_FACTORIES)
def _loaded(name: str) -> RankerFactory:
    """Returns the factory of an installed ranker. The result is cached, because a search through installed packages takes
    milliseconds."""
    factory: RankerFactory = Registry().make(RANKER, name)
    return factory


def _installed(name: str, own: Mapping[str, RankerFactory]) -> RankerFactory:
    """Returns the factory of an installed ranker. If there is none of that name, it raises `ConfigError` with the existing names,
    which include those of the caller's `own` rankers."""
    try:
        return _loaded(name)
    except ConfigError:
        if name in Registry().names(RANKER):
            raise
        raise ConfigError(f"selection.rankers: no ranker {name!r}; {did_you_mean(name, _names(own))}") from None


def _names(own: Mapping[str, RankerFactory]) -> list[str]:
    return sorted({*_SHIPPED, *own, *Registry().names(RANKER)})
