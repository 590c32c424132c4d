"""The one least-recently-used store: values by key, bounded by their number and their weight."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """Keeps at most `most` values, of at most `heaviest` weight together; the ones that were not used for longest go first.

    `weight` is the weight of a value, such as its bytes. The newest value stays whatever it weighs. Safe for many threads.
    """

    def __init__(
        self, most: int | None = None, *, heaviest: int | None = None, weight: Callable[[V], int] | None = None
    ) -> None:
        self._most = most
        self._heaviest = heaviest
        self._weight = weight
        self._total = 0
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """Returns the value, which counts as used now, or None."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def peek(self, key: K) -> V | None:
        """Returns the value, which does not count as used, or None."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Stores a value under a key, and drops those that are too many now."""
        with self._lock:
            self._drop(key)
            self._values[key] = value
            if self._weight is not None:
                self._total += self._weight(value)
            while self._is_over():
                self._drop(next(iter(self._values)))

    def pop(self, key: K) -> V | None:
        """Removes a value and returns it, or None."""
        with self._lock:
            return self._drop(key)

    def latest(self) -> list[V]:
        """Returns the values, the ones used last first."""
        with self._lock:
            return list(reversed(self._values.values()))

    def _drop(self, key: K) -> V | None:
        value = self._values.pop(key, None)
        if value is not None and self._weight is not None:
            self._total -= self._weight(value)
        return value

    def _is_over(self) -> bool:
        if len(self._values) <= 1:
            return False
        return (self._most is not None and len(self._values) > self._most) or (
            self._heaviest is not None and self._total > self._heaviest
        )
