"""Answers people at once (`ports.BotTalk`): the doors through which people talk to bots use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolcaddie.bots.compacting import Compacting
from toolcaddie.bots.history import READ, history_of
from toolcaddie.bots.requests import Recall, chat_key, nothing_recalled, request_of, shown_message
from toolcaddie.bots.waiting import Waiting
from toolcaddie.core.approval import Approval
from toolcaddie.core.bots import BotAnswer, BotWork, ChatTurn
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RunNotFoundError, StorageError
from toolcaddie.core.run import RunRequest, RunResult
from toolcaddie.ports import Chats
from toolcaddie.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """Implements `ports.BotTalk` with a runtime and the stored chats."""

    runtime: Runtime
    chats: Chats
    waiting: Waiting
    compacting: Compacting
    recall: Recall = nothing_recalled
    clock: Callable[[], float] = time.time

    async def answer(self, work: BotWork) -> BotAnswer:
        """Answers a message. If that was begun before, by a process that was stopped or killed, or while the database failed, its
        run goes on: no call is made twice that must not be. A run about pictures is not stored and begins again, because each
        step would write them."""
        self.runtime.identified(work.principal)
        turns = await self._turns(work)
        if (given := _given(work, turns)) is not None:
            return given
        if (questions := await self._stored(work)) is not None:
            if any(question.status == "open" for question in questions):
                await self.waiting.add(work)
                return BotAnswer(run_id=work.id, status="pending", text="")
            return await self.resume(work)
        try:
            answer = await self._answered(work, turns, durable=isinstance(work.message, str))
        except StorageError:
            raise  # it is answered again when the database works
        except Exception:
            await self.runtime.forget(work.id)
            raise
        if answer.status != "pending":
            await self.runtime.forget(work.id)
        return answer

    async def given(self, work: BotWork) -> BotAnswer | None:
        """Returns the answer that is in the chat of a piece of work already; None: there is none."""
        return _given(work, await self._turns(work))

    async def answer_durably(self, work: BotWork) -> BotAnswer:
        """Answers a message in a run that is stored from its first step. The caller forgets it when it has stored the answer."""
        self.runtime.identified(work.principal)
        return await self._answered(work, await self._turns(work), durable=True)

    async def request(self, work: BotWork) -> RunRequest:
        """Returns the request of the run that answers a message, with the chat so far and what the bot remembers. Whoever runs it
        calls `ended`."""
        self.runtime.identified(work.principal)
        return await self._request(work, await self._turns(work))

    async def _answered(self, work: BotWork, turns: Sequence[ChatTurn], *, durable: bool) -> BotAnswer:
        request = await self._request(work, turns, durable=durable)
        return await self.ended(work, await self.runtime.run(request))

    async def _request(self, work: BotWork, turns: Sequence[ChatTurn], *, durable: bool = False) -> RunRequest:
        return request_of(work, history_of(turns), await self.recall(work), durable=durable)

    async def _turns(self, work: BotWork) -> Sequence[ChatTurn]:
        """Returns the last messages of the chat."""
        key = chat_key(work)
        return await self.chats.turns(key, after=-READ) if work.chat else ()

    async def _stored(self, work: BotWork) -> Sequence[Approval] | None:
        """Returns the questions of the run of a piece of work; None: none is stored."""
        try:
            return await self.questions(work.id)
        except RunNotFoundError:
            return None

    async def questions(self, run_id: str) -> Sequence[Approval]:
        return await self.runtime.questions(run_id)

    async def decide(self, approval_id: str, *, approve: bool, by: Principal, reason: str = "") -> Approval:
        return await self.runtime.approvals.answer(by.tenant, approval_id, approved=approve, by=by, reason=reason)

    async def resume(self, work: BotWork) -> BotAnswer:
        """Continues the run of a piece of work whose questions are answered."""
        answer = await self.resume_durably(work)
        if answer.status != "pending":
            await self.runtime.forget(work.id)
        return answer

    async def resume_durably(self, work: BotWork) -> BotAnswer:
        """Continues a run. The caller forgets it when it has stored the answer."""
        return await self.ended(work, await self.runtime.resume(work.id))

    async def ended(self, work: BotWork, result: RunResult) -> BotAnswer:
        """Returns the answer of a run, after message and answer were added to the chat. A run that waits for a person is
        remembered, so that somebody continues it and sends its answer."""
        answer = answer_of(result)
        if answer.status == "pending":
            await self.waiting.add(work)
            return answer
        if work.chat:
            key, now = chat_key(work), self.clock()
            await self.chats.add(key, _new_turns(work, answer, now))
            await self.compacting.compact(key, work.principal)
        return answer


def answer_of(result: RunResult) -> BotAnswer:
    """Returns the result of a run as a bot's answer."""
    return BotAnswer(
        run_id=result.run_id,
        status="pending" if result.status == "pending" else "completed",
        text=result.text,
        usage=result.usage,
        calls=result.state.calls,
        taint=result.state.taint,
    )


def _given(work: BotWork, turns: Sequence[ChatTurn]) -> BotAnswer | None:
    """Returns the answer that was given already, and that the door has not noted; None: there is none."""
    given = next((turn for turn in reversed(turns) if turn.key == _answered_key(work)), None)
    return None if given is None else BotAnswer(run_id=work.id, status="completed", text=given.text, taint=given.taint)


def _answered_key(work: BotWork) -> str:
    return f"{work.id}/answered"


def _new_turns(work: BotWork, answer: BotAnswer, now: float) -> Sequence[ChatTurn]:
    person = f"{work.principal.tenant}/{work.principal.id}"
    asked = ChatTurn(
        role="user", text=shown_message(work), at=now, who=person, taint=work.inherited.taint, key=f"{work.id}/asked"
    )
    answered = ChatTurn(
        role="assistant",
        text=answer.text,
        at=now,
        who=work.principal.bot or "",
        taint=answer.taint,
        key=_answered_key(work),
    )
    return (asked, answered)
