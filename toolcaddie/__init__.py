"""Toolcaddie gives a language model the right tools.

This module has the public names of the package. Each is imported from its own module when it is first used: a command that only
lists tools need not wait for an HTTP client, and a loop that only selects need not load a database.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcaddie.control.bots import Bot, Role
    from toolcaddie.core.catalog import Catalog, Category, View
    from toolcaddie.core.content import Audio, Image, Resource, Text
    from toolcaddie.core.control import Decision, Principal
    from toolcaddie.core.errors import ToolcaddieError
    from toolcaddie.core.message import Message
    from toolcaddie.core.presets import PRESETS, Preset, SelectionSettings
    from toolcaddie.core.run import Limits, RunContext, RunRequest, RunResult
    from toolcaddie.core.selection import Budget, Selection
    from toolcaddie.core.tool import Finish, Tool, ToolAnnotations, ToolCall, ToolResult
    from toolcaddie.picker import Picker
    from toolcaddie.providers.openai_chat import OpenAIChat
    from toolcaddie.runtime import Runtime
    from toolcaddie.samples.practice import PracticeModel
    from toolcaddie.selection.selector import Selector
    from toolcaddie.sources.functions import FunctionSource, tool
    from toolcaddie.storage.database import Database

__version__ = "0.1.0"

_HOMES = {
    "Audio": "toolcaddie.core.content",
    "Bot": "toolcaddie.control.bots",
    "Budget": "toolcaddie.core.selection",
    "Catalog": "toolcaddie.core.catalog",
    "Category": "toolcaddie.core.catalog",
    "Database": "toolcaddie.storage.database",
    "Decision": "toolcaddie.core.control",
    "Finish": "toolcaddie.core.tool",
    "FunctionSource": "toolcaddie.sources.functions",
    "Image": "toolcaddie.core.content",
    "Limits": "toolcaddie.core.run",
    "Message": "toolcaddie.core.message",
    "OpenAIChat": "toolcaddie.providers.openai_chat",
    "PRESETS": "toolcaddie.core.presets",
    "Picker": "toolcaddie.picker",
    "PracticeModel": "toolcaddie.samples.practice",
    "Preset": "toolcaddie.core.presets",
    "Principal": "toolcaddie.core.control",
    "Resource": "toolcaddie.core.content",
    "Role": "toolcaddie.control.bots",
    "RunContext": "toolcaddie.core.run",
    "RunRequest": "toolcaddie.core.run",
    "RunResult": "toolcaddie.core.run",
    "Runtime": "toolcaddie.runtime",
    "Selection": "toolcaddie.core.selection",
    "SelectionSettings": "toolcaddie.core.presets",
    "Selector": "toolcaddie.selection.selector",
    "Text": "toolcaddie.core.content",
    "Tool": "toolcaddie.core.tool",
    "ToolAnnotations": "toolcaddie.core.tool",
    "ToolCall": "toolcaddie.core.tool",
    "ToolResult": "toolcaddie.core.tool",
    "ToolcaddieError": "toolcaddie.core.errors",
    "View": "toolcaddie.core.catalog",
    "tool": "toolcaddie.sources.functions",
}
"""The module of each public name."""

__all__ = [
    "PRESETS",
    "Audio",
    "Bot",
    "Budget",
    "Catalog",
    "Category",
    "Database",
    "Decision",
    "Finish",
    "FunctionSource",
    "Image",
    "Limits",
    "Message",
    "OpenAIChat",
    "Picker",
    "PracticeModel",
    "Preset",
    "Principal",
    "Resource",
    "Role",
    "RunContext",
    "RunRequest",
    "RunResult",
    "Runtime",
    "Selection",
    "SelectionSettings",
    "Selector",
    "Text",
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
