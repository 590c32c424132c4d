"""The recording of runs: how many commits the servers make, how long each takes, and how they wait for the head of the trail.

Each process of a server has one writer. It gathers rows until somebody waits for them, or for a moment at most, and commits them
in one transaction. All writers of a database lock the same row, the head of the trail, so their commits take turns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from toolcaddie.evaluation.capacity.constants import Commit

_ROUNDS = 200
_DAMPING = 0.5
_OVERLOADED = 0.99
_PLACES, _STEP = 20, 4
"""Places at which distributions are looked at, and the step between those that matter less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The commits of the processes that share a database."""

    commits: float
    """Commits a second of one process."""
    rows: float
    """Rows in a commit."""
    commit_seconds: float
    """Time of a commit, with the wait for the lock."""
    wait_seconds: float
    """Mean wait for the lock."""
    lock_seconds: float
    """Time for which a commit holds the lock."""
    lock_utilisation: float
    """Share of the time in which the lock is held."""

    def flushes(self) -> Sequence[float]:
        """Returns equally likely times until rows are on disk if somebody waits for them: the rest of the commit under way, and
        their own commit, with a wait for the lock that is exponential."""
        busy, base = self.commits * self.commit_seconds, self.commit_seconds - self.wait_seconds
        places = [(number + 0.5) / _PLACES for number in range(_PLACES)]
        return [
            base + busy * rest * self.commit_seconds - math.log(1 - wait) * self.wait_seconds
            for rest in places[::_STEP]
            for wait in places
        ]


def recording(*, rows: float, flushes: float, writers: float, commit: Commit, network_ms: float) -> Recording:
    """Returns the commits of `writers` processes, each with `rows` rows and `flushes` waits a second.

    It is the point at which the wait for the lock, the length of a commit and the number of rows in it agree.
    """
    if rows <= 0:
        return Recording(
            commits=0.0, rows=0.0, commit_seconds=0.0, wait_seconds=0.0, lock_seconds=0.0, lock_utilisation=0.0
        )
    linger = commit.linger_ms / 1e3
    gathering = (1 - math.exp(-flushes * linger)) / flushes if flushes > 0 else linger
    network = network_ms * commit.round_trips / 1e3
    base, each = commit.seconds_ms / 1e3 + network, commit.row_seconds_ms / 1e3
    wait = lock = 0.0
    for _ in range(_ROUNDS):
        cycle = (1 / rows + gathering + base + wait) / (1 - min(each * rows, _OVERLOADED))
        lock = lock_seconds(rows * cycle, commit, network_ms)
        share = min(writers * lock / cycle, _OVERLOADED)
        others = max(0.0, writers - 1)
        # The wait of Poisson arrivals, which cannot be longer than one commit of each other process.
        wait += _DAMPING * (min(share / (1 - share) * lock, others * lock) - wait)
    cycle = (1 / rows + gathering + base + wait) / (1 - min(each * rows, _OVERLOADED))
    return Recording(
        commits=1 / cycle,
        rows=rows * cycle,
        commit_seconds=base + wait + each * rows * cycle,
        wait_seconds=wait,
        lock_seconds=lock,
        lock_utilisation=min(1.0, writers * lock / cycle),
    )


def lock_seconds(rows: float, commit: Commit, network_ms: float) -> float:
    """Returns the time for which a commit of so many rows holds the lock."""
    return (commit.lock_ms + network_ms * commit.lock_round_trips + commit.row_lock_ms * rows) / 1e3


def most_rows_a_second(commit: Commit, network_ms: float) -> float:
    """Returns the rows a second that one chain can take: all commits are full, and one follows the other."""
    return commit.most_rows / lock_seconds(commit.most_rows, commit, network_ms)
