"""The meta tools by name: the built-in ones, and those of applications and plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolcaddie.core.catalog import View
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.meta_names import META_TOOLS
from toolcaddie.core.tool import Tool
from toolcaddie.meta.execute_tool import ExecuteTool
from toolcaddie.meta.get_tool_schema import GetToolSchema
from toolcaddie.meta.list_tools import ListTools
from toolcaddie.meta.read_result import ReadResult
from toolcaddie.meta.request_more_tools import RequestMoreTools
from toolcaddie.meta.respond import Respond
from toolcaddie.meta.run_program import RunProgram
from toolcaddie.meta.search_tools import SearchTools
from toolcaddie.ports.meta import CallWrapper, MetaOffer, MetaTool
from toolcaddie.ports.programs import ProgramTool
from toolcaddie.util.suggest import did_you_mean

AnyMetaTool = MetaTool | CallWrapper | ProgramTool
MetaTools = Mapping[str, AnyMetaTool]

OURS: MetaTools = {
    tool.name: tool
    for tool in (
        RequestMoreTools(),
        ExecuteTool(),
        ListTools(),
        SearchTools(),
        GetToolSchema(),
        Respond(),
        ReadResult(),
        RunProgram(),
    )
}
"""The built-in meta tools by name."""


def joined_meta_tools(others: Iterable[AnyMetaTool] = ()) -> MetaTools:
    """Returns the built-in meta tools and `others` together. Raises `ConfigError` if a name is used twice."""
    joined = dict(OURS)
    for tool in others:
        if tool.name in joined:
            raise ConfigError(f"there is a meta tool {tool.name!r} already; give the new one another name")
        joined[tool.name] = tool
    return joined


def offered_definitions(names: Iterable[str], offer: MetaOffer, tools: MetaTools = OURS) -> dict[str, Tool]:
    """Returns the definitions of the meta tools with these names, in the same order. `offer`: the settings on which definitions
    depend. Raises `ConfigError` for an unknown name."""
    return {name: _tool_by_name(name, tools).definition(offer) for name in names}


def is_meta(name: str, view: View, offered: Iterable[str]) -> bool:
    """Returns True if a call of this name is a call of a meta tool.

    This is the case if a meta tool of this name was offered, or if a built-in meta tool has the name and no visible tool has it.
    """
    return name in offered or (name in META_TOOLS and view.get(name) is None)


def _tool_by_name(name: str, tools: MetaTools) -> AnyMetaTool:
    if name not in tools:
        raise ConfigError(f"preset.meta: there is no meta tool {name!r}; {did_you_mean(name, tools)}")
    return tools[name]
