"""The input of a policy (`ports.Policy`) and of middleware: one call and its run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolcaddie.core.run import RunContext, RunState
from toolcaddie.core.tool import Tool, ToolCall


class CallRequest(Struct, frozen=True, kw_only=True):
    """A resolved and validated call, before it may run."""

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, Any]
    """The arguments as they will reach the tool, without those that the application injects."""
    context: RunContext
    state: RunState
    """State of the run: its calls so far and its messages."""
