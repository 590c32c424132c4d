"""The verdict about a load: what was lost, doubled or refused, by the answers, the effects and the trail."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import NullPool, create_engine, text

from benchmarks.replicas.load import Asked, Attempt
from benchmarks.replicas.world import World

_UNKNOWN = "422 outcome_unknown"
_HONEST = ("200", _UNKNOWN)
"""Outcomes that are right: an answer, and the statement that a call was cut off, if it was."""
_SHOWN = 8


class Verdict:
    """Outcomes of the requests. `excuse`: returns True for a failed attempt that had a reason outside of the servers."""

    def __init__(
        self, asked: Sequence[Asked], world: World, *, excuse: Callable[[Attempt], bool] = lambda _: False
    ) -> None:
        effects = [line.split() for line in world.effects.read_text().splitlines()]
        entries, unknown = Counter(entry for entry, _ in effects), _unknown_calls(world)
        written = {each.request for each in asked if each.kind == "write" and each.answer == _done(each)}
        self.told_unknown = sum(each.answer == _unknown(each) for each in asked)
        self.asked = asked
        self.trail_is_whole, self._trail = _verified(world)
        self.wrong: Mapping[str, Sequence[str]] = {
            "requests without an answer": [each.outcome for each in asked if each.outcome not in _HONEST],
            "answers to another request": [
                each.answer
                for each in asked
                if each.outcome == "200" and each.answer not in (_done(each), _unknown(each))
            ],
            "effects that are missing although the answer says done": sorted(written - set(entries)),
            "effects twice": [entry for entry, times in entries.items() if times > 1],
            "effects of a server that had lost its lease": [
                entry for entry, at in effects if entry in unknown and float(at) > unknown[entry]
            ],
            "outcomes called unknown although no call was cut off": [
                each.request
                for each in asked
                if (each.outcome == _UNKNOWN or each.answer == _unknown(each)) and each.request not in unknown
            ],
            "errors while a server and the database lived": [
                attempt.outcome
                for each in asked
                for attempt in each.attempts
                if attempt.outcome not in _HONEST and not excuse(attempt)
            ],
        }

    @property
    def is_good(self) -> bool:
        return self.trail_is_whole and not any(self.wrong.values())

    def show(self) -> None:
        """Prints the figures."""
        seconds = sorted(each.seconds for each in self.asked)
        print(f"requests: {len(self.asked):,}; outcomes: {dict(Counter(each.outcome for each in self.asked))}")
        print(f"answers that say that the outcome of a cut-off call is unknown: {self.told_unknown}")
        print(f"latency with all attempts: {_percentiles(seconds)}")
        for name, items in self.wrong.items():
            print(f"{name}: {len(items)} {dict(Counter(items).most_common(_SHOWN)) if items else ''}")
        print(f"trail: {self._trail}")


def _done(asked: Asked) -> str:
    return f"done {asked.request}:"


def _unknown(asked: Asked) -> str:
    return f"unknown {asked.request}:"


def _unknown_calls(world: World) -> Mapping[str, float]:
    """Returns the moments at which calls were recorded as unknown, by the entry that they write."""
    with create_engine(world.postgres.url, poolclass=NullPool).connect() as connection:
        rows = connection.execute(
            text(
                "select intended.data, min(unknown.at) from events intended join events unknown using (run_id) "
                "where intended.kind = 'call_intended' and unknown.kind = 'call_unknown' group by intended.data"
            )
        ).all()
    return {json.loads(json.loads(data)["arguments"])["entry"]: at for data, at in rows}


def _verified(world: World) -> tuple[bool, str]:
    """Returns whether the trail is whole, and how many rows were checked."""
    command = [sys.executable, "-m", "toolcaddie", "audit", "verify", "--json", "--database-url", world.postgres.url]
    done = subprocess.run(command, cwd=world.folder, capture_output=True, text=True, check=False)
    if not done.stdout:
        return False, done.stderr
    report = json.loads(done.stdout)
    return done.returncode == 0, f"{report['checked']:,} rows checked, {report['changes_total']} changes"


def _percentiles(seconds: Sequence[float]) -> str:
    places = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    shown = [f"{name} {seconds[int(share * (len(seconds) - 1))]:.3f} s" for name, share in places.items()]
    return ", ".join([*shown, f"most {seconds[-1]:.1f} s"])
