"""The input of a policy (`ports.Policy`) and of middleware: one call and its run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolcaddie.core.assessment import NOTHING, Assessment
from toolcaddie.core.run import RunContext, RunState
from toolcaddie.core.tool import Tool, ToolCall
from toolcaddie.util.replacing import replace


class CallRequest(Struct, frozen=True, kw_only=True):
    """A resolved and validated call, before it may run."""

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, Any]
    """The arguments as they will reach the tool, without those that the application injects."""
    context: RunContext
    state: RunState
    """State of the run: its calls so far and its messages."""
    assessment: Assessment = NOTHING
    """The judgement of the tool's source on this call."""

    @property
    def judged_tool(self) -> Tool:
        """The tool as rules judge it for this call: with the annotations of the call, if its source knows them."""
        annotations = self.assessment.annotations
        return self.tool if annotations is None else replace(self.tool, annotations=annotations)
