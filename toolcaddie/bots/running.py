"""Lets bots ask each other (`ports.BotRunner`): the asked bot works durably, within what the asker may do and has left."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from toolcaddie.bots.working import KIND
from toolcaddie.control.bots import Bot, unknown_bot
from toolcaddie.core.bots import BotAnswer, BotCard, BotWork, line_problem
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, RunError
from toolcaddie.core.run import RunRequest
from toolcaddie.ports import WorkQueue
from toolcaddie.runtime import Runtime
from toolcaddie.util.replacing import replace

_GRACE = 1.0
"""Seconds beyond its time after which work is given up. Its own limit ends it before, and then it is known what it has used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Implements `ports.BotRunner` with a runtime and the queue of durable work."""

    runtime: Runtime
    queue: WorkQueue
    bots: Mapping[str, Bot]

    def cards(self, asker: Principal, tools: Sequence[str] | None = None) -> Sequence[BotCard]:
        """Returns the other bots, with the tools that each has in a collaboration."""
        return [self._card(name, bot, asker, tools) for name, bot in self.bots.items() if name != asker.bot]

    async def answer(self, work: BotWork) -> BotAnswer:
        """Lets the bot work. If the caller stops waiting, or the time is over, the work is cancelled."""
        await self.begin(work)
        seconds = work.inherited.seconds
        try:
            result = await self.queue.result(work.id, timeout=None if seconds is None else seconds + _GRACE)
        except TimeoutError:
            await self.queue.cancel(work.id)
            # What it has used is not known, so it counts as all that it was given.
            used = work.inherited.calls or 0
            return BotAnswer(run_id=work.id, status="failed", text="it gave no answer in time", calls=used)
        except RunError as error:
            return BotAnswer(run_id=work.id, status="failed", text=str(error))
        except asyncio.CancelledError:
            await asyncio.shield(self.queue.cancel(work.id))
            raise
        return msgspec.json.decode(result, type=BotAnswer)

    async def begin(self, work: BotWork) -> None:
        """Puts the work into the queue. Raises `RequestError` for an unknown bot, and for one that may not be asked."""
        self._check(work)
        await self.queue.put(KIND, work.id, msgspec.json.encode(work))

    def _check(self, work: BotWork) -> None:
        bot = work.principal.bot
        if bot is None or bot not in self.bots:
            raise RequestError(unknown_bot(bot or "", self.bots), param="bot", code="unknown_bot")
        if problem := line_problem(work.inherited.lineage, bot):
            raise RequestError(problem, param="bot")

    def _card(self, name: str, bot: Bot, asker: Principal, tools: Sequence[str] | None) -> BotCard:
        request = RunRequest(messages=(), principal=replace(asker, bot=name), mode="collaboration")
        names = (tool.name for tool in self.runtime.view(request))
        common = frozenset(names) if tools is None else frozenset(tools).intersection(names)
        return BotCard(
            name=name,
            description=bot.description,
            skills=bot.skills,
            tools=tuple(sorted(common)),
            model=bot.model or self.runtime.default_model,
        )
