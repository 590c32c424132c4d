"""`respond`: a meta tool by whose call the model gives its final answer. The call ends the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.core.meta_names import RESPOND
from toolcaddie.core.tool import Finish, Tool, ToolResult
from toolcaddie.meta.definition import meta_definition
from toolcaddie.ports.meta import MetaOffer, MetaScene


class Respond:
    name = RESPOND

    def definition(self, offer: MetaOffer) -> Tool:
        """Returns `respond` as the model reads it. `offer`: the settings on which definitions of meta tools depend."""
        return meta_definition(
            RESPOND,
            "Respond",
            "Give the user your final answer. This ends the task.",
            {"message": {"type": "string", "description": "The answer."}},
            required=["message"],
        )

    async def answer(self, arguments: Mapping[str, Any], scene: MetaScene) -> ToolResult:
        """Returns the effect that ends the run, with the message as its final answer."""
        return ToolResult(content="Delivered.", effect=Finish(text=arguments["message"]))
