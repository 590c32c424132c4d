"""Queues of waiting requests, one for each tenant, which take turns by deficit round robin.

Each visit gives a queue credit for as much work as its tenant's weight, and its requests go as far as the credit reaches. So
however many requests one tenant sends, the next request of another tenant is reached within one round. Nothing here knows of
places or of time: `turns` decides when the next request may go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Waiter(Generic[T]):
    """A waiting request. `units`: its work; `since`: the moment of its arrival."""

    tenant: str
    units: int
    since: float
    outcome: asyncio.Future[T]


@dataclass(slots=True, eq=False)
class _Queue(Generic[T]):
    """The waiting requests of a tenant, the oldest first."""

    tenant: str
    weight: int
    waiters: deque[Waiter[T]] = field(default_factory=deque)
    credit: int = 0


class FairQueues(Generic[T]):
    """The queues of all tenants. `weights`: shares by tenant; 1 for those that are not named."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self.waiting = 0
        """The number of requests that wait."""
        self._weights = weights
        self._queues: dict[str, _Queue[T]] = {}
        self._round: deque[_Queue[T]] = deque()
        """The queues in the order of their turns."""

    def __len__(self) -> int:
        """The number of tenants with waiting requests."""
        return len(self._queues)

    def lengths(self) -> Mapping[str, int]:
        """Returns the number of waiting requests of each tenant that has any."""
        return {tenant: len(queue.waiters) for tenant, queue in self._queues.items()}

    def length(self, tenant: str) -> int:
        """Returns the number of waiting requests of a tenant."""
        queue = self._queues.get(tenant)
        return 0 if queue is None else len(queue.waiters)

    def add(self, waiter: Waiter[T]) -> None:
        """Puts a request at the end of the queue of its tenant."""
        tenant = waiter.tenant
        queue = self._queues.get(tenant)
        if queue is None:
            queue = self._queues[tenant] = _Queue(tenant, self._weights.get(tenant, 1))
            self._round.append(queue)
        queue.waiters.append(waiter)
        self.waiting += 1

    def remove(self, waiter: Waiter[T]) -> bool:
        """Removes a request. Returns False if it waits no longer."""
        queue = self._queues.get(waiter.tenant)
        if queue is None or waiter not in queue.waiters:
            return False
        queue.waiters.remove(waiter)
        self.waiting -= 1
        if not queue.waiters:
            self._drop(queue)
        return True

    def next(self, passes: Callable[[str], bool] | None) -> Waiter[T] | None:
        """Takes the request whose turn it is from its queue. `passes` returns True for a tenant that misses its turn; None: no
        tenant does. Returns None if all do."""
        missed = 0
        while missed < len(self._round):
            queue = self._round[0]
            if passes is not None and passes(queue.tenant):
                missed += 1
                self._round.rotate(-1)
                continue
            missed = 0
            waiter = queue.waiters[0]
            if waiter.outcome.done():  # cancelled a moment ago
                self.remove(waiter)
                continue
            if queue.credit < waiter.units:
                queue.credit += queue.weight
                if queue.credit < waiter.units:
                    self._round.rotate(-1)
                    continue
            self._take(queue)
            return waiter
        return None

    def newest_of_longest(self) -> Waiter[T]:
        """Returns the newest request of the longest queue. At least one must wait."""
        return max(self._round, key=lambda queue: len(queue.waiters)).waiters[-1]

    def older_than(self, moment: float) -> Sequence[Waiter[T]]:
        """Returns the requests that arrived at this moment or before, the oldest of each tenant first."""
        return [
            waiter
            for queue in self._round
            for waiter in takewhile(lambda waiter: waiter.since <= moment, queue.waiters)
        ]

    def oldest(self) -> float:
        """Returns the moment at which the oldest request arrived. At least one must wait."""
        return min(queue.waiters[0].since for queue in self._round)

    def _take(self, queue: _Queue[T]) -> None:
        """Takes the first request of the queue whose turn it is, and ends the turn if the next one goes beyond its credit."""
        queue.credit -= queue.waiters.popleft().units
        self.waiting -= 1
        if not queue.waiters:
            self._drop(queue)
        elif queue.credit < queue.waiters[0].units:
            self._round.rotate(-1)

    def _drop(self, queue: _Queue[T]) -> None:
        """Removes a queue without requests. Its credit is lost, so that a tenant cannot save turns for later."""
        del self._queues[queue.tenant]
        self._round.remove(queue)
