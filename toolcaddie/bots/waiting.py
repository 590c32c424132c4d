"""Continues the work of bots whose calls waited for a person, wherever the person answered: in a chat, in the console, at the
command line or over HTTP."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from toolcaddie.control.bots import Bot
from toolcaddie.core.bots import BotAnswer, BotWork
from toolcaddie.core.errors import BudgetSpentError, ProviderError, RequestError, RunNotFoundError, StorageError
from toolcaddie.engine.prompt.blocks import frame
from toolcaddie.ports import Messenger, Store
from toolcaddie.runtime import Runtime
from toolcaddie.util.log import Logger

log = Logger(__name__)

_KIND = "bot-waiting"
"""Kind of the documents with waiting work; the key is the id of its run."""
_TTL_SECONDS = 90 * 86_400.0
_LOOK_SECONDS = 1.0
"""Seconds between two looks at the questions."""
_AT_ONCE = 50
"""The largest number of pieces of work that one process continues at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The work that waits for a person."""

    store: Store

    async def add(self, work: BotWork) -> None:
        await self.store.put(_KIND, work.id, msgspec.json.encode(work), ttl=_TTL_SECONDS)

    async def remove(self, work: BotWork) -> None:
        await self.store.delete(_KIND, work.id)

    async def all(self) -> Sequence[BotWork]:
        works: list[BotWork] = []
        cursor: str | None = None
        while True:
            page = await self.store.scan(_KIND, cursor=cursor)
            works += [msgspec.json.decode(document.value, type=BotWork) for document in page.documents]
            cursor = page.cursor
            if cursor is None:
                return works


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuing:
    """Looks for answered questions, and continues the work that waited for them.

    If several processes look, one of them continues the run: it is claimed. `given` returns the answer that a piece of work got
    already; None: it has none.
    """

    runtime: Runtime
    waiting: Waiting
    resume: Callable[[BotWork], Awaitable[BotAnswer]]
    given: Callable[[BotWork], Awaitable[BotAnswer | None]]
    messenger: Messenger | None = None
    bots: Mapping[str, Bot] = field(default_factory=dict)
    """Those of the settings. Their languages are those of what people are told."""
    clock: Callable[[], float] = time.time
    _later: dict[str, float] = field(default_factory=dict)
    """The moments before which work is not continued, because the budget of its bot is spent, by the id of its run."""
    _busy: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """The work that is continued at this moment, by the id of its run."""

    async def look_forever(self) -> None:
        """Looks again and again. No work waits for the end of other work, nor for a channel that cannot be reached."""
        try:
            while True:
                try:
                    for work in await self._answered():
                        self._begin(work)
                except Exception as error:  # the outermost frame of the task, which must outlive any failure
                    log.exception("waiting_work_not_read", error=str(error))
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            tasks = list(self._busy.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> None:
        """Continues all work whose questions are answered, and waits for its end."""
        await asyncio.gather(*(self._continue(work) for work in await self._answered()))

    def _begin(self, work: BotWork) -> None:
        if work.id not in self._busy and len(self._busy) < _AT_ONCE:
            task = self._busy[work.id] = asyncio.create_task(self._continue(work))
            task.add_done_callback(lambda _: self._busy.pop(work.id))

    async def _answered(self) -> Sequence[BotWork]:
        now = self.clock()
        ready = [work for work in await self.waiting.all() if self._later.get(work.id, 0.0) <= now]
        return [work for work in ready if await self._is_answered(work)]

    async def _is_answered(self, work: BotWork) -> bool:
        try:
            questions = await self.runtime.questions(work.id)
        except RunNotFoundError:  # somebody else has continued it to its end, or it has expired
            return True
        return all(question.status != "open" for question in questions)

    async def _continue(self, work: BotWork) -> None:
        self._later.pop(work.id, None)
        try:
            answer = await self._answer(work)
            if answer is None or answer.status == "pending":
                return
            await self._send(work, answer)
            await self.waiting.remove(work)
        except BudgetSpentError as error:
            await self._postpone(work, error)
        except StorageError as error:  # it is looked at again
            log.error("work_not_continued", run=work.id, error=str(error))
        except Exception:  # the outermost frame of the task: the other work goes on
            log.exception("work_not_continued", run=work.id)
            await self.waiting.remove(work)

    async def _postpone(self, work: BotWork, error: BudgetSpentError) -> None:
        """Keeps work whose bot has used its budget until that is renewed, and tells the person once."""
        log.warning("work_postponed", run=work.id, error=str(error))
        self._later[work.id] = self.clock() + error.retry_after
        bot = self.bots.get(work.principal.bot or "", Bot())
        hours = max(1, math.ceil(error.retry_after / 3_600))
        await self._say(work, frame().words["budget_spent"].of(bot.language).format(hours=hours), f"{work.id}/budget")

    async def _answer(self, work: BotWork) -> BotAnswer | None:
        """Returns the answer of a piece of work; None: another process continues it at this moment, or it is gone."""
        try:
            if not await self._may_write(work):
                log.warning("work_dropped", run=work.id, reason="its channel may not write to its chat any more")
                await self.runtime.forget(work.id)
                await self.waiting.remove(work)
                return None
            return await self.resume(work)
        except RunNotFoundError:
            if await self._is_stored(work):
                return None
            given = await self.given(work)  # by a process that may have died before it was sent
            if given is None:
                await self.waiting.remove(work)
            return given
        except (StorageError, BudgetSpentError):
            raise
        except Exception as error:  # whatever it is, the person is told
            log.exception("work_not_continued", run=work.id, error=str(error))
            return BotAnswer(run_id=work.id, status="failed", text=self._regret(work))

    async def _may_write(self, work: BotWork) -> bool:
        """Returns False if the person of the work may no longer talk to the bot."""
        if work.reply_to is None or self.messenger is None:
            return True
        try:
            return await self.messenger.may_write(work.reply_to)
        except RequestError:  # the channel does not run here, so nothing is known
            return True

    def _regret(self, work: BotWork) -> str:
        """Returns what a person is told whose work could not be continued."""
        bot = self.bots.get(work.principal.bot or "", Bot())
        return frame().words["not_continued"].of(bot.language)

    async def _is_stored(self, work: BotWork) -> bool:
        try:
            await self.runtime.questions(work.id)
        except RunNotFoundError:
            return False
        return True

    async def _send(self, work: BotWork, answer: BotAnswer) -> None:
        """Sends an answer to the chat from which the work came. Whoever else sends it has the same key, and one of them does."""
        await self._say(work, answer.text, f"{work.id}/reply")

    async def _say(self, work: BotWork, text: str, key: str) -> None:
        if work.reply_to is None or self.messenger is None:
            return
        try:
            await self.messenger.send(work.reply_to, text, key=key, sender=work.principal.bot or "")
        except (ProviderError, RequestError) as error:
            log.error("work_not_sent", run=work.id, error=str(error))
