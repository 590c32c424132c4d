"""What changes while a server runs reaches its MCP clients: the list of tools, and resources to which they subscribed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

from tests.doors.processes import serving

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:resources:UserWarning"),
]

MODULE = '''
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolResult
from toolcaddie.doors.mcp.offers import changed, resource

class Growing:
    """A source whose call `grow` adds a tool, and whose call `tidy` changes the resource."""

    name = "growing"

    def __init__(self):
        self.revision = 1

    def tools(self):
        names = ["grow", "tidy", *(f"grown_{number}" for number in range(1, self.revision))]
        return [Tool(name=name, description=name, annotations=ToolAnnotations(destructive=False)) for name in names]

    def categories(self):
        return []

    async def call_tool(self, tool, arguments, context):
        if tool.name == "grow":
            self.revision += 1
        if tool.name == "tidy":
            await changed(rules)
            await changed(member, id="a b")
        return ToolResult(content="done")

source = Growing()

@resource("gym://rules")
def rules() -> str:
    return "tidy up"

@resource("gym://members/{id}")
def member(id: str) -> str:
    return id
'''


@pytest.fixture
def door(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "growing.py").write_text(MODULE)
    (tmp_path / "toolcaddie.toml").write_text(
        'catalogs = ["python:growing"]\n[mcp]\nmode = "all"\noffers = "python:growing"\n'
    )
    with serving(tmp_path) as server:
        yield server.base_url.removesuffix("/v1") + "/mcp"


async def test_a_session_hears_of_a_new_tool_and_of_its_resources(door: str) -> None:
    heard: list[Any] = []
    news = anyio.Event()

    async def hear(message: Any) -> None:
        heard.append(message)
        if len(heard) == 3:
            news.set()

    async with Client(door, mode="legacy", message_handler=hear) as client:
        await client.subscribe_resource("gym://rules")
        await client.subscribe_resource("gym://members/a%20b")
        await client.call_tool("tidy", {})
        await client.unsubscribe_resource("gym://rules")
        await client.unsubscribe_resource("gym://members/a%20b")
        await client.call_tool("tidy", {})
        await client.call_tool("grow", {})
        with anyio.fail_after(20):
            await news.wait()
        names = [tool.name for tool in (await client.list_tools()).tools]
    assert "grown_1" in names
    updated, changed = types.ResourceUpdatedNotification, types.ToolListChangedNotification
    assert [type(message) for message in heard] == [updated, updated, changed]
    assert [message.params.uri for message in heard[:2]] == ["gym://rules", "gym://members/a%20b"]


async def test_a_client_without_a_session_listens(door: str) -> None:
    async with (
        Client(door, mode="2026-07-28") as client,
        client.listen(tools_list_changed=True, resource_subscriptions=["gym://rules"]) as news,
    ):
        await client.call_tool("tidy", {})
        with anyio.fail_after(20):
            assert await anext(news) == ResourceUpdated(uri="gym://rules")
            await client.call_tool("grow", {})
            assert await anext(news) == ToolsListChanged()
        assert "grown_1" in [tool.name for tool in (await client.list_tools()).tools]
