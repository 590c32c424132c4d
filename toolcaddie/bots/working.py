"""Does the durable work of bots: whatever dies meanwhile, it goes on after the last step, and no call is made twice that must not
be.

The queue of durable work may call `Worker.do` several times for one piece of work. The stored state of the run says which calls
were made, and the stored answer that the run has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from toolcaddie.bots.talking import Talk
from toolcaddie.core.bots import BotAnswer, BotWork
from toolcaddie.core.errors import RunNotFoundError, StorageError, ToolcaddieError
from toolcaddie.core.run import RunState
from toolcaddie.ports import Store
from toolcaddie.runtime.durable_runs import BEGINNINGS, DurableRuns
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

KIND = "bot"
"""The kind of this work in the queue."""

_ANSWER = "bot-answer"
"""Kind of the documents with the answers of work that has ended; the key is the id of the work."""
_TTL_SECONDS = 30 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Does pieces of work and stores their answers."""

    talk: Talk
    store: Store

    async def do_payload(self, payload: bytes) -> bytes:
        """Does the same as `do` for the queue, which stores bytes."""
        return msgspec.json.encode(await self.do(msgspec.json.decode(payload, type=BotWork)))

    async def do(self, work: BotWork) -> BotAnswer:
        """Does a piece of work, or what is left of it, and returns its answer. An error of the run is an answer too."""
        stored = await self.store.get(_ANSWER, work.id)
        if stored is not None:
            return msgspec.json.decode(stored, type=BotAnswer)
        answer = await self._answered(work)
        if answer.status != "pending":
            await self.store.put(_ANSWER, work.id, msgspec.json.encode(answer), ttl=_TTL_SECONDS)
            await self.talk.runtime.forget(answer.run_id)
        return answer

    async def _answered(self, work: BotWork) -> BotAnswer:
        """Begins the run, or continues it if it is stored."""

        def run(run_id: str) -> BotWork:
            return replace(work, id=run_id)

        async def begin(run_id: str) -> BotAnswer:
            return await self.talk.answer_durably(run(run_id))

        async def resume(run_id: str) -> BotAnswer:
            return await self.talk.resume_durably(run(run_id))

        async def waiting(run_id: str) -> BotAnswer:
            return BotAnswer(run_id=run_id, status="pending", text="")

        runs = DurableRuns(runtime=self.talk.runtime, store=self.store)
        try:
            return await runs.answer(work.id, begin=begin, resume=resume, waiting=waiting)
        except (StorageError, RunNotFoundError):
            raise
        except ToolcaddieError as error:
            log.warning("work_failed", work=work.id, error=str(error))
            return _failure(work, error)


async def forget_answers(store: Store, prefix: str) -> None:
    """Removes the answers of all work whose ids begin so."""
    for kind in (_ANSWER, BEGINNINGS):
        while documents := (await store.scan(kind, prefix=prefix)).documents:
            for document in documents:
                await store.delete(kind, document.key)


def _failure(work: BotWork, error: ToolcaddieError) -> BotAnswer:
    """Returns the answer of work that failed, with what it has used: the asker's budget is charged for it."""
    answer = BotAnswer(run_id=work.id, status="failed", text=str(error))
    state: RunState | None = error.state
    if state is None:
        return answer
    return replace(answer, usage=state.usage, calls=state.calls, taint=state.taint)
