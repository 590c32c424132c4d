"""A caller's `tool_choice` and the other parameters about tools. They are untrusted JSON and may hold anything."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from toolcaddie.core.catalog import View

_NEED_TOOLS = frozenset({"parallel_tool_calls", "functions", "function_call"})


def forced_names(tool_choice: Any) -> tuple[str, ...]:
    """Returns the tools that the choice names: they are sent whatever their score."""
    if not isinstance(tool_choice, Mapping):
        return ()
    names = (_name(item) for item in (tool_choice, *_allowed(tool_choice)))
    return tuple(dict.fromkeys(name for name in names if name is not None))


def sendable_choice(tool_choice: Any, array: Collection[str], view: View) -> Any:
    """Returns the choice without allowed tools that had no place in the array: a provider refuses a name it was not sent.

    A name that no tool has stays: it is the caller's mistake, and the provider reports it.
    """
    unsent = {name for name in forced_names(tool_choice) if name not in array and view.get(name) is not None}
    if not unsent or not isinstance(tool_choice.get("allowed_tools"), Mapping):
        return tool_choice
    sendable = [item for item in _allowed(tool_choice) if _name(item) not in unsent]
    return {**tool_choice, "allowed_tools": {**tool_choice["allowed_tools"], "tools": sendable}}


def sendable_params(params: Mapping[str, Any], *, tools: bool, closing: bool) -> Mapping[str, Any]:
    """Returns the caller's parameters without those that a provider refuses if no tools are sent.

    `closing`: tools were offered before and no longer are, so the caller's old-style functions end as well.
    """
    if tools or not _NEED_TOOLS & params.keys():
        return params
    if not closing and "functions" in params:
        return params
    return {name: value for name, value in params.items() if name not in _NEED_TOOLS}


def _allowed(tool_choice: Mapping[str, Any]) -> Iterator[Any]:
    allowed = tool_choice.get("allowed_tools")
    tools = allowed.get("tools") if isinstance(allowed, Mapping) else None
    return iter(tools if isinstance(tools, list | tuple) else ())


def _name(item: Any) -> str | None:
    """Returns the tool that one choice names; None: it names none."""
    if not isinstance(item, Mapping):
        return None
    inside = item.get("function") or item.get("custom")
    name = inside.get("name") if isinstance(inside, Mapping) else None
    return name if isinstance(name, str) else None
