"""A process that starts runs whose programs wait for a person, until it is killed: python -m security.lookups URL NUMBER

It prints `ready` when NUMBER programs are put away and one more is on its way. `security.programs` starts it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from dataclasses import replace

from toolcaddie import RunContext, Runtime, tool
from toolcaddie.audit.trail import Trail
from toolcaddie.core.message import ModelRequest
from toolcaddie.core.presets import preset
from toolcaddie.storage.database import Database
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.testing.script import Reply

LOG = "SECURITY_CALLS"
"""Environment variable with the path of the file to which each call appends a line."""
LOOKUPS = 20
"""Number of calls of a program."""
ASKED = "book"
_HALF = LOOKUPS // 2
CODE = f"""
import asyncio, random
values = await asyncio.gather(*[fetch(number=n) for n in range({_HALF})])
values.append(await {ASKED}(number={_HALF}, key=random.random()))
for n in range({_HALF + 1}, {LOOKUPS}):
    values.append(await fetch(number=n))
print(values)
"""


def value_of(run_id: str, number: int) -> str:
    """Returns what the tools return for a number."""
    return hashlib.sha256(f"{run_id}/{number}".encode()).hexdigest()[:12]


def expected_text(run_id: str) -> str:
    """Returns what the model reads if nothing disturbs the program."""
    return f"{[value_of(run_id, number) for number in range(LOOKUPS)]}\n"


def _made(context: RunContext, number: int) -> str:
    with open(os.environ[LOG], "ab", buffering=0) as log:
        log.write(f"{context.run_id}/{number}\n".encode())
    return value_of(context.run_id, number)


@tool
def fetch(number: int, context: RunContext) -> str:
    """Fetches a value; a repeated call would be a second effect."""
    return _made(context, number)


@tool(destructive=True)
def book(number: int, key: float, context: RunContext) -> str:
    """Books a number. Without the key the questions of two runs would be equal, and one answer would count for one of them."""
    return _made(context, number)


def _answer(request: ModelRequest) -> Reply:
    """Answers as the model: first with the program, then with text."""
    wrote = any(message.role == "tool" for message in request.messages)
    return say("done") if wrote else call("run_program", {"code": CODE}, call_id="c1")


def runtime_over(database: Database) -> Runtime:
    return Runtime(
        provider=ScriptedProvider(_answer),
        sources=[fetch, book],
        preset=replace(preset("default"), programs="always"),
        programs="monty",
        trail=Trail(database.events),
        documents=database.store,
    )


async def main(url: str, number: int) -> None:
    async with Database(url, lease=1.0) as database:
        runtime = runtime_over(database)
        for _ in range(number):
            waiting = await runtime.run("book them")
            assert waiting.status == "pending", waiting
        print("ready", flush=True)
        await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
