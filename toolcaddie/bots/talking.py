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
        """Answers a message."""
        return await self._answered(work, durable=False)

    async def answer_durably(self, work: BotWork) -> BotAnswer:
        """Answers a message in a run that is stored from its first step."""
        return await self._answered(work, durable=True)

    async def request(self, work: BotWork, *, durable: bool = False) -> RunRequest:
        """Returns the request of the run that answers a message, with the chat so far and what the bot remembers. Whoever runs it
        calls `ended`. `durable`: the run is stored from its first step."""
        self.runtime.identified(work.principal)
        key = chat_key(work)
        history = history_of(await self.chats.turns(key, after=-READ) if work.chat else ())
        return request_of(work, history, await self.recall(work), durable=durable)

    async def _answered(self, work: BotWork, *, durable: bool) -> BotAnswer:
        request = await self.request(work, durable=durable)
        return await self.ended(work, await self.runtime.run(request))

    async def questions(self, run_id: str) -> Sequence[Approval]:
        return await self.runtime.questions(run_id)

    async def decide(self, approval_id: str, *, approve: bool, by: Principal, reason: str = "") -> Approval:
        return await self.runtime.approvals.answer(by.tenant, approval_id, approved=approve, by=by, reason=reason)

    async def resume(self, work: BotWork) -> BotAnswer:
        """Continues the run of a piece of work whose questions are answered."""
        return await self.ended(work, await self.runtime.resume(work.id))

    async def ended(self, work: BotWork, result: RunResult) -> BotAnswer:
        """Returns the answer of a run, after message and answer were added to the chat. A run that waits for a person is
        remembered, so that somebody continues it."""
        answer = answer_of(result)
        if answer.status == "pending":
            await self.waiting.add(work)
            return answer
        await self.waiting.remove(work)
        if work.chat:
            key, now = chat_key(work), self.clock()
            await self.chats.add(key, _turns(work, answer, now))
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


def _turns(work: BotWork, answer: BotAnswer, now: float) -> Sequence[ChatTurn]:
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
        key=f"{work.id}/answered",
    )
    return (asked, answered)
