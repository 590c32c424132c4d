"""Budgets of bots: what all runs of a bot may use in a day, whichever door they come from.

Before a run, an estimate of its tokens and money is reserved in the bot's day (`ports.KeyMeter`), together with all processes
that use the same database. At its end the estimate is replaced by what the models reported. A run that needs more than the
budget has left is stopped before its next model call (`charging.py`). So the runs of a day never use more than the budget and
the model calls that are under way at that moment. A run of a bot without a budget pays nothing for this.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from toolcaddie.control.bots import Bots, DayBudget
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.key_limits import Allowance, Amounts, KeyLimits
from toolcaddie.core.message import message_tokens
from toolcaddie.core.run import RunRequest
from toolcaddie.ports import KeyMeter
from toolcaddie.runtime.charging import UNCHARGED, Account, Charge
from toolcaddie.runtime.spending import OUTPUT_FIELDS, OUTPUT_TOKENS, PricesOf, Spending, expected

NO_BUDGET = DayBudget()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Admits the runs of bots. `meter`: None, if no bot has a budget. `clock` returns seconds since the epoch."""

    bots: Bots
    meter: KeyMeter | None
    prices_of: PricesOf
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        limited = [name for name, bot in self.bots.all.items() if bot.budget != NO_BUDGET]
        if limited and self.meter is None:
            raise ConfigError(
                f"bots.{limited[0]}.budget needs a meter, which counts in the database what a bot uses; pass "
                "meter=database.meter to Runtime"
            )

    def limits(self, principal: Principal) -> KeyLimits | None:
        """Returns the budget of the principal's bot as limits of a day; None: it has none."""
        bot = self.bots.of(principal)
        if bot is None or bot.budget == NO_BUDGET:
            return None
        budget = bot.budget
        return KeyLimits(requests_per_day=budget.requests, tokens_per_day=budget.tokens, dollars_per_day=budget.dollars)

    async def used(self, principal: Principal) -> Sequence[Allowance]:
        """Returns the amounts of the budget of the principal's bot, and what is used of each today."""
        limits = self.limits(principal)
        if limits is None or self.meter is None:
            return ()
        return (await self.meter.reserve(meter_key(principal), Amounts(), limits)).allowances

    @asynccontextmanager
    async def charged(self, request: RunRequest, model: str, *, requests: int = 1) -> AsyncIterator[Charge]:
        """Reserves what a run will probably use, and counts at the end of the `with` block what it has used. `requests`: 0 for a
        run that continues, and was counted at its beginning.

        Raises `BudgetSpentError` if the budget of the request's bot has no room for it.
        """
        limits = self.limits(request.principal)
        if limits is None or self.meter is None:
            yield UNCHARGED
            return
        given, output = message_tokens(request.messages), _output_limit(request)
        amounts = expected(model, given=given, output=output, prices_of=self.prices_of, requests=requests)
        account = Account(
            bot=str(request.principal.bot),
            key_id=meter_key(request.principal),
            limits=limits,
            meter=self.meter,
            spending=Spending(model=model, given=given),
            prices_of=self.prices_of,
            requests=requests,
            clock=self.clock,
        )
        await account.open(amounts)
        grows = limits.tokens_per_day is not None or limits.dollars_per_day is not None
        try:
            yield Charge(counted=account.counted, admit=account.admit if grows else None)
        except asyncio.CancelledError:
            account.spending.cut = True
            raise
        finally:
            account.close()


def meter_key(principal: Principal) -> str:
    """Returns the id under which the use of a bot of one tenant is counted, among the ids of API keys."""
    name = f"{principal.tenant}\n{principal.bot}"
    return f"bot:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def _output_limit(request: RunRequest) -> int:
    limits = (request.params.get(name) for name in OUTPUT_FIELDS)
    return next((limit for limit in limits if isinstance(limit, int) and 0 < limit < 10**9), OUTPUT_TOKENS)
