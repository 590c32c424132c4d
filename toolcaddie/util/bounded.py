"""The least-recently-used store behind every bounded cache of Toolcaddie: values by key, limited by their number and by sizes
such as their bytes."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Limit(Generic[V]):
    """A limit on the sum of the sizes of all values. The size of a value must not change while the value is stored."""

    most: int
    """The largest sum that is allowed."""
    size: Callable[[V], int]
    """Returns the size of one value."""


class Bounded(Generic[K, V]):
    """Stores at most `most` values (None: any number), within the `limits`; the least recently used values are evicted first.

    The newest value is stored whatever its size. `on_eviction` is called with each evicted value. None cannot be stored as a
    value. Safe for many threads.
    """

    def __init__(
        self, most: int | None = None, *limits: Limit[V], on_eviction: Callable[[V], None] | None = None
    ) -> None:
        self._most = sys.maxsize if most is None else most
        self._limits = limits
        self._on_eviction = on_eviction
        self._totals = [0] * len(limits)
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[K]:
        """Iterates over a copy of the keys, the least recently used first."""
        with self._lock:
            return iter(list(self._values))

    @property
    def totals(self) -> tuple[int, ...]:
        """The sum of the sizes of all values for each limit, in the order of the limits."""
        return tuple(self._totals)

    def get(self, key: K) -> V | None:
        """Returns the value of a key, which now counts as the most recently used one, or None.

        This method takes no lock, because a lock would double its time. Each of its two steps is atomic; if another thread
        evicts the value between them, the result is None.
        """
        values = self._values
        value = values.get(key)
        if value is not None:
            try:
                values.move_to_end(key)
            except KeyError:
                return None
        return value

    def peek(self, key: K) -> V | None:
        """Returns the value of a key without counting it as used, or None."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Stores a value under a key, and evicts other values until all limits are kept."""
        with self._lock:
            evicted = self._store(key, value)
        if evicted:
            self._report(evicted)

    def put_if_absent(self, key: K, value: V) -> V:
        """Stores a value unless the key already has one, and returns the key's value. If several threads store one, the first
        value stays."""
        with self._lock:
            existing = self._values.get(key)
            if existing is not None:
                return existing
            evicted = self._store(key, value)
        if evicted:
            self._report(evicted)
        return value

    def pop(self, key: K) -> V | None:
        """Removes a value and returns it, or None; `on_eviction` is not called."""
        with self._lock:
            return self._drop(key)

    def latest(self) -> list[V]:
        """Returns the values, the most recently used first."""
        with self._lock:
            return list(reversed(self._values.values()))

    def _store(self, key: K, value: V) -> list[V]:
        """Stores a value under the caller's lock, and returns the values that had to be evicted."""
        values = self._values
        if self._limits:
            self._drop(key)
            self._count(value, 1)
        values[key] = value
        values.move_to_end(key)
        evicted: list[V] = []
        while len(values) > 1 and (len(values) > self._most or (self._limits and self._exceeds_a_limit())):
            _, oldest = values.popitem(last=False)
            self._count(oldest, -1)
            evicted.append(oldest)
        return evicted

    def _drop(self, key: K) -> V | None:
        value = self._values.pop(key, None)
        if value is not None and self._limits:
            self._count(value, -1)
        return value

    def _count(self, value: V, sign: int) -> None:
        for i, limit in enumerate(self._limits):
            self._totals[i] += sign * limit.size(value)

    def _exceeds_a_limit(self) -> bool:
        return any(total > limit.most for total, limit in zip(self._totals, self._limits, strict=True))

    def _report(self, evicted: list[V]) -> None:
        """Calls `on_eviction` for each evicted value after the lock is released, so that the callback may use the store."""
        if self._on_eviction is not None:
            for value in evicted:
                self._on_eviction(value)
