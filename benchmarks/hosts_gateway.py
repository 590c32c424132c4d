"""A gateway with the tools of a host on a real socket, preset `compact`, whose model follows a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from tests.doors.serving import Gateway, gateway
from tests.tools.host.hosting import host_source
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.message import ModelRequest
from toolcaddie.parts import Parts
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import Reply, ScriptedProvider, call

Step = tuple[str, Mapping[str, Any]]
"""The name of a tool and its arguments."""
Value = TypeVar("Value")


def execution(name: str, arguments: Mapping[str, Any]) -> Step:
    """Returns the call of a tool of the catalog as the preset `compact` has it."""
    return "execute_tool", {"tool_name": name, "arguments": dict(arguments)}


def number_of(request: ModelRequest) -> int:
    """Returns the number that the last message of the user is."""
    return int(next(str(message.content) for message in reversed(request.messages) if message.role == "user"))


def results(request: ModelRequest) -> list[str]:
    return [str(message.content) for message in request.messages if message.role == "tool"]


def follower(
    steps: Callable[[int], Sequence[Step]], answer: Callable[[list[str]], str] = "\n".join
) -> ScriptedProvider:
    """Returns a model that makes the steps for the number that it is sent, one after another. `answer` makes its answer of the
    results; with all of them, if it is not given."""

    def script(request: ModelRequest) -> Reply:
        wanted, texts = steps(number_of(request)), results(request)
        return call(*wanted[len(texts)]) if len(texts) < len(wanted) else call("respond", {"message": answer(texts)})

    return ScriptedProvider(script)


@asynccontextmanager
async def hosting(
    folder: Path, model: ScriptedProvider, settings: Mapping[str, Any], **options: Any
) -> AsyncIterator[Gateway]:
    """Yields a gateway with the source `host` and a database in `folder`. Its policy allows everything. `settings`: those of
    the source; `options`: more arguments of the runtime."""
    source = host_source(settings, Parts(store=MemoryStore()))
    async with gateway(folder, model, sources=[source], preset="compact", policy=AllowAll(), **options) as served:
        yield served


async def answers(served: Gateway, numbers: Sequence[int]) -> list[tuple[int, str]]:
    """Sends the numbers as requests, all at once, each over a connection of its own that is closed afterwards. Returns the status
    and the text of each answer, or its error."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=300)) as session:

        async def answer(number: int) -> tuple[int, str]:
            body = {"model": "scripted", "messages": [{"role": "user", "content": str(number)}]}
            async with session.post(f"{served.base_url}/v1/chat/completions", json=body) as response:
                value = await response.json()
            if response.status == 200:
                return response.status, str(value["choices"][0]["message"]["content"])
            return response.status, str(value["error"]["message"])

        return await asyncio.gather(*map(answer, numbers))


def or_reason(measure: Callable[[], Value]) -> Value | str:
    """Returns a measurement, or the reason why this machine cannot make it."""
    try:
        return measure()
    except pytest.skip.Exception as reason:
        return str(reason)
