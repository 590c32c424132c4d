"""Runs agents of three frameworks with 300 tools through the gateway, a hundred requests each, and prints one line for each.

    make frameworks
    python scripts/frameworks.py LangChain      # those with that in their names

A line has the framework, the gateway's door, whole or streamed, the right answers, and the requests to the upstream that had the
tools by which the framework's agent ends. The exit code is 1 if an answer is wrong or such a tool is missing. The upstream is
scripted and takes 128 tools, as the provider does.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # no framework may report to its makers
os.environ["LANGSMITH_TRACING"] = "false"

from tests.clients.errands import HUNDRED, request_for
from tests.clients.frameworks import FRAMEWORKS, Ask, Framework, answer, missing_tools, plays_an_agent
from tests.clients.server import Stage, serving

_AT_ONCE = 4
_MOST_ROUNDS = 4
"""The most requests to the upstream for one request of an agent."""


async def main(names: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as stage:
        chosen = [one for one in FRAMEWORKS if all(name in f"{one.name} {one.door}" for name in names)]
        outcomes = [await _run(stage, one, stream=stream) for one in chosen for stream in (False, True)]
    return 0 if outcomes and all(outcomes) else 1


async def _run(stage: Stage, framework: Framework, *, stream: bool) -> bool:
    """Prints the line of one framework at one door, and returns True if everything was right."""
    stage.begin()
    stage.plays(*[plays_an_agent] * (_MOST_ROUNDS * len(HUNDRED)))
    ask, turn = framework.agent(stage.address), asyncio.Semaphore(_AT_ONCE)
    right = sum(await asyncio.gather(*(_is_right(ask, name, turn, stream=stream) for name in HUNDRED)))
    bodies = stage.bodies
    complete = sum(not missing_tools(framework, body) for body in bodies)
    print(
        f"{framework.name:14} {framework.door:10} {'streamed' if stream else 'whole':9}"
        f"{right}/{len(HUNDRED)} answers right   tools to end with in {complete}/{len(bodies)} requests"
        f"   at most {max(len(body['tools']) for body in bodies)} tools   {len(stage.upstream.refusals)} refusals",
        flush=True,
    )
    return right == len(HUNDRED) and complete == len(bodies) and not stage.upstream.refusals


async def _is_right(ask: Ask, name: str, turn: asyncio.Semaphore, *, stream: bool) -> bool:
    async with turn:
        try:
            return await ask(request_for(name), stream) == answer(name)
        except Exception as error:  # noqa: BLE001  whatever a framework raises, the next request is tried
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            return False


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
