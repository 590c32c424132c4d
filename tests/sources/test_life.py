"""Sources that connect to something: opened before there are tools, closed at the end, and heard of meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import ConfigError, DuplicateToolError
from toolcaddie.core.events import CallProgressed, SourceStatus
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.ports import OpenableSource, ToolSource
from toolcaddie.runtime import Runtime
from toolcaddie.sources.combined import CombinedSource
from toolcaddie.sources.functions import FunctionSource
from toolcaddie.sources.life import OptionalSource
from toolcaddie.testing import ScriptedProvider, call, say

pytestmark = pytest.mark.anyio


class Remote:
    """A source over a "server" that is a list of names: connected, its tools are those."""

    def __init__(self, name: str, server: list[str] | None) -> None:
        self.name = name
        self.revision = 0
        self.server = server
        self.connections = 0
        self._names: list[str] = []

    async def open(self) -> None:
        await asyncio.sleep(0)
        if self.server is None:
            raise ConnectionError(f"{self.name} refused the connection")
        self.connections += 1
        self.refresh()

    async def close(self) -> None:
        self.connections = 0
        self._names = []
        self.revision += 1

    def refresh(self) -> None:
        self._names = list(self.server or ())
        self.revision += 1

    def tools(self) -> Sequence[Tool]:
        return [Tool(name=name, source=self.name) for name in self._names]

    def categories(self) -> Sequence[Category]:
        return ()

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        await context.report_progress(1, 2, "half of it")
        left = 0.0 if context.deadline is None else context.deadline - time.monotonic()
        return ToolResult(content=f"{tool.name} with {left:.0f} s left")


def local() -> ToolSource:
    def add(a: int, b: int) -> int:
        return a + b

    return FunctionSource("local", [add])


def names(source: CombinedSource) -> list[str]:
    return [tool.name for tool in source.snapshot()]


async def test_tools_are_there_while_the_source_is_open() -> None:
    remote = Remote("far", ["fetch"])
    source = CombinedSource([local(), remote])
    assert (names(source), source.is_open) == (["add"], False)
    async with source:
        assert (names(source), source.is_open) == (["add", "fetch"], True)
    assert (names(source), remote.connections) == (["add"], 0)


async def test_sources_without_a_connection_are_open_from_the_beginning() -> None:
    source = CombinedSource([local()])
    assert source.is_open
    await source.close()
    assert source.is_open


async def test_an_open_source_is_not_opened_again_and_a_closed_one_is() -> None:
    remote = Remote("far", ["fetch"])
    source = CombinedSource([remote])
    await asyncio.gather(source.open(), source.open())
    await source.open()
    assert remote.connections == 1
    await source.close()
    await source.open()
    assert (remote.connections, names(source)) == (1, ["fetch"])
    await source.close()


async def test_a_source_that_cannot_be_opened_is_an_error_with_its_name_and_closes_the_others() -> None:
    well, broken = Remote("well", ["fetch"]), Remote("broken", None)
    with pytest.raises(
        ConfigError, match=r"source 'broken' cannot be opened: broken refused the connection\. Correct its"
    ):
        await CombinedSource([well, broken]).open()
    assert well.connections == 0


async def test_a_source_that_need_not_be_there_is_reported_and_the_rest_works() -> None:
    statuses: list[SourceStatus] = []
    broken = Remote("broken", None)
    source = CombinedSource([local(), OptionalSource(broken, statuses.append)], report=statuses.append)
    async with source:
        assert names(source) == ["add"]
    (failure,) = [status for status in statuses if status.status == "failed"]
    assert (failure.source, failure.detail) == ("broken", "broken refused the connection")
    assert "connected" not in {status.status for status in statuses}


async def test_a_source_that_need_not_be_there_has_its_tools_where_it_is() -> None:
    source = CombinedSource([OptionalSource(Remote("far", ["fetch"]))])
    async with source:
        assert names(source) == ["fetch"]
    assert names(source) == []


async def test_tools_of_a_connection_that_do_not_go_with_the_others_are_an_error_at_start() -> None:
    remote = Remote("far", ["add"])
    with pytest.raises(DuplicateToolError, match="'add'"):
        await CombinedSource([local(), remote]).open()
    assert remote.connections == 0


async def test_every_change_of_a_source_is_an_event() -> None:
    statuses: list[SourceStatus] = []
    remote = Remote("far", ["fetch"])
    source = CombinedSource([local(), remote], report=statuses.append)
    async with source:
        assert remote.server is not None
        remote.server.append("push")
        remote.refresh()
        assert names(source) == ["add", "fetch", "push"]
    await source.close()  # a runtime closes its source, whether somebody else has done so or not
    assert [(status.source, status.status, status.tools) for status in statuses] == [
        ("far", "connected", 1),
        ("far", "changed", 2),
        ("far", "closed", 0),
    ]


async def test_a_call_tells_its_progress_and_knows_its_deadline() -> None:
    async with CombinedSource([Remote("far", ["fetch"])]) as source:
        provider = ScriptedProvider([call("fetch"), say("done")])
        runtime = Runtime(provider=provider, sources=[source], policy=AllowAll())
        events = [event async for event in runtime.stream("fetch it")]
        (progress,) = [event for event in events if isinstance(event, CallProgressed)]
        assert (progress.tool, progress.done, progress.total, progress.message) == ("fetch", 1, 2, "half of it")
        results = [event.result.content for event in events if type(event).__name__ == "CallFinished"]
        assert "fetch with 30 s left" in str(results)


def test_what_has_a_life_is_declared_by_the_port() -> None:
    assert isinstance(Remote("far", []), OpenableSource)
    assert not isinstance(local(), OpenableSource)
