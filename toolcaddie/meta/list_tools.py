"""`list_tools`: lists the tools that the caller may see, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolcaddie.core.meta_names import LIST_TOOLS
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.meta.definition import meta_definition
from toolcaddie.meta.lookup import tool_page, tool_summary
from toolcaddie.ports.meta import MetaOffer, MetaScene


class ListTools:
    name = LIST_TOOLS

    def definition(self, offer: MetaOffer) -> Tool:
        """Returns `list_tools` as the model reads it. `offer`: the settings on which definitions of meta tools depend."""
        return meta_definition(
            LIST_TOOLS,
            "List tools",
            "List the available tools page by page, in a stable order.",
            {
                "category": {"type": "string", "description": "Only tools of this category."},
                "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "Tools to skip."},
                "limit": {"type": "integer", "minimum": 1, "maximum": offer.page_size, "default": offer.page_size},
            },
        )

    async def answer(self, arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
        """Returns the page of tools for which the call asks. `scene.view`: the tools that the caller may see."""
        page = tool_page(
            scene.view,
            category=arguments.get("category"),
            offset=int(arguments.get("offset", 0)),
            limit=int(arguments.get("limit", scene.page_size)),
        )
        value = {
            "total": page.total,
            "offset": page.offset,
            "limit": page.limit,
            "has_more": page.has_more,
            "tools": [tool_summary(tool) for tool in page.tools],
        }
        return ToolResult(content=msgspec.json.encode(value).decode(), structured=value)
