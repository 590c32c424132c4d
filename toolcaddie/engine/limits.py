"""Checks the limits that end a run. The excess is recorded as an event before the run fails."""

from __future__ import annotations

from typing import TypeVar

from toolcaddie.core.bots import Inherited
from toolcaddie.core.errors import LimitExceededError
from toolcaddie.core.events import LimitReached
from toolcaddie.core.run import Limits, RunState
from toolcaddie.engine.engine import Run
from toolcaddie.util.replacing import replace

Amount = TypeVar("Amount", int, float)


def limits_within(limits: Limits, inherited: Inherited) -> Limits:
    """Returns the limits of a run that another run or a job began: of each limit the smaller one."""
    if inherited.calls is None and inherited.tokens is None and inherited.seconds is None:
        return limits
    return replace(
        limits,
        calls=_smaller(limits.calls, inherited.calls),
        tokens=_smaller(limits.tokens, inherited.tokens),
        seconds=_smaller(limits.seconds, inherited.seconds),
    )


def _smaller(one: Amount | None, other: Amount | None) -> Amount | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


async def time_is_over(run: Run) -> LimitExceededError:
    """Records that the run took too long, and returns the error to raise."""
    seconds = run.limits.seconds
    await run.emit(LimitReached(run_id=run.context.run_id, limit="seconds", detail=f"{seconds} s"))
    return LimitExceededError(f"the run took longer than {seconds} s", limit="seconds")


async def check_tokens(run: Run, state: RunState) -> None:
    """Raises `LimitExceededError` if the run has used all its tokens. Called before a model call and not after it, because an
    answer that was paid for is never discarded."""
    used, limit = state.usage.input_tokens + state.usage.output_tokens, run.limits.tokens
    if limit is not None and used >= limit:
        await run.emit(LimitReached(run_id=state.run_id, limit="tokens", detail=f"{used} of {limit} tokens"))
        raise LimitExceededError(f"the request has used {used} of its {limit} tokens", limit="tokens")


async def check_budget(run: Run, state: RunState) -> None:
    """Raises `BudgetSpentError` if the day budget of the run's bot has no room for the next model call."""
    refusal = None if run.admit is None else await run.admit(state)
    if refusal is None:
        return
    await run.emit(LimitReached(run_id=state.run_id, limit="budget", detail=f"the bot's {refusal.counted} of this day"))
    raise refusal


async def check_idle(run: Run, state: RunState) -> None:
    """Raises `LimitExceededError` after too many idle rounds, in which the model only called meta tools and unknown tools, or was
    refused. Such rounds never reach the limit of calls."""
    limits = run.limits
    counted = (
        ("idle_rounds_in_row", state.idle_in_row, limits.idle_rounds_in_row, " in a row"),
        ("idle_rounds", state.idle_rounds, limits.idle_rounds, ""),
    )
    for name, count, limit, suffix in counted:
        if limit is not None and count >= limit:
            detail = f"{count} rounds{suffix} ran no tool, the limit is {limit}"
            await run.emit(LimitReached(run_id=state.run_id, limit=name, detail=detail))
            raise LimitExceededError(
                f"the model called nothing but meta tools, unknown names or what was refused in {count} rounds{suffix}; "
                f"limits.{name} is {limit}",
                limit=name,
            )


async def calls_are_over(run: Run) -> LimitExceededError:
    """Records that the limit of calls is reached, and returns the error to raise."""
    limit = run.limits.calls
    await run.emit(LimitReached(run_id=run.context.run_id, limit="calls", detail=f"{limit} calls"))
    return LimitExceededError(f"the request asked for more than {limit} tool calls", limit="calls")
