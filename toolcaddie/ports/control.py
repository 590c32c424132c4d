"""Sockets of control: policies and approvers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from toolcaddie.core.catalog import Catalog, Mask
from toolcaddie.core.control import Decision, Principal
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolCall


class Policy(Protocol):
    @property
    def version(self) -> str: ...
    def visible(self, catalog: Catalog, principal: Principal) -> Mask | None:
        """Which tools this principal may see; None: all."""
        ...

    async def decide(
        self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any], context: RunContext
    ) -> Decision: ...


class Approver(Protocol):
    async def approve(
        self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any], decision: Decision, context: RunContext
    ) -> bool | None:
        """True or False: decided now. None: not yet; the call stays pending and the run is put away."""
        ...
