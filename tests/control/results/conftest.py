"""Invocations for middleware."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.databases import database_url
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolAnnotations, ToolCall
from toolcaddie.ports import Invocation


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return database_url(tmp_path / "toolcaddie.sqlite")


@pytest.fixture
def invocation() -> Callable[..., Invocation]:
    def make(
        seconds: float = 30.0,
        *,
        read_only: bool | None = None,
        tool: Tool | None = None,
        arguments: Mapping[str, Any] | None = None,
        principal: Principal | None = None,
        injected: Mapping[str, Any] | None = None,
    ) -> Invocation:
        tool = tool or Tool(name="freeze", annotations=ToolAnnotations(read_only=read_only))
        context = RunContext(
            run_id="r",
            principal=principal or Principal(),
            view=View(catalog=Catalog.of([tool])),
            model="m",
            injected=injected or {},
        )
        return Invocation(
            call=ToolCall(id="c", name=tool.name),
            tool=tool,
            arguments={**(arguments or {}), **(injected or {})},
            context=context,
            seconds=seconds,
        )

    return make
