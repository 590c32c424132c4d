"""The shipped policy: it hides nothing and allows every call. What tools and bots restrict holds under any policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolCall

_ALLOW = Decision(verdict="allow", reason="no policy is set: everything is allowed", rule="default")


class AllowAll:
    """Allows every call, as rule `default`."""

    @property
    def version(self) -> str:
        return "allow-all"

    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        """None: nothing is hidden."""
        return None

    async def decide(self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any], context: RunContext) -> Decision:
        return _ALLOW
