"""No choice at all: exposure `all` sends every tool there is, as far as the provider takes them."""

from __future__ import annotations

from toolcaddie.catalog import View
from toolcaddie.logger import Logger
from toolcaddie.run import DroppedTool, SelectedTool, Selection
from toolcaddie.schema import definition_tokens

log = Logger(__name__)


def everything(view: View, cap: int | None) -> Selection:
    """Every visible tool in catalog order, cut at `cap` (None: not cut) with a warning."""
    tools = list(view)
    kept = tools if cap is None else tools[:cap]
    if len(kept) < len(tools):
        log.warning("tools_cut_to_cap", catalog=len(tools), cap=cap)
    return Selection(
        tools=tuple(SelectedTool(tool=tool, reasons=("all tools are sent",)) for tool in kept),
        dropped=tuple(
            DroppedTool(name=tool.name, stage="provider_cap", detail=f"the provider takes {cap}")
            for tool in tools[len(kept) :]
        ),
        categories=view.category_names(),
        catalog_size=len(tools),
        tokens_all=definition_tokens(view),
    )
