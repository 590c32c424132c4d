"""Answers the messages of chats: each is handed to the bot in its turn, and the answer is sent to the chat."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any

from toolcaddie.core.bots import NOTHING_INHERITED, BotAnswer, BotWork, Inherited
from toolcaddie.core.channels import Incoming
from toolcaddie.core.content import shown_text
from toolcaddie.core.errors import (
    BudgetSpentError,
    LimitExceededError,
    ProviderError,
    RequestError,
    RunNotFoundError,
    StorageError,
    ToolcaddieError,
)
from toolcaddie.doors.channels.attachments import unreadable
from toolcaddie.doors.channels.contents import busy, content_of
from toolcaddie.doors.channels.histories import Histories
from toolcaddie.doors.channels.journal import Entry, Journal, Letter, Lost
from toolcaddie.doors.channels.outbox import Outbox, letter_of
from toolcaddie.doors.channels.questions import (
    Questions,
    WaitingRun,
    question_buttons,
    question_chats,
    question_text,
)
from toolcaddie.doors.channels.station import Station
from toolcaddie.ports import BotTalk
from toolcaddie.util.bounded import Bounded
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

_MOST_STORAGE_FAILURES = 3
_MOST_FAILED = 1_000


class Answering:
    """Answers messages and continues runs. `running` has the work of each chat that can be stopped."""

    def __init__(
        self, talk: BotTalk, journal: Journal, outbox: Outbox, questions: Questions, histories: Histories
    ) -> None:
        self._talk = talk
        self._journal = journal
        self._outbox = outbox
        self._questions = questions
        self._histories = histories
        self._running: dict[str, tuple[str, asyncio.Task[BotAnswer]]] = {}
        """The run of each chat, by its lane, and the id of the person whose message it answers."""
        self._storage_failures: Bounded[str, int] = Bounded(_MOST_FAILED)
        """How often the database failed in each run."""

    async def answer(self, station: Station, entry: Entry, owner: int) -> None:
        """Answers a recorded message, or sends what is left of its answer."""
        message = entry.row.incoming
        try:
            if entry.row.letter is None and message is not None:
                text = await self._text(station, message, owner)
                if text is None:
                    await self._journal.finish(entry)
                    return
                entry = await self._journal.answer(entry, _reply(station, message, text))
            await self._outbox.deliver(station, entry)
        except Lost:
            log.warning("channel_message_taken_over", channel=station.name)
        except ProviderError:
            return  # the outbox has logged it

    async def say(self, station: Station, entry: Entry, text: str) -> None:
        """Answers a recorded message with a text of the door itself."""
        message = entry.row.incoming
        assert message is not None
        try:
            entry = await self._journal.answer(entry, _reply(station, message, text))
            await self._outbox.deliver(station, entry)
        except Lost:
            log.warning("channel_message_taken_over", channel=station.name)
        except ProviderError:
            return  # the outbox has logged it

    def stop(self, station: Station, message: Incoming) -> str:
        """Ends the run of a chat, and returns what became of it. In a group, only the person who asked can end it."""
        person, task = self._running.get(station.lane(message.chat), ("", None))
        if task is None:
            return station.sentences.nothing_to_stop
        if person != message.person:
            return station.sentences.not_yours_to_stop
        task.cancel()
        return station.sentences.stopped

    async def proceed(self, station: Station, run: WaitingRun, owner: int) -> None:
        """Continues a run whose questions are answered, and sends its answer to its chat."""
        if not await self._questions.waits(run) or not await self._questions.is_answered(run):
            return
        try:
            text = await self._outcome(
                station, run.message, run.work, self._talk.resume(run.work), owner, run.times + 1
            )
            entry = None
            if text is not None:
                letter = _reply(station, run.message, text)
                # Whatever else continues runs sends their answers under this key too, and one of them is sent.
                waits = (station.sentences.asked_others, station.sentences.waits_in_inbox)
                key = f"{run.work.id}/reply" + (f"/{run.times}" if text in waits else "")
                entry = await self._journal.write(station.name, key, letter, owner=owner)
            if await self._questions.waits(run):  # otherwise it has asked again
                await self._questions.forget(run)
            if entry is not None:
                await self._outbox.deliver(station, entry)
        except BudgetSpentError:  # what else continues runs tells the person, and goes on when the budget is renewed
            await self._questions.forget(run)
        except RunNotFoundError:
            return  # something else continues the run, and sends its answer
        except ProviderError:
            return  # the outbox has logged it

    async def ask_again(self, station: Station, run: WaitingRun, owner: int) -> None:
        """Asks the questions of a run that something else continued until it asked again."""
        for approval in await self._questions.open(run) or ():
            if not await self._questions.is_asked(approval.id):
                await self._ask(station, run, owner)
                return

    async def _text(self, station: Station, message: Incoming, owner: int) -> str | None:
        """Returns the answer of the bot; None: the run was stopped, and nothing is to be said."""
        async with station.places, busy(station, message):
            if message.edited:
                return station.sentences.edited
            try:
                content = await content_of(station, message)
            except ProviderError as error:
                log.warning("channel_attachment_not_read", channel=station.name, error=str(error))
                return station.sentences.failed
            if not content:
                return unreadable(station, message)
            number = await self._histories.number(station.name, message.chat)
            work = BotWork(
                id=station.work_id(message),
                principal=station.principal(message),
                message=content,
                chat=station.history(message.chat, group=message.group, number=number),
                inherited=_inherited(message),
                reply_to=station.address(message.chat),
            )
            return await self._outcome(station, message, work, self._talk.answer(work), owner, 0)

    async def _outcome(
        self,
        station: Station,
        message: Incoming,
        work: BotWork,
        answer: Coroutine[Any, Any, BotAnswer],
        owner: int,
        times: int,
    ) -> str | None:
        """Waits for the answer of the bot. Returns its text, or what went wrong in a plain sentence; None: it was stopped."""
        sentences = station.sentences
        try:
            result = await self._stoppable(station.lane(message.chat), message.person, answer)
            if result is None:
                return None
            if result.status == "pending":
                run = WaitingRun(
                    channel=station.name,
                    work=replace(work, message=shown_text(work.message)),
                    message=message,
                    times=times,
                )
                return await self._ask(station, run, owner)
            if result.status == "failed":
                return sentences.failed
            return result.text if result.text.strip() else sentences.empty_answer
        except RunNotFoundError:
            if times:
                raise
            return sentences.not_possible
        except LimitExceededError:
            return sentences.too_long
        except BudgetSpentError as error:
            if times:
                raise
            log.warning("channel_budget_spent", channel=station.name, run_id=work.id, error=str(error))
            return sentences.budget_spent.format(hours=max(1, math.ceil(error.retry_after / 3_600)))
        except RequestError as error:
            log.error("channel_run_refused", channel=station.name, run_id=work.id, error=str(error))
            return sentences.not_possible
        except StorageError as error:
            failures = (self._storage_failures.get(work.id) or 0) + 1
            self._storage_failures.put(work.id, failures)
            if failures < _MOST_STORAGE_FAILURES:
                raise  # not a failure of the run: the message is answered when the database works again
            # The channels begin again after each such failure, so one message must not cause them for ever.
            log.error("channel_run_failed", channel=station.name, run_id=work.id, error=str(error))
            return sentences.failed
        except ToolcaddieError as error:
            log.error("channel_run_failed", channel=station.name, run_id=work.id, error=str(error))
            return sentences.failed
        except Exception:  # whatever the bot's code raises: the person is told, and the next message is answered
            log.exception("channel_run_failed", channel=station.name, run_id=work.id)
            return sentences.failed

    async def _stoppable(self, lane: str, person: str, answer: Coroutine[Any, Any, BotAnswer]) -> BotAnswer | None:
        """Waits for an answer that `/stop` can end. Returns None if it was ended."""
        task = asyncio.create_task(answer)
        self._running[lane] = (person, task)
        try:
            await asyncio.wait({task})
        finally:
            self._running.pop(lane, None)
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        return None if task.cancelled() else task.result()

    async def _ask(self, station: Station, run: WaitingRun, owner: int) -> str:
        """Asks people about the calls for which a run waits. Returns what the person who wrote is told."""
        chats, sentences = question_chats(station, run.message), station.sentences
        questions = await self._questions.remember(run, chats)
        for approval in questions:
            text = question_text(sentences, approval, run)
            for chat in chats:
                letter = replace(letter_of(station, chat, text), buttons=question_buttons(sentences, approval))
                entry = await self._journal.write(station.name, f"{approval.id}:{chat}", letter, owner=owner)
                if entry is None:
                    continue
                try:
                    await self._outbox.deliver(station, entry)
                except ProviderError as error:
                    log.error("channel_question_not_asked", channel=station.name, chat=chat, error=str(error))
        return sentences.asked_others if chats else sentences.waits_in_inbox


def _inherited(message: Incoming) -> Inherited:
    """Returns what the run inherits that answers a message. If it has words of somebody else, the run counts as one that has read
    something untrusted."""
    taint = (*(["forwarded message"] if message.forwarded else []), *(["attached file"] if message.files else []))
    return Inherited(taint=taint) if taint else NOTHING_INHERITED


def _reply(station: Station, message: Incoming, text: str) -> Letter:
    return letter_of(station, message.chat, text, handle=message.handle)
