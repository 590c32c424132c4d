"""A host with bots in one process, for tests: a real runtime and a real `BotRunner`, with chats, groups and the queue of work in
memory. Nothing of it survives the process."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from toolcaddie.bots.compacting import Compacting
from toolcaddie.bots.jobs import JobRunner
from toolcaddie.bots.reviewing import RunReviewer
from toolcaddie.bots.running import Runner
from toolcaddie.bots.talking import Talk
from toolcaddie.bots.waiting import Waiting
from toolcaddie.bots.working import Worker
from toolcaddie.control.bots import Bot
from toolcaddie.core.bots import BotAnswer, BotCard, BotWork, ChatAddress, ChatKey, ChatTurn
from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError
from toolcaddie.core.jobs import Job, JobOutcome, Slot
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.run import RunContext, RunRequest, RunResult
from toolcaddie.core.tool import Tool
from toolcaddie.parts import Parts
from toolcaddie.personas import StoredPersonas
from toolcaddie.ports import EventSink
from toolcaddie.ports.jobs import Jobs
from toolcaddie.runtime import Runtime
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider
from toolcaddie.testing.script import Reply
from toolcaddie.tools.team import team

YOU_ARE = "You are the bot "
GROUP = ChatAddress(channel="club", chat="7")
"""The only group of the host."""


class MemoryChats:
    """Implements `ports.Chats`."""

    def __init__(self) -> None:
        self._turns: defaultdict[ChatKey, list[ChatTurn]] = defaultdict(list)

    async def turns(self, key: ChatKey, *, after: int = 0) -> Sequence[ChatTurn]:
        return self._turns[key][after:]

    async def add(self, key: ChatKey, turns: Sequence[ChatTurn]) -> None:
        known = {turn.key for turn in self._turns[key]}
        self._turns[key] += [turn for turn in turns if turn.key not in known]

    async def names(self, tenant: str, bot: str) -> Sequence[str]:
        return [key.chat for key, turns in self._turns.items() if turns and (key.tenant, key.bot) == (tenant, bot)]

    async def delete(self, key: ChatKey) -> bool:
        return bool(self._turns.pop(key, None))


class MemoryGroup:
    """Implements `ports.Messenger` for one group."""

    def __init__(self) -> None:
        self.posts: dict[str, tuple[str, str]] = {}
        """Sender and text by key, in the order of sending."""

    async def send(
        self, address: ChatAddress, text: str, *, key: str, sender: str = "", patience: float = 60.0
    ) -> bool:
        if address != GROUP:
            raise RequestError(f"there is no chat {address.chat!r}")
        self.posts.setdefault(key, (sender, text))
        return True

    async def may_write(self, address: ChatAddress) -> bool:
        return address == GROUP

    def is_group(self, address: ChatAddress) -> bool:
        return address == GROUP


class ProcessQueue:
    """Implements `ports.WorkQueue` with tasks of this process."""

    def __init__(self) -> None:
        self.do: Callable[[bytes], Awaitable[bytes]] | None = None
        self.begun: list[str] = []
        """The ids of the work that was put, once each."""
        self._tasks: dict[str, asyncio.Future[bytes]] = {}

    async def put(
        self, kind: str, work_id: str, payload: bytes, *, delay: float = 0.0, tenant: str | None = None
    ) -> None:
        if work_id not in self._tasks and self.do is not None:
            self.begun.append(work_id)
            self._tasks[work_id] = asyncio.ensure_future(self.do(payload))

    async def result(self, work_id: str, *, timeout: float | None = None) -> bytes:
        return await asyncio.wait_for(asyncio.shield(self._tasks[work_id]), timeout)

    async def cancel(self, work_id: str) -> None:
        self._tasks[work_id].cancel()
        await asyncio.wait({self._tasks[work_id]})

    def running(self) -> Sequence[str]:
        """Returns the ids of the work that goes on."""
        return [work_id for work_id, task in self._tasks.items() if not task.done()]

    async def idle(self) -> None:
        """Waits for the end of all work."""
        while tasks := [task for task in self._tasks.values() if not task.done()]:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Cancels all work."""
        for work_id in self._tasks:
            await self.cancel(work_id)


class LateRunner:
    """Implements `ports.BotRunner` by a runner that is made after the tools that use it. Counts the works that it is given."""

    def __init__(self) -> None:
        self.runner: Runner | None = None
        self.works: list[BotWork] = []
        self.crash_after: type[BaseException] | None = None
        """Raised once, in place of the next answer, as if the process of the asker had ended."""

    def cards(self, asker: Principal, tools: Sequence[str] | None = None) -> Sequence[BotCard]:
        return self._made.cards(asker, tools)

    async def answer(self, work: BotWork) -> BotAnswer:
        self.works.append(work)
        answer = await self._made.answer(work)
        if self.crash_after is not None:
            crash, self.crash_after = self.crash_after, None
            raise crash
        return answer

    async def begin(self, work: BotWork) -> None:
        self.works.append(work)
        await self._made.begin(work)

    @property
    def bots(self) -> Mapping[str, Bot]:
        return self._made.bots

    @property
    def _made(self) -> Runner:
        if self.runner is None:
            raise RequestError("the host does not run yet")
        return self.runner


Model = Callable[[str, ModelRequest], Any]
"""Takes the name of the bot and a request, and returns a reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host that runs."""

    runtime: Runtime
    bots: LateRunner
    group: MemoryGroup
    chats: MemoryChats
    store: MemoryStore
    personas: StoredPersonas
    queue: ProcessQueue
    jobs: JobRunner
    requests: list[tuple[str, ModelRequest]] = field(default_factory=list)
    """Every request to the model, with the bot that made it."""

    def tools(self) -> Mapping[str, Tool]:
        """Returns the tools of the first bot, by name."""
        bot = next(iter(self.bots.bots), None)
        view = self.runtime.view(RunRequest(messages=(), principal=Principal(bot=bot)))
        return {each.name: each for each in view}

    async def run_job(self, job: Job) -> JobOutcome:
        """Runs the next slot of a job, and waits for all work that it begins."""
        outcome = await self.jobs.run(job, Slot(job=job.id, at=job.next or 0.0))
        await self.queue.idle()
        return outcome

    async def ask(self, bot: str, text: str, *, person: str = "ann", **options: Any) -> RunResult:
        """Returns the result of a run of a bot for a person."""
        return await self.runtime.run(text, principal=Principal(id=person, bot=bot), **options)


@asynccontextmanager
async def hosting(
    bots: Mapping[str, Bot],
    model: Model,
    sources: Sequence[Any] = (),
    *,
    clock: Callable[[], float] = time.time,
    team_settings: Mapping[str, Any] | None = None,
    jobs: Jobs | None = None,
    more: Callable[[Parts], Sequence[Any]] = lambda parts: (),
    review_trail: EventSink | None = None,
    **options: Any,
) -> AsyncIterator[Host]:
    """Yields a host with these bots. `model` answers for all of them, and with no name of a bot for the reviewer of their files;
    `more` makes further sources with the parts of the host; `options` are those of the runtime."""
    requests: list[tuple[str, ModelRequest]] = []

    def reply(request: ModelRequest) -> Any:
        name = _name(request)
        requests.append((name, request))
        return model(name, request)

    late, group, chats, store, queue = LateRunner(), MemoryGroup(), MemoryChats(), MemoryStore(), ProcessQueue()
    personas = StoredPersonas(store)
    provider = ScriptedProvider(reply)
    parts = Parts(
        bots=late,
        messenger=group,
        chats=chats,
        store=store,
        personas=personas,
        jobs=jobs,
        reviewer=RunReviewer(provider=provider, bots=bots, trail=review_trail, meter=options.get("meter")),
        clock=clock,
    )
    settings = {"collaboration": True, **(team_settings or {})}
    runtime = Runtime(
        provider=provider,
        sources=[team(**settings, parts=parts), *sources, *more(parts)],
        bots=bots,
        documents=store,
        instructions=_introduced,
        **options,
    )
    talk = Talk(
        runtime=runtime,
        chats=chats,
        waiting=Waiting(store=store),
        compacting=Compacting(runtime=runtime, chats=chats),
    )
    worker = Worker(talk=talk, store=store)
    queue.do = worker.do_payload
    late.runner = Runner(runtime=runtime, queue=queue, bots=bots)
    try:
        async with runtime:
            yield Host(
                runtime=runtime,
                bots=late,
                group=group,
                chats=chats,
                store=store,
                personas=personas,
                queue=queue,
                jobs=JobRunner(worker=worker, messenger=group),
                requests=requests,
            )
    finally:
        await queue.close()


def _introduced(context: RunContext) -> str:
    return f"{YOU_ARE}{context.principal.bot}."


def _name(request: ModelRequest) -> str:
    text = next(message.text for message in request.messages if message.role == "system")
    return text.removeprefix(YOU_ARE).split(".")[0] if text.startswith(YOU_ARE) else ""


__all__ = ["GROUP", "Host", "Reply", "hosting"]
