"""Invocations for middleware."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from toolcaddie.catalog import Catalog, View
from toolcaddie.ports import Invocation
from toolcaddie.run import Principal, RunContext
from toolcaddie.tool_types import Tool, ToolAnnotations, ToolCall


@pytest.fixture
def invocation() -> Callable[..., Invocation]:
    def make(seconds: float = 30.0, *, read_only: bool | None = None) -> Invocation:
        tool = Tool(name="freeze", annotations=ToolAnnotations(read_only=read_only))
        context = RunContext(run_id="r", principal=Principal(), view=View(catalog=Catalog.of([tool])), model="m")
        return Invocation(
            call=ToolCall(id="c", name="freeze"), tool=tool, arguments={}, context=context, seconds=seconds
        )

    return make
