"""A process that does durable work of a bot, for `benchmarks.durable_runs` and its test, which kill it:

    python -m benchmarks.durable_worker DATABASE_URL MODEL_URL MARKS_URL WORK_ID ...

Each piece of work makes ten calls of a tool that must not be repeated. The process prints a line for each piece that has ended.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

import aiohttp
import msgspec

from toolcaddie.app.bots import bot_parts
from toolcaddie.audit.trail import Trail
from toolcaddie.bots.working import KIND
from toolcaddie.control.bots import Bot
from toolcaddie.core.bots import BotAnswer, BotWork
from toolcaddie.core.control import Principal
from toolcaddie.core.presets import PRESETS
from toolcaddie.core.run import Limits, RunContext
from toolcaddie.jobs.queue import DurableQueue, WorkKind
from toolcaddie.parts import Parts
from toolcaddie.providers.openai_chat import OpenAIChat
from toolcaddie.runtime import Runtime
from toolcaddie.sources.functions import tool
from toolcaddie.storage.database import Database

CALLS = 10
LEASE_SECONDS = 2.0


def work_of(work_id: str) -> BotWork:
    """Returns the piece of work of this id."""
    return BotWork(id=work_id, principal=Principal(id="ann", bot="worker"), message=f"Do {work_id}.", mode="autonomous")


async def main(database_url: str, model_url: str, marks_url: str, work_ids: list[str]) -> None:
    async with aiohttp.ClientSession() as session, Database(database_url, lease=LEASE_SECONDS) as database:

        @tool(destructive=False)
        async def mark(context: RunContext, number: int) -> str:
            """Leave a mark.

            Args:
                number: The number of the mark.
            """
            async with session.post(marks_url, json={"run": context.run_id, "number": number}) as response:
                return await response.text()

        runtime = Runtime(
            provider=OpenAIChat(base_url=model_url, api_key="test-key"),
            model="scripted",
            sources=[mark],
            preset=replace(PRESETS["default"], limits=Limits(rounds=CALLS)),
            bots={"worker": Bot()},
            trail=Trail(database.events),
            documents=database.store,
        )
        async with runtime:
            parts = bot_parts(runtime, Parts(), store=database.store)
            kinds = {KIND: WorkKind(do=parts.worker.do_payload, at_once=None)}
            async with DurableQueue(database_url, database.store, kinds) as queue:
                await queue.put_many(KIND, [(each, msgspec.json.encode(work_of(each))) for each in work_ids])
                await asyncio.gather(*(_wait(queue, work_id) for work_id in work_ids))


async def _wait(queue: DurableQueue, work_id: str) -> None:
    answer = msgspec.json.decode(await queue.result(work_id), type=BotAnswer)
    print(work_id, answer.status, answer.text, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
