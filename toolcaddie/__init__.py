"""Toolcaddie hands a language model the right tools.

The public names. Each is fetched from its module when it is first used: a command that only lists tools need not wait for
an HTTP client, and a loop that only selects need not load a database.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcaddie.bots import Bot, Role
    from toolcaddie.catalog import Catalog, Category, View
    from toolcaddie.errors import ToolcaddieError
    from toolcaddie.functions import FunctionSource, tool
    from toolcaddie.message import Message
    from toolcaddie.picker import Picker
    from toolcaddie.presets import PRESETS, Preset, SelectionSettings
    from toolcaddie.providers.openai_chat import OpenAIChat
    from toolcaddie.providers.practice import PracticeModel
    from toolcaddie.run import Budget, Decision, Limits, Principal, RunContext, RunRequest, RunResult, Selection
    from toolcaddie.runtime import Runtime
    from toolcaddie.selection.selector import Selector
    from toolcaddie.storage.database import Database
    from toolcaddie.tool_types import Tool, ToolAnnotations, ToolCall, ToolResult

__version__ = "0.1.0"

_HOMES = {
    "Bot": "toolcaddie.bots",
    "Budget": "toolcaddie.run",
    "Catalog": "toolcaddie.catalog",
    "Category": "toolcaddie.catalog",
    "Database": "toolcaddie.storage.database",
    "Decision": "toolcaddie.run",
    "FunctionSource": "toolcaddie.functions",
    "Limits": "toolcaddie.run",
    "Message": "toolcaddie.message",
    "OpenAIChat": "toolcaddie.providers.openai_chat",
    "PRESETS": "toolcaddie.presets",
    "Picker": "toolcaddie.picker",
    "PracticeModel": "toolcaddie.providers.practice",
    "Preset": "toolcaddie.presets",
    "Principal": "toolcaddie.run",
    "Role": "toolcaddie.bots",
    "RunContext": "toolcaddie.run",
    "RunRequest": "toolcaddie.run",
    "RunResult": "toolcaddie.run",
    "Runtime": "toolcaddie.runtime",
    "Selection": "toolcaddie.run",
    "SelectionSettings": "toolcaddie.presets",
    "Selector": "toolcaddie.selection.selector",
    "Tool": "toolcaddie.tool_types",
    "ToolAnnotations": "toolcaddie.tool_types",
    "ToolCall": "toolcaddie.tool_types",
    "ToolResult": "toolcaddie.tool_types",
    "ToolcaddieError": "toolcaddie.errors",
    "View": "toolcaddie.catalog",
    "tool": "toolcaddie.functions",
}

__all__ = [
    "PRESETS",
    "Bot",
    "Budget",
    "Catalog",
    "Category",
    "Database",
    "Decision",
    "FunctionSource",
    "Limits",
    "Message",
    "OpenAIChat",
    "Picker",
    "PracticeModel",
    "Preset",
    "Principal",
    "Role",
    "RunContext",
    "RunRequest",
    "RunResult",
    "Runtime",
    "Selection",
    "SelectionSettings",
    "Selector",
    "Tool",
    "ToolAnnotations",
    "ToolCall",
    "ToolResult",
    "ToolcaddieError",
    "View",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'toolcaddie' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
