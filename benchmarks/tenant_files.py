"""The tenants of `benchmarks.tenants`: their files, their requests, and a runtime for them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.selection import catalog
from toolcaddie.app.settings import Settings
from toolcaddie.app.settings.tenants import TenantSettings
from toolcaddie.app.tenants import tenants_of
from toolcaddie.core.tool import Tool
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.runtime import Runtime
from toolcaddie.sources.definitions import DefinitionSource
from toolcaddie.testing import ScriptedProvider
from toolcaddie.util.replacing import replace

TENANTS, OWN, SHARED = 1_000, 50, 20


def write(folder: Path) -> None:
    """Writes the files of all tenants."""
    for number in range(TENANTS):
        tenant = name(number)
        (folder / f"{tenant}.toml").write_text(f'catalogs = ["{tenant}.jsonl"]\n')
        lines = [
            msgspec.json.encode(
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                    "category": tool.category,
                }
            )
            for tool in tools(number)
        ]
        (folder / f"{tenant}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def name(number: int) -> str:
    """Returns the name of a tenant."""
    return f"tenant{number:04}"


_ALL: list[Tool] = []


def tools(number: int) -> Sequence[Tool]:
    """Returns the tools of a tenant: 50 of a thousand. Two tenants have about two in common."""
    _ALL.extend(() if _ALL else catalog(1_000).tools)
    return random.Random(number).sample(_ALL[SHARED:], OWN)


def shared() -> DefinitionSource:
    """Returns the source of the tools that all tenants share."""
    tools(0)
    return DefinitionSource(
        "shared", [replace(tool, source="shared") for tool in _ALL[:SHARED]], origin="the benchmark"
    )


def runtime(folder: Path, most: int) -> Runtime:
    """Returns a runtime of all tenants, which keeps so many catalogs open."""
    settings = Settings(tenants=TenantSettings(folder=str(folder), open=most))
    return Runtime(provider=ScriptedProvider([]), sources=[shared()], tenants=tenants_of(settings, Registry(), Parts()))


def texts(number: int) -> Iterator[str]:
    """Yields requests for the tools of a tenant."""
    dice = random.Random(-number)
    own = tools(number)
    while True:
        yield f"please {dice.choice(own).description.lower()} and tell me whether it worked"
