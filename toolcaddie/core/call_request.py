"""What a policy judges: one call, and the run it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.run import RunContext, RunState
from toolcaddie.core.tool import Tool, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """A call that was found and checked, before it is allowed to run."""

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, Any]
    """The arguments as they will reach the tool, without those that the application injects."""
    context: RunContext
    state: RunState
    """How the run stands: the calls it made so far, and the messages it has read."""
