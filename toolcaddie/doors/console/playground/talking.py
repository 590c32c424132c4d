"""Answers messages of the playground: each is a run in the person's name, with the gates, budgets and limits of any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, ToolcaddieError
from toolcaddie.core.events import RunEvent
from toolcaddie.core.run import RunRequest
from toolcaddie.core.storage import ApiKey
from toolcaddie.doors.console.playground.chats import Chat, Chats, Turn
from toolcaddie.doors.console.playground.telling import Piece, Telling
from toolcaddie.doors.gateway.limiting import Account, Limiter
from toolcaddie.doors.gateway.problems import RefusedError
from toolcaddie.engine.live import streamed
from toolcaddie.runtime import Runtime
from toolcaddie.util.log import Logger

log = Logger(__name__)

Put = Callable[[RunEvent], Awaitable[None]]


class Talking:
    """Begins and resumes the runs of conversations. `limiter` charges them to the API key of the person."""

    def __init__(self, runtime: Runtime, chats: Chats, limiter: Limiter) -> None:
        self._runtime = runtime
        self._chats = chats
        self._limiter = limiter

    async def answer(self, caller: Principal, key: ApiKey | None, chat: Chat, turn: Turn) -> AsyncIterator[Piece]:
        """Returns the pieces of the answer to the message of a turn. The turn is stored at the end, also if nobody reads on.
        Raises `RequestError` if the key of the person has reached a limit."""
        request = RunRequest(
            messages=chat.messages(turn.message),
            principal=caller,
            model=chat.model or None,
            preset=chat.preset or None,
            conversation=f"console:{chat.id}",
        )
        size = sum(len(message.text) for message in request.messages)
        account = await self._account(key, chat, size)
        return self._pieces(caller, chat, turn, account, lambda: self._runtime.stream(request))

    async def resume(self, caller: Principal, key: ApiKey | None, chat: Chat, turn: Turn) -> AsyncIterator[Piece]:
        """Returns the further pieces of an answer whose questions were answered. Raises `RequestError`."""
        account = await self._account(key, chat, len(turn.message))
        return self._pieces(
            caller, chat, turn, account, lambda: self._runtime.resume_stream(turn.run, principal=caller)
        )

    async def _account(self, key: ApiKey | None, chat: Chat, size: int) -> Account | None:
        if key is None:
            return None
        try:
            return await self._limiter.account(key, model=chat.model, size=size)
        except RefusedError as error:
            raise RequestError(str(error), code="limit") from error

    async def _pieces(
        self,
        caller: Principal,
        chat: Chat,
        turn: Turn,
        account: Account | None,
        begin: Callable[[], AsyncIterator[RunEvent]],
    ) -> AsyncIterator[Piece]:
        telling = Telling(turn)

        async def run(put: Put) -> None:
            # In a task of its own: the account belongs to the task, and whoever reads the pieces may be another one.
            with account.charged() if account is not None else nullcontext():
                async for event in begin():
                    await put(event)

        try:
            async for event in streamed(run):
                for piece in telling.take(event):
                    yield piece
        except ToolcaddieError as error:
            telling.fail(str(error))
        except (asyncio.CancelledError, GeneratorExit):
            telling.stop()
            raise
        except Exception:  # a provider or tool of another package: the person reads that it failed, the log why
            log.exception("playground_failed", run=telling.turn.run)
            telling.fail("The server's log says why.")
        finally:
            if account is not None:
                account.settle()
            await asyncio.shield(self._chats.put(caller, chat.id, telling.turn))
        yield {"kind": "end", "status": telling.turn.status}
