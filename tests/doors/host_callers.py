"""A client that calls the tools of a host one by one, through the gateway or through MCP, in compact mode."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.doors.mcp.doors import mcp_door, says
from tests.doors.serving import gateway
from tests.tools.host.hosting import host_source
from toolcaddie.app.settings import MCPSettings
from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.parts import Parts
from toolcaddie.ports import Policy
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider, call, say
from toolcaddie.tools.host import HostSource

FIVE = MCPSettings(mode="compact", five=True)
DOORS = ("gateway", "mcp")
Caller = Callable[..., Awaitable[str]]
"""Calls a tool by its name, and returns the text of its result."""


def stored_host(**settings: Any) -> HostSource:
    """Returns a host with these settings whose changes can wait for a confirmation."""
    return host_source(settings, Parts(store=MemoryStore()))


def executing(name: str, **arguments: Any) -> Any:
    """Returns an answer of the model that runs a tool."""
    return call("execute_tool", {"tool_name": name, "arguments": arguments})


def value(text: str) -> Any:
    """Returns the value of a result, which is its first line."""
    return msgspec.json.decode(text.partition("\n")[0])


@asynccontextmanager
async def caller(folder: Path, door: str, host: HostSource, policy: Policy | None = None) -> AsyncIterator[Caller]:
    """Yields what calls tools of the host through a door. `policy`: None allows everything that asks nobody by itself."""
    entered = _gateway if door == "gateway" else _mcp
    async with entered(folder, host, policy or AllowAll()) as called:
        yield called


@asynccontextmanager
async def _gateway(folder: Path, host: HostSource, policy: Policy) -> AsyncIterator[Caller]:
    wanted: list[Any] = []
    provider = ScriptedProvider(
        lambda request: (
            say("done") if request.messages[-1].role == "tool" else executing(wanted[-1][0], **wanted[-1][1])
        )
    )
    async with gateway(folder, provider, sources=[host], preset="compact", policy=policy) as served:

        async def called(name: str, **arguments: Any) -> str:
            wanted.append((name, arguments))
            answer = await served.client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": name}]
            )
            assert answer.choices[0].message.content == "done"
            return provider.requests[-1].messages[-1].text

        yield called


@asynccontextmanager
async def _mcp(folder: Path, host: HostSource, policy: Policy) -> AsyncIterator[Caller]:
    async with (
        mcp_door(folder, [host], settings=FIVE, policy=policy) as door,
        door.client("2026-07-28") as client,
    ):

        async def called(name: str, **arguments: Any) -> str:
            return await says(client, "execute_tool", tool_name=name, arguments=arguments)

        yield called
