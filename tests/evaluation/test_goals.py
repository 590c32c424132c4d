"""The figures of the goals for forced tool use, against values computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.databases import new_url
from toolcaddie.core.storage import EventRecord
from toolcaddie.evaluation.goals import Goals, read_goals
from toolcaddie.storage.database import Database

pytestmark = pytest.mark.anyio

Rows = Sequence[tuple[str, dict[str, Any]]]


async def goals_from(*runs: Rows) -> tuple[Goals, int]:
    """The goals of runs with these rows, written to a trail and read from it."""
    async with Database(new_url()) as database:
        for number, rows in enumerate(runs):
            started = ("run_started", {"message": "hello"})
            for seq, (kind, data) in enumerate([started, *rows], start=1):
                record = EventRecord(run_id=f"r{number}", seq=seq, at=float(number), kind=kind, data=data)
                database.events.append(record)
        return await read_goals(database.events)


def attempt(outcome: str, tokens: int = 0, *, provider: str = "first", how: str = "plain") -> dict[str, Any]:
    return {"provider": provider, "how": how, "outcome": outcome, "usage": {"input": tokens - 1, "output": 1}}


def answered(*attempts: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "model_answered", {"attempts": list(attempts)}


def called(name: str, seconds: float, **more: Any) -> tuple[str, dict[str, Any]]:
    return "call_finished", {"name": name, "seconds": seconds, **more}


def ended(seconds: float, tokens: int, kind: str = "run_finished", **more: Any) -> tuple[str, dict[str, Any]]:
    return kind, {"seconds": seconds, "usage": {"input": tokens - 5, "output": 5}, **more}


async def test_forced_runs_are_counted_by_their_first_and_their_last_attempt() -> None:
    goals, unread = await goals_from(
        [answered(attempt("answered", 100)), ended(1, 300)],
        [answered(attempt("not_called", 100), attempt("answered", 7, provider="second")), ended(1, 500)],
        [ended(1, 200, "run_failed", attempts=[attempt("not_called", 40), *[attempt("not_called", 900)] * 2])],
        [answered(attempt("unavailable", 1), attempt("answered", 1)), ended(1, 80)],  # a failure, not a forced request
        [ended(1, 80)],
    )
    assert unread == 0
    assert (goals.runs, goals.forced, goals.called_at_first, goals.called, goals.by_fallback) == (5, 3, 1, 2, 1)
    assert (goals.attempts, goals.in_vain) == (6, 4)
    assert goals.tokens_an_answer == (300 + 500 + 200) / 2
    assert goals.tokens_without == pytest.approx(300 + 2 * (100 + 40) / 2)  # two of three chats are asked again
    calls, latency, cost = goals.goals
    assert (calls.reached, calls.most, calls.met) == (1.0, 2.0, True)
    assert (latency.reached, latency.met) == (None, None)
    assert cost.reached == pytest.approx(1 - 500 / 440)
    assert cost.met is False


async def test_a_cached_result_saves_the_mean_duration_of_its_tool() -> None:
    goals, _ = await goals_from(
        [called("search", 0.4), called("search", 0.6), called("search", 9.0, error="failed"), ended(2, 10)],
        [called("search", 0.01, cached=True), called("search", 0.02, cached=True), ended(2, 10)],
        [called("never_ran", 0.0, cached=True), ended(1, 10)],
        [called("slow_cache", 0.1), called("slow_cache", 0.5, cached=True), ended(1, 10)],  # it saves nothing
    )
    assert (goals.calls, goals.cached) == (8, 4)
    assert goals.seconds == 6
    assert goals.seconds_saved == pytest.approx(2 * 0.5 - 0.03)
    assert goals.goals[1].reached == pytest.approx(0.97 / 6.97)
    assert goals.forced == 0
    assert goals.goals[0].reached is None


async def test_repeated_calls_are_counted_with_those_that_succeeded() -> None:
    goals, _ = await goals_from(
        [called("a", 1, tries=3), called("b", 1, tries=2, error="failed"), called("c", 1), ended(3, 10)]
    )
    assert (goals.calls, goals.retried, goals.mended) == (3, 2, 1)


async def test_a_run_whose_rows_cannot_be_understood_is_counted_and_left_out() -> None:
    goals, unread = await goals_from([ended(1, 10)], [ended(1, 10, attempts="many")])
    assert (goals.runs, unread) == (1, 1)


async def test_a_long_trail_is_read_in_parts_and_none_is_lost() -> None:
    goals, unread = await goals_from(*[[ended(1, 10)]] * 401)
    assert (goals.runs, goals.seconds, unread) == (401, 401.0, 0)
