"""Circuit breakers: an upstream that fails again and again is left alone for a while, and then tried with one request.

    breaker = breakers.named("mcp:tickets")
    if wait := breaker.wait():
        raise ...  # try again in `wait` seconds
    with breaker.watched() as attempt:
        answer = await send(request)
        attempt.failed = answer.status >= 500

Without that, each request to a dead upstream takes as long as its timeout, and holds a connection and a place meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from toolcaddie.core.breakers import BreakerSettings, Circuit, CircuitState
from toolcaddie.util.log import Logger

log = Logger(__name__)

Observe = Callable[[str, CircuitState], None]

_TRIAL_SECONDS = 1.0
"""Seconds after which a request is told to come again while another one is the trial."""
_DEFAULT_SETTINGS = BreakerSettings()
_FAILURES = (TimeoutError, ConnectionError)
"""Exceptions that usually mean that an upstream has failed."""


def _ignore(name: str, state: CircuitState) -> None:
    """Observes nothing."""


class Breaker:
    """The circuit to one upstream, `name`. `observe` is called with each new state. `clock` returns steady seconds."""

    def __init__(
        self,
        name: str,
        settings: BreakerSettings = _DEFAULT_SETTINGS,
        *,
        observe: Observe = _ignore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.state: CircuitState = "closed"
        self._settings, self._observe, self._clock = settings, observe, clock
        self._until = 0.0
        """The end of the half of the window that is being counted."""
        self._now, self._before = [0, 0], [0, 0]
        """Requests and failures in this half of the window, and in the one before."""
        self._trial_at = 0.0
        self._pause = settings.pause
        self._trying = self._untaken = False
        """True while a trial is under way; true until `watched` has taken it."""

    def wait(self) -> float:
        """Returns 0 if a request may be sent: `watched` must follow. Otherwise returns the seconds after which to ask again."""
        if self.state == "closed":
            return 0.0
        left = self._trial_at - self._clock()
        if left > 0:
            return left
        if self._trying:
            return _TRIAL_SECONDS
        self._trying = self._untaken = True
        self._enter("half-open")
        return 0.0

    def watched(self, *failures: type[BaseException]) -> Attempt:
        """Returns the context manager for a request. Its outcome is counted at the end of the block. `failures`: exceptions that
        mean that the upstream has failed; none: those of `Attempt`."""
        is_trial, self._untaken = self._untaken, False
        return Attempt(self, failures or _FAILURES, is_trial=is_trial)

    @property
    def circuit(self) -> Circuit:
        """The circuit as it is now."""
        self._move_window()
        return Circuit(
            upstream=self.name,
            state=self.state,
            requests=self._now[0] + self._before[0],
            failures=self._now[1] + self._before[1],
            seconds_to_trial=0.0 if self.state == "closed" else max(0.0, self._trial_at - self._clock()),
        )

    def _count(self, *, failed: bool, is_trial: bool) -> None:
        if is_trial:
            self._decide(failed=failed)
            return
        if self.state != "closed":
            return  # the answer to a request that was sent before the circuit opened
        self._move_window()
        self._now[0] += 1
        if not failed:
            return
        self._now[1] += 1
        requests, failures = self._now[0] + self._before[0], self._now[1] + self._before[1]
        if requests >= self._settings.requests and failures >= self._settings.share * requests:
            self._open(requests=requests, failures=failures)

    def _move_window(self) -> None:
        """Begins another half of the window if the present one is over."""
        now = self._clock()
        if now >= self._until:
            half = self._settings.window / 2
            self._before = self._now if now < self._until + half else [0, 0]
            self._now, self._until = [0, 0], now + half

    def _decide(self, *, failed: bool) -> None:
        """Takes the outcome of the trial."""
        self._trying = False
        if failed:
            self._pause = min(self._settings.longest_pause, self._pause * 2)
            self._open(trial="failed")
            return
        self._pause = self._settings.pause
        self._now, self._before = [0, 0], [0, 0]
        self._enter("closed")
        log.info("circuit_closed", upstream=self.name)

    def _open(self, **about: object) -> None:
        self._trial_at = self._clock() + self._pause
        self._enter("open")
        log.warning("circuit_opened", upstream=self.name, seconds=self._pause, **about)

    def _drop(self) -> None:
        """Takes a trial that has ended without an outcome, because its client has left. The next request is the trial."""
        self._trying = False
        self._enter("open")

    def _enter(self, state: CircuitState) -> None:
        self.state = state
        self._observe(self.name, state)


class Attempt:
    """A request to an upstream. `failed`: True if it is known to have failed. An exception of `failures` is a failure too, any
    other error means that there was an answer, and a cancellation has no outcome."""

    __slots__ = ("_breaker", "_failures", "_is_trial", "failed")

    def __init__(self, breaker: Breaker, failures: tuple[type[BaseException], ...], *, is_trial: bool) -> None:
        self._breaker, self._failures, self._is_trial = breaker, failures, is_trial
        self.failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None or issubclass(kind, Exception):
            failed = self.failed or (kind is not None and issubclass(kind, self._failures))
            self._breaker._count(failed=failed, is_trial=self._is_trial)
        elif self._is_trial:
            self._breaker._drop()


class Breakers:
    """The breakers of a process, by name of the upstream. `observe`: see `Breaker`."""

    def __init__(
        self,
        settings: BreakerSettings = _DEFAULT_SETTINGS,
        *,
        observe: Observe = _ignore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._observe, self._clock = settings, observe, clock
        self._all: dict[str, Breaker] = {}

    def named(self, name: str) -> Breaker | None:
        """Returns the breaker of an upstream, the same one for each name; None: the settings want none."""
        if not self._settings.enabled:
            return None
        if name not in self._all:
            self._all[name] = Breaker(name, self._settings, observe=self._observe, clock=self._clock)
        return self._all[name]

    def below(self, owner: str) -> Breakers:
        """Returns the breakers of an owner's own upstreams, which may have the names of others: `mcp:tickets` of `acme` is called
        `mcp:acme/tickets`."""
        return _Below(self, owner)

    @property
    def circuits(self) -> Sequence[Circuit]:
        """The circuits of all upstreams, by name."""
        return [self._all[name].circuit for name in sorted(self._all)]


class _Below(Breakers):
    def __init__(self, all_breakers: Breakers, owner: str) -> None:
        super().__init__()
        self._all_breakers, self._owner = all_breakers, owner

    def named(self, name: str) -> Breaker | None:
        kind, _, upstream = name.partition(":")
        return self._all_breakers.named(f"{kind}:{self._owner}/{upstream}")
