"""`read_result`: returns the next part of a result that was truncated because it was too long.

It is added to the tools of a conversation as soon as a result was truncated. The whole result is held in a store under a handle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.core.meta_names import READ_LIMIT, READ_RESULT
from toolcaddie.core.tool import Tool, ToolResult
from toolcaddie.meta.definition import meta_definition
from toolcaddie.ports.meta import MetaOffer, MetaScene


class ReadResult:
    name = READ_RESULT

    def definition(self, offer: MetaOffer) -> Tool:
        """Returns `read_result` as the model reads it. `offer`: the settings on which definitions of meta tools depend."""
        return meta_definition(
            READ_RESULT,
            "Read on in a result",
            "Read the next part of a result that was cut. The note at its end gives the handle and the offset.",
            {
                "handle": {"type": "string", "description": "The handle from the note."},
                "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "Characters to skip."},
                "limit": {"type": "integer", "minimum": 1, "maximum": READ_LIMIT, "default": READ_LIMIT},
            },
            required=["handle"],
        )

    async def answer(self, arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
        """Returns the part of a truncated result for which the call asks. `scene.held`: the reader of the stored results."""
        assert scene.held is not None, "read_result is offered only if results are held"
        offset, limit = int(arguments.get("offset", 0)), int(arguments.get("limit", READ_LIMIT))
        return await scene.held.page(str(arguments["handle"]), offset, limit, scene.principal)
