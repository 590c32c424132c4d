"""A runtime whose host has one state plugin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.tools.host.shelf import Person
from toolcaddie import Runtime
from toolcaddie.core.tool import ToolResult
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider


@dataclass(slots=True, kw_only=True)
class StateHost:
    """Calls the tools of the plugin. `person` is asked about changes, and agrees."""

    runtime: Runtime
    plugin: str
    person: Person

    async def call(self, step: str, **arguments: Any) -> ToolResult:
        return await self.runtime.call(f"plugin_{self.plugin}_{step}", arguments)

    async def state(self) -> Any:
        return (await self.call("query")).structured["state"]

    async def diff(self, desired: Any) -> Any:
        result = await self.call("diff", desired_state=desired)
        assert result.success, result.text
        return result.structured

    async def refusal(self, desired: Any) -> str:
        """Returns the words with which a desired state is refused."""
        result = await self.call("diff", desired_state=desired)
        assert result.error == "invalid_arguments", result.text
        return result.text

    async def apply(self, desired: Any) -> ToolResult:
        return await self.call("apply", diff=await self.diff(desired), dry_run=False)


@asynccontextmanager
async def state_host(
    plugin: str, factory: Any, settings: Mapping[str, Any], *, confirm_seconds: float = 120.0
) -> AsyncIterator[StateHost]:
    registry = Registry()
    registry.add("state", plugin, factory)
    table = {
        "groups": ["plugins"],
        "plugins": [plugin],
        "plugin": {plugin: dict(settings)},
        "confirm_seconds": confirm_seconds,
    }
    source = registry.make("source", "host", table, Parts(store=MemoryStore()))
    person = Person()
    async with Runtime(provider=ScriptedProvider([]), sources=[source], approver=person) as runtime:
        yield StateHost(runtime=runtime, plugin=plugin, person=person)
