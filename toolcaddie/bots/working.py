"""Does the durable work of bots: whatever dies meanwhile, it goes on after the last step, and no call is made twice that must not
be.

The queue of durable work may call `Worker.do` several times for one piece of work. The stored state of the run says which calls
were made, and the stored answer that the run has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from toolcaddie.bots.talking import Talk
from toolcaddie.core.approval import Approval
from toolcaddie.core.bots import BotAnswer, BotWork
from toolcaddie.core.errors import RunNotFoundError, StorageError, ToolcaddieError
from toolcaddie.core.run import RunState
from toolcaddie.ports import Store
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

KIND = "bot"
"""The kind of this work in the queue."""

_ANSWER = "bot-answer"
"""Kind of the documents with the answers of work that has ended; the key is the id of the work."""
_BEGINNINGS = "bot-beginnings"
"""Kind of the documents with the number of times that work was begun; the key is the id of the work."""
_TTL_SECONDS = 30 * 86_400.0
_ATTEMPTS = 10
"""The largest number of attempts while the database fails or another process still continues the run."""
_PAUSE_SECONDS = 2.0


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
        answer = await self._attempted(work)
        if answer.status != "pending":
            await self.store.put(_ANSWER, work.id, msgspec.json.encode(answer), ttl=_TTL_SECONDS)
            await self.talk.runtime.forget(answer.run_id)
        return answer

    async def _attempted(self, work: BotWork) -> BotAnswer:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._continued(work)
            except (StorageError, RunNotFoundError) as error:
                log.warning("work_interrupted", work=work.id, attempt=attempt, error=str(error))
                if attempt == _ATTEMPTS:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
            except ToolcaddieError as error:
                log.warning("work_failed", work=work.id, error=str(error))
                return _failure(work, error)
        raise AssertionError("the last attempt returns or raises")

    async def _continued(self, work: BotWork) -> BotAnswer:
        """Begins the run, or continues it if it is stored."""
        begun = await self._beginnings(work)
        if begun and (questions := await self._questions(_run(work, begun))) is not None:
            if any(question.status == "open" for question in questions):
                return BotAnswer(run_id=_run(work, begun).id, status="pending", text="")
            return await self.talk.resume_durably(_run(work, begun))
        number = str(begun + 1).encode()
        before = str(begun).encode() if begun else None
        if not await self.store.compare_and_set(_BEGINNINGS, work.id, number, expected=before, ttl=_TTL_SECONDS):
            raise RunNotFoundError(f"another process begins {work.id!r} at this moment", param="run_id")
        return await self.talk.answer_durably(_run(work, begun + 1))

    async def _beginnings(self, work: BotWork) -> int:
        stored = await self.store.get(_BEGINNINGS, work.id)
        return 0 if stored is None else int(stored)

    async def _questions(self, run: BotWork) -> Sequence[Approval] | None:
        """Returns the questions of a run; None: it is not stored, because the process died before its first step."""
        try:
            return await self.talk.questions(run.id)
        except RunNotFoundError:
            return None


async def forget_answers(store: Store, prefix: str) -> None:
    """Removes the answers of all work whose ids begin so."""
    for kind in (_ANSWER, _BEGINNINGS):
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


def _run(work: BotWork, number: int) -> BotWork:
    """Returns the work with the id of its run of this number. The trail records each run under an id of its own."""
    return work if number == 1 else replace(work, id=f"{work.id}.{number}")
