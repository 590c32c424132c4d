"""The frameworks' own ways to end, with 300 tools at every door: output tools and hand-offs are sent in every request.

`make frameworks` does the same with a hundred requests for each framework and door.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.clients.errands import HUNDRED, request_for
from tests.clients.frameworks import FRAMEWORKS, Framework, answer, missing_tools, plays_an_agent
from tests.clients.server import Stage


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all of them, because LangChain keeps its connections for the next model."""
    with asyncio.Runner() as loop:
        yield loop


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: f"{one.name}-{one.door}")
def test_an_agent_with_300_tools_ends_by_its_frameworks_tool(
    stage: Stage, framework: Framework, runner: asyncio.Runner
) -> None:
    stage.plays(*[plays_an_agent] * 6)
    whole, streamed = HUNDRED[7], HUNDRED[77]

    async def work() -> list[str]:
        ask = framework.agent(stage.address)
        return [await ask(request_for(whole), False), await ask(request_for(streamed), True)]

    assert runner.run(work()) == [answer(whole), answer(streamed)]
    rounds = len(stage.bodies) // 2
    assert [bool(body.get("stream")) for body in stage.bodies] == [False] * rounds + [True] * rounds
    for body in stage.bodies:
        assert not missing_tools(framework, body)
        assert len(body["tools"]) <= 128
