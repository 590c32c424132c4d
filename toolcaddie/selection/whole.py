"""Exposure `all`: every visible tool is sent, up to the provider's cap, and nothing is selected."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from toolcaddie.core.catalog import View
from toolcaddie.core.errors import BudgetError
from toolcaddie.core.schema import definition_tokens
from toolcaddie.core.selection import DroppedTool, SelectedTool, Selection
from toolcaddie.core.tool import Tool
from toolcaddie.util.log import Logger

log = Logger(__name__)


def everything(view: View, cap: int | None, essential: Mapping[str, str]) -> Selection:
    """Returns a selection of every visible tool, in catalog order. More tools than `cap` are cut, with a warning (None: no cap).

    `essential` maps the names of tools that are never cut to the reasons for them.
    """
    tools = list(view)
    tools_sent, tools_cut = (tools, []) if cap is None else _cut(tools, cap, essential)
    if tools_cut:
        log.warning("tools_cut_to_cap", catalog=len(tools), cap=cap)
    return Selection(
        tools=tuple(SelectedTool(tool=tool, reasons=(_reason(tool, essential),)) for tool in tools_sent),
        dropped=tuple(
            DroppedTool(name=tool.name, stage="provider_cap", detail=f"the provider takes {cap}") for tool in tools_cut
        ),
        categories=view.category_names(),
        catalog_size=len(tools),
        tokens_all=definition_tokens(view),
    )


def _cut(tools: Sequence[Tool], cap: int, essential: Collection[str]) -> tuple[list[Tool], list[Tool]]:
    """Returns the tools that are sent and those that are cut. Raises `BudgetError` if the essential tools alone are too many."""
    must = [tool.name for tool in tools if tool.name in essential]
    if len(must) > cap:
        raise BudgetError(f"{len(must)} pinned tools are over the provider's cap of {cap}; pin fewer")
    others = [tool.name for tool in tools if tool.name not in essential][: cap - len(must)]
    names = {*must, *others}
    return [tool for tool in tools if tool.name in names], [tool for tool in tools if tool.name not in names]


def _reason(tool: Tool, essential: Mapping[str, str]) -> str:
    return f"pinned: {essential[tool.name]}" if tool.name in essential else "all tools are sent"
