"""Passes on the question how a source judges a call, to sources that judge and to those that do not."""

from __future__ import annotations

from typing import Any

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool
from toolcaddie.ports import AssessingSource, ToolSource


async def assessment(source: ToolSource, tool: Tool, arguments: dict[str, Any], context: RunContext) -> Assessment:
    """Returns the judgement of a source on a call; `NOTHING` if it judges none."""
    return await source.assess(tool, arguments, context) if isinstance(source, AssessingSource) else NOTHING
