"""Calling a function as the engine does: through its source."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.sources.functions import FunctionSource

Call = Callable[..., Awaitable[ToolResult]]


def _context(source: FunctionSource, **injected: Any) -> RunContext:
    view = View(catalog=Catalog.of(source.tools()))
    return RunContext(run_id="r1", principal=Principal(), view=view, model="test", injected=injected)


@pytest.fixture
def call_context() -> Callable[..., RunContext]:
    """The context of a run over a source, with what the application injects."""
    return _context


@pytest.fixture
def definition() -> Callable[[Any], Tool]:
    """The tool that a callable becomes."""

    def define(function: Any) -> Tool:
        (tool,) = FunctionSource("local", [function]).tools()
        return tool

    return define


@pytest.fixture
def call() -> Call:
    """Call a function with a model's arguments; `injected` comes from the application."""

    async def run(function: Any, arguments: dict[str, Any] | None = None, **injected: Any) -> ToolResult:
        source = FunctionSource("local", [function])
        (tool,) = source.tools()
        return await source.call_tool(tool, arguments or {}, _context(source, **injected))

    return run
