"""Places for requests, and the turns of those that wait.

A request has a place from its admission to its answer. At first it computes: its body is read, tools are selected. Then it is
away: it waits for a model or a tool, and needs no processor. Only few requests compute at once, and only one begins in each pass
of the event loop, because one loop runs them all: if it began all that have arrived, they would be served in the order of their
arrival, and the most of them belong to the tenant that sends the most. While only one tenant sends requests, none of this is
needed, and a request that finds a place begins at once.

Requests without a place wait in `fair_queues`, one for each tenant. If too many wait, the newest request of the longest queue is
refused.

A request that has begun passes through the event loop some twenty times more, and each pass lasts as long as what others begin
in it. So a tenant that has had much more than another one of late begins nothing while a request of that one computes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from toolcaddie.doors.gateway.fair_queues import FairQueues, Waiter
from toolcaddie.doors.gateway.idle_loop import IdleLoop
from toolcaddie.doors.gateway.load import Load, TenantLoad
from toolcaddie.doors.gateway.recent_use import RecentUse

COMPUTING = 4
"""Requests that compute at once. More than one, because each of them waits for the database now and then."""
_UNIT = 32 * 1024
"""Bytes of a body that count as one further unit of work."""
_MOST_UNITS = 16
"""The largest number of units of one request, so that the turns of a round are soon over."""
_MIXED_SECONDS = 10.0
"""Seconds for which the requests of another tenant count as present."""
_RATE_SECONDS = 30.0
"""Seconds of the past from which the rate of answers is computed."""
_LONGEST_ADVICE = 60
"""The largest number of seconds of a `retry-after`."""

Reason = Literal["full", "late"]
"""Why a request is refused: too many wait, or it has waited too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request that gets no place. `retry_after`: seconds until it probably would."""

    reason: Reason
    retry_after: int


class Turn:
    """The place of one request."""

    __slots__ = ("_computing", "_ended", "_turns", "tenant")

    def __init__(self, turns: Turns, tenant: str) -> None:
        self._turns, self.tenant = turns, tenant
        self._computing, self._ended = True, False

    def away(self) -> None:
        """Says that the request now waits for something outside, so that another one may compute."""
        if self._computing:
            self._computing = False
            self._turns._left(self.tenant)

    def back(self) -> None:
        """Says that the request computes again. It does not wait for that, but new requests wait for it."""
        if not self._computing and not self._ended:
            self._computing = True
            self._turns._returned(self.tenant)

    def end(self) -> None:
        """Gives the place back. It may be called more than once."""
        if not self._ended:
            self._ended = True
            computing, self._computing = self._computing, False
            self._turns._ended(self.tenant, computing=computing)


_Waiter = Waiter[Turn | Refusal]


class Turns:
    """Gives places to requests: `begin` at once, or `wait`."""

    def __init__(
        self,
        *,
        requests: int,
        waiting: int,
        per_tenant: int,
        wait_seconds: float,
        weights: Mapping[str, int],
        computing: int = COMPUTING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`requests`: places; `per_tenant`: those that one tenant may have if there are others. `waiting`: requests that may
        wait, each at most `wait_seconds`. `weights`: shares by tenant. `computing`: see `COMPUTING`."""
        self._requests, self._most_waiting, self._per_tenant = requests, waiting, per_tenant
        self._wait_seconds, self._weights, self._most_computing = wait_seconds, weights, computing
        self._clock = clock
        self.at_work = 0
        self._queues: FairQueues[Turn | Refusal] = FairQueues(weights)
        self._idle_loop = IdleLoop(self._looked)
        self._use = RecentUse(weights, clock)
        self._computing = 0
        self._computers: dict[str, int] = {}
        """Requests that compute, by tenant."""
        self._places: dict[str, int] = {}
        """Places by tenant."""
        self._last_tenant: str | None = None
        self._mixed_until = 0.0
        """The moment until which several tenants count as present."""
        self._mixed = False
        """True if several tenants were present at the last request."""
        self._ends: deque[float] = deque(maxlen=512)
        """The moments of the last answers."""
        self._begun = False
        """True if a request has begun in the present pass of the event loop."""
        self._passing = False
        """True if `_passed` will be called at the beginning of the next pass."""
        self._sweep: asyncio.TimerHandle | None = None

    # --- what doors call ---------------------------------------------------------------------------------------------

    def begin(self, tenant: str) -> Turn | None:
        """Returns a place if nobody waits and one is free, else None."""
        self._note(tenant)
        if self._queues.waiting or self.at_work >= self._requests:
            return None
        if self._mixed and (self._begun or self._computing >= self._most_computing or self._misses_its_turn(tenant)):
            return None
        return self._placed(tenant)

    async def wait(self, tenant: str, size: int) -> Turn | Refusal:
        """Returns a place when its turn comes, or a refusal. `size`: bytes of the request's body, as far as they are known."""
        if self._queues.waiting >= self._most_waiting and not self._makes_room(tenant):
            return Refusal(reason="full", retry_after=self._advice(tenant))
        loop = asyncio.get_running_loop()
        units = 1 + min(_MOST_UNITS - 1, size // _UNIT)
        waiter = _Waiter(tenant=tenant, units=units, since=self._clock(), outcome=loop.create_future())
        self._queues.add(waiter)
        self._pump()
        if waiter.outcome.done():
            return waiter.outcome.result()
        if self._sweep is None:
            self._sweep = loop.call_later(self._wait_seconds, self._swept)
        try:
            return await waiter.outcome
        except asyncio.CancelledError:
            self._forget(waiter)
            raise

    def load(self, most_tenants: int) -> Load:
        """Returns the requests of this moment. `most_tenants`: the largest number of tenants that it names."""
        lengths = self._queues.lengths()
        tenants = [
            TenantLoad(
                tenant=tenant,
                at_work=self._places.get(tenant, 0),
                waiting=lengths.get(tenant, 0),
                weight=self._weights.get(tenant, 1),
            )
            for tenant in self._places.keys() | lengths.keys()
        ]
        return Load(
            places=self._requests,
            at_work=self.at_work,
            waiting=self._queues.waiting,
            most_waiting=self._most_waiting,
            per_tenant=self._per_tenant,
            tenants=sorted(tenants, key=lambda each: (-each.at_work - each.waiting, each.tenant))[:most_tenants],
        )

    # --- places ------------------------------------------------------------------------------------------------------

    def _note(self, tenant: str) -> None:
        """Notes that a tenant has sent a request."""
        if tenant != self._last_tenant:
            if self._last_tenant is not None:
                self._mixed_until = self._clock() + _MIXED_SECONDS
            self._last_tenant = tenant
        self._mixed = self._mixed_until > 0 and self._clock() < self._mixed_until

    def _at_its_share(self, tenant: str) -> bool:
        return self._places.get(tenant, 0) >= self._per_tenant

    def _misses_its_turn(self, tenant: str) -> bool:
        return self._at_its_share(tenant) or self._use.is_ahead(tenant, self._computers)

    def _placed(self, tenant: str) -> Turn:
        self._begun = self._mixed
        if self._begun:
            self._await_pass()
            self._use.add(tenant)
        self.at_work += 1
        self._returned(tenant)
        self._places[tenant] = self._places.get(tenant, 0) + 1
        return Turn(self, tenant)

    def _await_pass(self) -> None:
        if not self._passing:
            self._passing = True
            asyncio.get_running_loop().call_soon(self._passed)

    def _passed(self) -> None:
        """Begins another pass of the event loop."""
        self._passing = self._begun = False
        if self._queues.waiting:
            self._pump()

    def _left(self, tenant: str) -> None:
        self._stopped(tenant)
        if self._queues.waiting:
            self._pump()

    def _returned(self, tenant: str) -> None:
        self._computing += 1
        self._computers[tenant] = self._computers.get(tenant, 0) + 1

    def _stopped(self, tenant: str) -> None:
        self._computing -= 1
        _count_down(self._computers, tenant)

    def _ended(self, tenant: str, *, computing: bool) -> None:
        self.at_work -= 1
        if computing:
            self._stopped(tenant)
        _count_down(self._places, tenant)
        if not self.at_work:
            self._begun = False
        self._ends.append(self._clock())
        if self._queues.waiting:
            self._pump()

    # --- queues ------------------------------------------------------------------------------------------------------

    def _pump(self, *, is_idle: bool = False) -> None:
        """Gives free places to waiting requests. `is_idle`: the loop has nothing to do, so one more may begin than usually."""
        beyond = max(0, self._computing - self._most_computing) + 1 if is_idle else 0
        passes = self._at_its_share if is_idle else self._misses_its_turn
        while self._queues.waiting and self.at_work < self._requests:
            if self._begun:
                self._await_pass()
                return
            if self._mixed and self._computing >= self._most_computing + beyond:
                self._idle_loop.look()
                return
            waiter = self._queues.next(passes if self._mixed else None)
            if waiter is None:  # all that wait belong to tenants that have used up their places, or give way
                if not is_idle:
                    self._idle_loop.look()
                return
            waiter.outcome.set_result(self._placed(waiter.tenant))

    def _looked(self, is_idle: bool) -> None:
        """Called a moment after requests had to wait for others that compute. Those may all be waiting for something, such as a
        slow database."""
        self._pump(is_idle=is_idle)

    def _forget(self, waiter: _Waiter) -> None:
        """Removes a request that waits no longer, or gives back the place that it has got meanwhile."""
        if self._queues.remove(waiter) or not waiter.outcome.done() or waiter.outcome.cancelled():
            return
        outcome = waiter.outcome.result()
        if isinstance(outcome, Turn):
            outcome.end()

    # --- refusals ----------------------------------------------------------------------------------------------------

    def _makes_room(self, tenant: str) -> bool:
        """Refuses the newest request of the longest queue in favour of a request of `tenant`. Returns False if the tenant's own
        queue is as long as its share."""
        own = self._queues.length(tenant)
        if own >= self._most_waiting / (len(self._queues) + (not own)) and own:
            return False
        newest = self._queues.newest_of_longest()
        if newest.tenant == tenant:
            return False
        self._refuse(newest, "full")
        return True

    def _swept(self) -> None:
        """Refuses the requests that have waited too long, and comes again when the next ones will have."""
        self._sweep = None
        now = self._clock()
        for waiter in self._queues.older_than(now - self._wait_seconds):
            self._refuse(waiter, "late")
        if self._queues.waiting:
            wait = max(0.001, self._queues.oldest() + self._wait_seconds - now)
            self._sweep = asyncio.get_running_loop().call_later(wait, self._swept)

    def _refuse(self, waiter: _Waiter, reason: Reason) -> None:
        advice = self._advice(waiter.tenant)
        self._forget(waiter)
        if not waiter.outcome.done():
            waiter.outcome.set_result(Refusal(reason=reason, retry_after=advice))

    def _advice(self, tenant: str) -> int:
        """Returns the seconds after which the tenant's queue would be served, at the rate of the last answers."""
        now, ends = self._clock(), self._ends
        while ends and ends[0] < now - _RATE_SECONDS:
            ends.popleft()
        if not ends:
            return math.ceil(min(self._wait_seconds, _LONGEST_ADVICE))
        rate = len(ends) / max(now - ends[0], 0.001)
        ahead = min(self._queues.waiting, max(1, self._queues.length(tenant)) * len(self._queues)) + 1
        return max(1, min(_LONGEST_ADVICE, math.ceil(ahead / rate)))


def _count_down(counts: dict[str, int], tenant: str) -> None:
    """Takes one from the count of a tenant, which is removed at zero."""
    left = counts[tenant] - 1
    if left:
        counts[tenant] = left
    else:
        del counts[tenant]
