"""Charges one run to the day budget of its bot, model call by model call.

Before the first call an estimate of it is reserved. Before each later one the run has used something, and the next one sends at
least the conversation so far: if the reservation does not cover both, it is replaced by what was used, and the input of the next
call is reserved. If the budget has no room for that, it is used up, and the run ends. The meter is asked once per call at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from toolcaddie.core.errors import BudgetSpentError
from toolcaddie.core.events import Emit, RunEvent
from toolcaddie.core.key_limits import Allowance, Amounts, KeyLimits, Reservation
from toolcaddie.core.message import message_tokens
from toolcaddie.core.run import RunState
from toolcaddie.engine.engine import Admit
from toolcaddie.ports import KeyMeter
from toolcaddie.runtime.spending import PricesOf, Spending, SpentCall, amounts_of
from toolcaddie.util.replacing import replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The two places at which a run meets its budget."""

    counted: Callable[[Emit], Emit]
    """Takes the function to which the run passes its events, and returns one that also counts what they cost."""
    admit: Admit | None = None
    """Asked before each model call. None: the run has no budget that it could use up."""


UNCHARGED = Charge(counted=lambda emit: emit)


@dataclass(slots=True, kw_only=True)
class Account:
    """What one run has used, and what is reserved for it. `clock` returns seconds since the epoch."""

    bot: str
    key_id: str
    limits: KeyLimits
    meter: KeyMeter
    spending: Spending
    prices_of: PricesOf
    requests: int
    clock: Callable[[], float]
    _reservation: Reservation | None = None
    _settled: Amounts = field(default_factory=Amounts)
    """What the run had used when its last reservation was settled."""

    async def open(self, amounts: Amounts) -> None:
        """Reserves the first model call. Raises `BudgetSpentError` if there is no room for it."""
        if (refusal := await self._reserve(amounts, "")) is not None:
            raise refusal

    def close(self) -> None:
        """Counts what the run has used."""
        if self._reservation is not None:
            total = self.spending.amounts(self.prices_of, requests=self.requests)
            self.meter.settle(self._reservation, total - self._settled)
            self._settled, self._reservation = total, None

    async def admit(self, state: RunState) -> BudgetSpentError | None:
        """Makes room for the next model call. Returns the refusal if the budget is used up."""
        used = self.spending.amounts(self.prices_of, requests=self.requests) - self._settled
        if not used.tokens and not used.money:
            return None  # it is the call for which the reservation was made
        last = state.last_usage
        self.spending.given = max(message_tokens(state.messages), last.input_tokens + last.output_tokens)
        needed = self._input(state)
        if self._reservation is not None and _covers(self._reservation.amounts, used + needed):
            return None
        self.close()
        return await self._reserve(needed, "The run was stopped. ")

    def counted(self, emit: Emit) -> Emit:
        async def counted(event: RunEvent) -> None:
            self.spending.take(event)
            await emit(event)

        return counted

    def _input(self, state: RunState) -> Amounts:
        """Returns what the input of the next call costs, if as much of it is cached as before."""
        usage = replace(state.last_usage, input_tokens=self.spending.given, written_tokens=0, output_tokens=0)
        return amounts_of(SpentCall(model=self.spending.model, usage=usage), self.prices_of).within(self.limits)

    async def _reserve(self, amounts: Amounts, before: str) -> BudgetSpentError | None:
        admission = await self.meter.reserve(self.key_id, amounts, self.limits)
        self._reservation = admission.reservation
        if self._reservation is not None:
            return None
        return _spent(self.bot, admission.exceeded, self.clock(), before)


def _covers(reserved: Amounts, needed: Amounts) -> bool:
    return needed.tokens <= reserved.tokens and needed.money <= reserved.money


def _spent(bot: str, exceeded: Sequence[Allowance], now: float, before: str) -> BudgetSpentError:
    """Returns the refusal for lack of room. `before`: what its message begins with."""
    worst = max(exceeded, key=lambda each: each.resets)
    renewed = datetime.fromtimestamp(worst.resets, UTC).strftime("%Y-%m-%d %H:%M UTC")
    message = (
        f"{before}The bot {bot!r} has used its budget for today: {worst.limit:,.15g} {worst.counted}, of which "
        f"{round(worst.used, 6):,.15g} are used or reserved. It is renewed at {renewed}; "
        f"the setting is bots.{bot}.budget.{worst.counted}."
    )
    return BudgetSpentError(message, counted=worst.counted, retry_after=max(1.0, worst.resets - now))
