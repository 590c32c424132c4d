"""Questions of a server during a call: its client's folders (roots), and an answer of the model (sampling)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import mcp_types as types
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import ListRoots, Resolve, Sample

from tests.sources.mcp.upstream import serving
from tests.sources.mcp.using import GENERATIONS, called
from toolcaddie.core.errors import ConfigError
from toolcaddie.sources.mcp import McpServer, McpSource

pytestmark = pytest.mark.anyio

both = pytest.mark.parametrize("protocol", GENERATIONS)
QUESTION = types.SamplingMessage(role="user", content=types.TextContent(text="Which color?"))


def _folders() -> ListRoots:
    return ListRoots()


def _color() -> Sample:
    return Sample([QUESTION], max_tokens=7)


def _curious() -> MCPServer:
    server = MCPServer("curious")

    @server.tool()
    def look(roots: Annotated[types.ListRootsResult, Resolve(_folders)]) -> str:
        """Name the client's folders."""
        return " ".join(f"{root.name}={root.uri}" for root in roots.roots)

    @server.tool()
    def think(answer: Annotated[types.CreateMessageResult, Resolve(_color)]) -> str:
        """Ask the client's model."""
        return f"{answer.model}: {getattr(answer.content, 'text', None)}"

    return server


@asynccontextmanager
async def _opened(protocol: Any, sampler: Any = None, **settings: Any) -> AsyncIterator[McpSource]:
    async with serving(_curious()) as url:
        source = McpSource(McpServer(name="up", url=url, protocol=protocol, timeout=5.0, **settings), sampler=sampler)
        await source.open()
        try:
            yield source
        finally:
            await source.close()


@both
async def test_a_server_gets_the_folders_of_the_settings_and_no_others(protocol: str) -> None:
    async with _opened(protocol, roots=("/srv/my docs", "/tmp/b")) as source:
        result = await called(source, "look")
        assert (result.text, result.is_error) == ("my docs=file:///srv/my%20docs b=file:///tmp/b", False)


@both
async def test_without_folders_in_the_settings_a_server_gets_none(protocol: str) -> None:
    async with _opened(protocol) as source:
        result = await called(source, "look")
        assert result.is_error
        assert "file:" not in result.text


def test_a_relative_folder_is_refused() -> None:
    with pytest.raises(ConfigError, match="the root 'docs' is a relative path"):
        McpSource(McpServer(name="up", url="http://a/mcp", roots=("docs",)))


@both
async def test_the_applications_function_answers_for_the_model(protocol: str) -> None:
    asked: list[types.CreateMessageRequestParams] = []

    async def sampler(params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        asked.append(params)
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="blue"), model="mine")

    async with _opened(protocol, sampler) as source:
        result = await called(source, "think")
    assert (result.text, result.is_error) == ("mine: blue", False)
    [params] = asked
    assert (params.max_tokens, params.messages) == (7, [QUESTION])


@both
async def test_a_sampler_that_fails_fails_the_call_only(protocol: str) -> None:
    async def sampler(params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        raise LookupError("no model today; the key is sk-secret")

    async with _opened(protocol, sampler) as source:
        result = await called(source, "think")
        assert result.is_error
        assert "sk-secret" not in result.text
        assert source.health.state == "connected"
        assert (await called(source, "look")).is_error


@both
async def test_without_a_function_sampling_is_declined(protocol: str) -> None:
    async with _opened(protocol) as source:
        result = await called(source, "think")
        assert result.is_error
        assert "ampling" in result.text
