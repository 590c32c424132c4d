"""Continues the work of bots whose calls waited for a person, wherever the person answered: in a chat, in the console, at the
command line or over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from toolcaddie.control.bots import Bot
from toolcaddie.core.bots import BotAnswer, BotWork
from toolcaddie.core.errors import RunNotFoundError, ToolcaddieError
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

    If several processes look, one of them continues the run: it is claimed.
    """

    runtime: Runtime
    waiting: Waiting
    resume: Callable[[BotWork], Awaitable[BotAnswer]]
    messenger: Messenger | None = None
    bots: Mapping[str, Bot] = field(default_factory=dict)
    """Those of the settings. Their languages are those of what people are told."""

    async def look_forever(self) -> None:
        while True:
            try:
                await self.look()
            except ToolcaddieError as error:
                log.error("waiting_work_not_read", error=str(error))
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Continues all work whose questions are answered."""
        for work in await self.waiting.all():
            if await self._is_answered(work):
                await self._continue(work)

    async def _is_answered(self, work: BotWork) -> bool:
        try:
            questions = await self.runtime.questions(work.id)
        except RunNotFoundError:  # somebody else has continued it to its end, or it has expired
            await self.waiting.remove(work)
            return False
        return all(question.status != "open" for question in questions)

    async def _continue(self, work: BotWork) -> None:
        try:
            answer = await self.resume(work)
        except RunNotFoundError:  # another process continues it at this moment
            return
        except ToolcaddieError as error:
            log.error("work_not_continued", run=work.id, error=str(error))
            await self.waiting.remove(work)
            answer = BotAnswer(run_id=work.id, status="failed", text=self._regret(work))
        if work.reply_to is not None and self.messenger is not None and answer.status != "pending":
            bot = work.principal.bot or ""
            await self.messenger.send(work.reply_to, answer.text, key=f"{work.id}/reply", sender=bot)

    def _regret(self, work: BotWork) -> str:
        """Returns what a person is told whose work could not be continued."""
        bot = self.bots.get(work.principal.bot or "", Bot())
        return frame().words["not_continued"].of(bot.language)
