"""The source `host` for tests, and judgements of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcaddie.control.policy.allow import AllowAll
from toolcaddie.core.assessment import Assessment
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.testing import ScriptedProvider
from toolcaddie.tools.host import HostSource, host


def host_source(settings: Mapping[str, Any], parts: Parts | None = None) -> HostSource:
    """Returns the source with these settings, as the settings file makes it."""
    registry = Registry()
    registry.add("source", "host", host)
    source: HostSource = registry.make("source", "host", settings, parts or Parts())
    return source


def host_runtime(settings: Mapping[str, Any], parts: Parts | None = None) -> Runtime:
    """Returns a runtime with the source, whose policy asks nobody."""
    return Runtime(provider=ScriptedProvider([]), sources=[host_source(settings, parts)], policy=AllowAll())


async def judged(source: Any, name: str, arguments: dict[str, Any]) -> Assessment:
    """Returns the judgement of a call."""
    tools = tuple(source.tools())
    view = View(catalog=Catalog.of(tools))
    context = RunContext(run_id="r", principal=Principal(), view=view, model="m")
    tool = next(tool for tool in tools if tool.name == name)
    found: Assessment = await source.assess(tool, arguments, context)
    return found
