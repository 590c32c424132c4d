"""Cores that are shared equally by all programs that have work, and programs of which one thread at a time works."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import simpy

_LEAST = 1e-12
_SWITCH = 0.005
"""Seconds after which a thread of Python lets another one work that waits, `sys.getswitchinterval()`."""

Steps = Generator[simpy.Event, Any, None]


@dataclass(slots=True, kw_only=True, eq=False)
class Work:
    """CPU that a program needs."""

    seconds: float
    done: simpy.Event
    rate: float = 0.0


class Program:
    """A program whose event loop does one thing after the other. Of all its threads, one at a time works, as Python's lock of the
    interpreter has it: another one begins when that one waits for something, or has worked for `_SWITCH` seconds."""

    def __init__(self, environment: simpy.Environment, party: str) -> None:
        self.party = party
        self.loop = simpy.Resource(environment)
        self.interpreter = simpy.Resource(environment)


class Cores:
    """Processor sharing: each program that has work gets the same share of the cores, and at most one of them. `factors` multiply
    the work by party."""

    def __init__(self, environment: simpy.Environment, count: int, factors: Mapping[str, float]) -> None:
        self.used: dict[str, float] = {}
        """Seconds of CPU by party."""
        self._environment = environment
        self._count = count
        self._factors = factors
        self._work: list[Work] = []
        self._at = 0.0
        self._version = 0

    def run(self, program: Program, seconds: float) -> simpy.Event:
        """Returns the event that happens once the program has had so many seconds of CPU."""
        done = self._environment.event()
        seconds *= self._factors.get(program.party, 1.0)
        self.used[program.party] = self.used.get(program.party, 0.0) + seconds
        if seconds <= _LEAST:
            return done.succeed()
        self._advance()
        self._work.append(Work(seconds=seconds, done=done))
        self._share()
        return done

    def work(self, program: Program, seconds: float) -> Steps:
        """Does work in a thread of a program, which takes turns with its other threads."""
        while seconds > _LEAST:
            piece = min(seconds, _SWITCH)
            with program.interpreter.request() as turn:
                yield turn
                yield self.run(program, piece)
            seconds -= piece

    def _advance(self) -> None:
        """Counts the time since the last change as work that is done."""
        elapsed, self._at = self._environment.now - self._at, self._environment.now
        for work in self._work:
            work.seconds -= work.rate * elapsed

    def _share(self) -> None:
        """Gives each work its share, and wakes up when the next one is done."""
        self._version += 1
        if not self._work:
            return
        share = min(1.0, self._count / len(self._work))
        for work in self._work:
            work.rate = share
        version = self._version
        timeout = self._environment.timeout(max(0.0, min(work.seconds / work.rate for work in self._work)))
        timeout.callbacks.append(lambda _: self._finish(version))

    def _finish(self, version: int) -> None:
        if version != self._version:
            return
        self._advance()
        done = [work for work in self._work if work.seconds <= _LEAST]
        # The next to be done is done now, whatever the rounding of its seconds says.
        done = done or [min(self._work, key=lambda work: work.seconds / work.rate)]
        self._work = [work for work in self._work if work not in done]
        for work in done:
            work.done.succeed()
        self._share()
