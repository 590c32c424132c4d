"""Gains of retries, cache and fallback in recorded runs, compared with three goals, for `eval goals`.

The goals are 80 % more successful calls, 40 % less latency with the cache, and 30 % less cost. A forced run is one in which the
model had to call a tool; if it called none, the request was repeated, perhaps to another provider (the fallback).

The same runs are the baseline. Without forcing, a run would have ended with its first attempt. A cached result saves the average
duration of its tool. A user who gets an answer without a tool is assumed to ask again in a new chat until the model calls a tool.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import msgspec

from toolcaddie.core.storage import EventRecord, RunQuery
from toolcaddie.ports import EventLog

CALLS = 0.8
"""Goal: successful calls gained, as a share of those at the first attempt."""
LATENCY = 0.4
"""Goal: share of the latency that the cache saves."""
COST = 0.3
"""Goal: share of the cost that is saved."""

_AT_ONCE = 200
"""Number of runs whose rows are in memory together."""
_KINDS = ("model_answered", "call_finished", "run_finished", "run_failed")
"""Kinds of the events that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One goal and the share that was reached."""

    name: str
    goal: float
    reached: float | None
    """The share that was reached; None: the trail has no data for it."""
    most: float | None = None
    """The largest share that was possible, for the first goal: if most first attempts succeed, there is little to gain."""

    @property
    def met(self) -> bool | None:
        return None if self.reached is None else self.reached >= self.goal


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """Totals over all runs that were read."""

    runs: int
    forced: int
    """Runs in which the model had to call a tool."""
    called_at_first: int
    """Forced runs that called a tool at the first attempt."""
    called: int
    """Forced runs that called a tool in the end."""
    by_fallback: int
    """Those of `called` in which another provider than the first one called the tool."""
    attempts: int
    """Attempts of the first forced request of each forced run."""
    in_vain: int
    """Those of `attempts` in which the model called no tool."""
    calls: int
    """Calls of tools, including those answered from the cache."""
    cached: int
    """Calls that were answered from the cache."""
    retried: int
    """Calls whose tool ran more than once."""
    mended: int
    """Calls of `retried` that succeeded in the end."""
    seconds: float
    """Duration of all runs together."""
    seconds_saved: float
    """Duration of the calls that the cache saved, estimated."""
    tokens_an_answer: float | None
    """Tokens of all forced runs, divided by the number of those that called a tool. None: the trail has no data."""
    tokens_without: float | None
    """Estimated tokens until a tool is called if users ask again in new chats. None: the trail has no data."""
    goals: tuple[Goal, ...]


class _UsageRow(msgspec.Struct):
    input: int = 0
    output: int = 0

    @property
    def tokens(self) -> int:
        return self.input + self.output


class _AttemptRow(msgspec.Struct):
    provider: str = ""
    how: str = "plain"
    outcome: str = "answered"
    usage: _UsageRow = msgspec.field(default_factory=_UsageRow)


class _AnswerRow(msgspec.Struct):
    attempts: tuple[_AttemptRow, ...] = ()


class _CallRow(msgspec.Struct):
    name: str
    seconds: float = 0.0
    cached: bool = False
    tries: int = 1
    error: str = ""


class _EndRow(msgspec.Struct):
    seconds: float = 0.0
    usage: _UsageRow = msgspec.field(default_factory=_UsageRow)
    attempts: tuple[_AttemptRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    forced: tuple[_AttemptRow, ...]
    """Attempts of the first forced request of the run. Empty: no request was forced."""
    calls: tuple[_CallRow, ...]
    seconds: float
    tokens: int


async def read_goals(log: EventLog, *, limit: int = 100_000) -> tuple[Goals, int]:
    """Returns the figures of the newest `limit` runs, and the number of runs that could not be read. Raises `StorageError`."""
    run_ids = [run.run_id for run in await log.runs(RunQuery(limit=limit))]
    runs: list[_Run] = []
    unread = 0
    for start in range(0, len(run_ids), _AT_ONCE):
        batch = run_ids[start : start + _AT_ONCE]
        rows: dict[str, list[EventRecord]] = defaultdict(list)
        for record in await log.records(batch, _KINDS):
            rows[record.run_id].append(record)
        for run_id in batch:
            try:
                runs.append(_run(rows[run_id]))
            except msgspec.ValidationError:
                unread += 1
    return goals_of(runs), unread


def goals_of(runs: Sequence[_Run]) -> Goals:
    """Returns the figures of these runs, with the share that was reached of each goal."""
    forced = [run for run in runs if run.forced]
    at_first = [run for run in forced if run.forced[0].outcome == "answered"]
    successful = [run for run in forced if run.forced[-1].outcome == "answered"]
    calls = [call for run in runs for call in run.calls]
    retried = [call for call in calls if call.tries > 1]
    seconds, seconds_saved = sum(run.seconds for run in runs), _seconds_saved(calls)
    with_all, without = _tokens(forced, at_first, successful)
    return Goals(
        runs=len(runs),
        forced=len(forced),
        called_at_first=len(at_first),
        called=len(successful),
        by_fallback=sum(run.forced[-1].provider != run.forced[0].provider for run in successful),
        attempts=sum(len(run.forced) for run in forced),
        in_vain=sum(attempt.outcome == "not_called" for run in forced for attempt in run.forced),
        calls=len(calls),
        cached=sum(call.cached for call in calls),
        retried=len(retried),
        mended=sum(not call.error for call in retried),
        seconds=seconds,
        seconds_saved=seconds_saved,
        tokens_an_answer=with_all,
        tokens_without=without,
        goals=(
            Goal(
                name="successful calls",
                goal=CALLS,
                reached=len(successful) / len(at_first) - 1 if at_first else None,
                most=len(forced) / len(at_first) - 1 if at_first else None,
            ),
            Goal(
                name="latency with cache",
                goal=LATENCY,
                reached=seconds_saved / (seconds_saved + seconds)
                if any(call.cached for call in calls) and seconds_saved + seconds
                else None,
            ),
            Goal(name="cost", goal=COST, reached=1 - with_all / without if with_all and without else None),
        ),
    )


def _seconds_saved(calls: Iterable[_CallRow]) -> float:
    """Returns the seconds that cached results saved: each saved the mean duration of its tool, minus its own duration."""
    ran: dict[str, list[float]] = defaultdict(list)
    hits: Counter[str] = Counter()
    spent: dict[str, float] = defaultdict(float)
    for call in calls:
        if call.cached:
            hits[call.name] += 1
            spent[call.name] += call.seconds
        elif not call.error:
            ran[call.name].append(call.seconds)
    return sum(max(0.0, count * fmean(ran[name]) - spent[name]) for name, count in hits.items() if ran[name])


def _tokens(
    forced: Sequence[_Run], at_first: Sequence[_Run], successful: Sequence[_Run]
) -> tuple[float | None, float | None]:
    """Returns the tokens until a tool is called: first with forcing, then if users ask again in new chats."""
    if not at_first or not any(run.tokens for run in forced):
        return None, None
    share = len(at_first) / len(forced)
    lost = [run.forced[0].usage.tokens for run in forced if run.forced[0].outcome != "answered"]
    plain = fmean(run.tokens for run in at_first)
    without = plain + (1 / share - 1) * (fmean(lost) if lost else 0.0)
    return sum(run.tokens for run in forced) / len(successful), without


def _run(rows: Sequence[EventRecord]) -> _Run:
    """Returns the figures of one run from its rows in the trail."""
    answers = [_row_of(row.data, _AnswerRow) for row in rows if row.kind == "model_answered"]
    ends = [_row_of(row.data, _EndRow) for row in rows if row.kind in ("run_finished", "run_failed")]
    attempts_by_request = [answer.attempts for answer in answers] + [end.attempts for end in ends]
    return _Run(
        forced=next((attempts for attempts in attempts_by_request if _is_forced(attempts)), ()),
        calls=tuple(_row_of(row.data, _CallRow) for row in rows if row.kind == "call_finished"),
        seconds=ends[-1].seconds if ends else 0.0,
        tokens=ends[-1].usage.tokens if ends else 0,
    )


def _is_forced(attempts: Sequence[_AttemptRow]) -> bool:
    """Returns True if the request was forced. Requests that are not forced record attempts only if one of them failed."""
    return any(attempt.outcome == "not_called" or attempt.how != "plain" for attempt in attempts) or (
        len(attempts) == 1 and attempts[0].outcome == "answered"
    )


def _row_of(data: Mapping[str, Any], kind: Any) -> Any:
    return msgspec.convert(data, kind)
