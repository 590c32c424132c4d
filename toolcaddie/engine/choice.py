"""Reads a caller's `tool_choice` and the other request parameters about tools. They are JSON from outside, so any value may be
wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from toolcaddie.core.catalog import View

_NEED_TOOLS = frozenset({"parallel_tool_calls", "functions", "function_call"})
"""Parameters that a provider refuses if the request has no tools."""


def forced_names(tool_choice: Any) -> tuple[str, ...]:
    """Returns the names of the tools that the choice requires or allows. They are sent whatever their score."""
    if not isinstance(tool_choice, Mapping):
        return ()
    names = (_name(item) for item in (tool_choice, *_allowed(tool_choice)))
    return tuple(dict.fromkeys(name for name in names if name is not None))


def sendable_choice(tool_choice: Any, array: Collection[str], view: View) -> Any:
    """Removes from the choice the allowed tools that are missing from `array`, the tools that are sent: a provider refuses the
    name of any other tool.

    A name that no tool of the view has stays in the choice, so that the provider reports the caller's mistake.
    """
    unsent = {name for name in forced_names(tool_choice) if name not in array and view.get(name) is not None}
    if not unsent or not isinstance(tool_choice.get("allowed_tools"), Mapping):
        return tool_choice
    sendable = [item for item in _allowed(tool_choice) if _name(item) not in unsent]
    return {**tool_choice, "allowed_tools": {**tool_choice["allowed_tools"], "tools": sendable}}


def sendable_params(params: Mapping[str, Any], *, tools: bool, closing: bool) -> Mapping[str, Any]:
    """Returns the caller's parameters, without those that a provider refuses if the request has no `tools`.

    `closing`: earlier requests offered tools and this one does not, so the functions in the caller's old-style parameters are
    omitted too.
    """
    if tools or not _NEED_TOOLS & params.keys():
        return params
    if not closing and "functions" in params:
        return params
    return {name: value for name, value in params.items() if name not in _NEED_TOOLS}


def _allowed(tool_choice: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the items of a choice that lists allowed tools."""
    allowed = tool_choice.get("allowed_tools")
    tools = allowed.get("tools") if isinstance(allowed, Mapping) else None
    return iter(tools if isinstance(tools, list | tuple) else ())


def _name(item: Any) -> str | None:
    """Returns the name of the tool that a choice, or an item of it, names; None: it names no tool."""
    if not isinstance(item, Mapping):
        return None
    inside = item.get("function") or item.get("custom")
    name = inside.get("name") if isinstance(inside, Mapping) else None
    return name if isinstance(name, str) else None
