"""`search_tools`: finds tools by words, among those that the caller may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolcaddie.core.meta_names import SEARCH_TOOLS
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.meta.definition import meta_definition
from toolcaddie.meta.lookup import first_hits, search_hits, tool_summary
from toolcaddie.ports.meta import MetaOffer, MetaScene


class SearchTools:
    name = SEARCH_TOOLS

    def definition(self, offer: MetaOffer) -> Tool:
        """Returns `search_tools` as the model reads it. `offer`: the settings on which definitions of meta tools depend."""
        most = offer.page_size
        return meta_definition(
            SEARCH_TOOLS,
            "Search tools",
            f"Find tools by words in their name, description and category. At most {most} hits.",
            {
                "query": {"type": "string", "description": "What the tool should do, in a few words."},
                "limit": {"type": "integer", "minimum": 1, "maximum": most, "default": first_hits(most)},
            },
            required=["query"],
        )

    async def answer(self, arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
        """Returns the tools that match the query of the call. `scene.view`: the tools that the caller may see."""
        limit = int(arguments.get("limit", first_hits(scene.page_size)))
        hits = await search_hits(scene.view, scene.selector, scene.prepare, arguments["query"], limit)
        value = {"total": len(hits), "tools": [tool_summary(tool) for tool in hits]}
        return ToolResult(content=msgspec.json.encode(value).decode(), structured=value)
