"""A menu: the tools that an MCP client sees, and what a call of one does. There is one file for each mode of the door.

`scene` is one request of one client: its desk (the tools that its principal may see), and a function that calls a tool.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from toolcaddie.core.meta_names import READ_LIMIT, READ_RESULT
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.desk import ToolDesk
from toolcaddie.meta.registry import OURS
from toolcaddie.ports import MetaOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One request of a client."""

    desk: ToolDesk
    call: Callable[[str, Mapping[str, Any]], Awaitable[ToolResult]]
    """Calls a tool of the catalog with all checks, and passes its progress to the client."""
    read_on: Callable[[str, int, int], Awaitable[ToolResult]] | None
    """Reads truncated results further, by handle, offset and limit; None: they are not stored."""
    task: str
    """The text by which tools are selected: the client's last search, or the task that it declared; empty: neither."""
    searched: Callable[[str], Awaitable[None]]
    """Stores the words of a search and tells the client that its list of tools has changed."""


class Menu(Protocol):
    """The tools that clients see in one mode."""

    instructions: str
    """Advice to a model on the use of these tools; empty: nothing needs to be said."""

    async def tools(self, scene: Scene) -> Sequence[Tool]: ...
    async def call(self, name: str, arguments: Mapping[str, Any], scene: Scene) -> ToolResult: ...


OFFER = MetaOffer()
READER = OURS[READ_RESULT].definition(OFFER)


def answer(value: Mapping[str, Any]) -> ToolResult:
    """Returns a value as a result, as JSON text and structured."""
    return ToolResult(content=msgspec.json.encode(value).decode(), structured=value)


async def read_on(arguments: Mapping[str, Any], scene: Scene) -> ToolResult:
    """Returns the next part of a truncated result."""
    handle, offset, limit = arguments.get("handle"), arguments.get("offset", 0), arguments.get("limit", READ_LIMIT)
    if not isinstance(handle, str) or not isinstance(offset, int) or not isinstance(limit, int):
        return failed(f"{READ_RESULT} takes handle (text), offset and limit (integers).", "invalid_arguments")
    if scene.read_on is None:
        return failed("This server does not store truncated results.")
    return await scene.read_on(handle, offset, limit)


def called_name(arguments: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | ToolResult:
    """Returns name and arguments of the tool that a call contains, or the refusal."""
    name, inner = arguments.get("tool_name"), arguments.get("arguments", {})
    if not isinstance(name, str) or not name:
        return failed(
            "tool_name: give the exact name of the tool, as list_tools or search_tools shows it.", "invalid_arguments"
        )
    if not isinstance(inner, Mapping):
        return failed(f"arguments: give the arguments of {name[:64]!r} as an object.", "invalid_arguments")
    return name, inner
