"""Measures the constants of `toolcaddie eval capacity`: python -m benchmarks.replicas.constants [--requests 200] > constants.toml

A world of one server on PostgreSQL behind nginx is made for each size of the catalog, and requests of each kind are sent one
after another. The file is printed; `toolcaddie eval capacity --constants FILE` reads it.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from benchmarks.replicas.account import cpu_of
from benchmarks.replicas.calibration import calibrations, idle_use, warm
from benchmarks.replicas.committing import measured_commit
from benchmarks.replicas.kinds import KINDS, components
from benchmarks.replicas.many_tools import COUNT
from benchmarks.replicas.model import request_text
from benchmarks.replicas.served_model import ServedModel, served_model
from benchmarks.replicas.world import World
from toolcaddie.core.control import Principal
from toolcaddie.evaluation.capacity.constants import Commit, Constants, Memory, Size
from toolcaddie.storage.database import MOST_CONNECTIONS, Database

_SIZES = (2, 300, 1_000)
_OWN_TOOLS = 2
"""Tools that the scripted model calls."""
_TENANTS = 100
_MEGABYTE = 1e6


async def run(requests: int) -> Constants:
    with tempfile.TemporaryDirectory(prefix="toolcaddie-constants-") as folder, served_model() as model:
        sizes, memory, variations, commit = [], [], [], None
        for tools in _SIZES:
            print(f"{tools} tools ...", file=sys.stderr, flush=True)
            world = world_of(Path(folder) / f"tools-{tools}", model, tools, count=1)
            try:
                world.start()
                await warm(world)
                commit = commit or await commit_of(world, model)
                idle, _ = await idle_use(world, model)
                by_kind = await calibrations(world, model, list(KINDS), requests, commit=commit, idle=idle)
                sizes.append(Size(tools=tools, costs=components({kind: each.cost for kind, each in by_kind.items()})))
                variations += [each.variation for each in by_kind.values()]
                memory.append(world.replicas[0].uses()[0] / _MEGABYTE)
            finally:
                world.end()
        assert commit is not None
        return Constants(
            command=f"python -m benchmarks.replicas.constants --requests {requests}",
            machine=f"{psutil.cpu_count()} cores {platform.machine()}, Python {platform.python_version()}",
            connections=MOST_CONNECTIONS,
            variation=statistics.median(variations),
            commit=commit,
            memory=Memory(
                process_mb=memory[0],
                thousand_tools_mb=max(0.0, (memory[-1] - memory[0]) / (_SIZES[-1] - _SIZES[0]) * 1e3),
                tenant_mb=await _tenant_memory(Path(folder) / "tenants", model),
            ),
            sizes=tuple(sizes),
        )


def world_of(folder: Path, model: ServedModel, tools: int, *, count: int) -> World:
    """Returns a world whose servers have a catalog of `tools` tools."""
    more = {COUNT: str(tools - _OWN_TOOLS)} if tools > _OWN_TOOLS else {}
    return World(folder, model.base_url, count=count, **more)


async def commit_of(world: World, model: ServedModel) -> Commit:
    """Returns the costs of a commit in the database of a world."""
    commit, _ = await measured_commit(world.postgres, lambda: cpu_of(world, model)["database"])
    return commit


async def _tenant_memory(folder: Path, model: ServedModel) -> float:
    """Returns the megabytes by which a server grows with each tenant whose key is used."""
    world = world_of(folder, model, _SIZES[1], count=1)
    try:
        world.start()
        async with Database(world.postgres.url) as database:
            secrets = [
                (await database.keys.add(f"key {number}", Principal(id="ann", tenant=f"tenant-{number}")))[1]
                for number in range(2 * _TENANTS)
            ]
        await _ask(world, secrets[:1] * _TENANTS + secrets[:_TENANTS])  # until the server has what every request needs
        before = world.replicas[0].uses()[0]
        await _ask(world, secrets[_TENANTS:])
        return max(0, world.replicas[0].uses()[0] - before) / _MEGABYTE / _TENANTS
    finally:
        world.end()


async def _ask(world: World, secrets: Sequence[str]) -> None:
    async with aiohttp.ClientSession() as session:
        for secret in secrets:
            message = {"role": "user", "content": request_text("tenant", "chat")}
            body = {"model": "gpt-test", "messages": [message]}
            headers = {"authorization": f"Bearer {secret}"}
            async with session.post(f"{world.address}/v1/chat/completions", json=body, headers=headers) as response:
                answer = await response.read()
            if response.status != 200:
                raise RuntimeError(f"{response.status}: {answer[:500]!r}")


def toml(constants: Constants) -> str:
    """Returns the file of the constants."""
    values = asdict(constants)
    lines = [
        "# The costs from which `toolcaddie eval capacity` computes, as `command` measured them. CPU, time and lock are in",
        "# milliseconds. toolcaddie/evaluation/capacity/constants.py explains each name.",
        *_lines({name: values[name] for name in ("command", "machine", "connections", "variation")}),
        *("", "[commit]", *_lines(values["commit"])),
        *("", "[memory]", *_lines(values["memory"])),
    ]
    for size in values["sizes"]:
        lines += ["", "[[sizes]]", f"tools = {size['tools']}", "", "[sizes.costs]"]
        for name, cost in size["costs"].items():
            lines.append(f"{name} = {{ {', '.join(_lines(cost))} }}")
    return "\n".join(lines) + "\n"


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in values.items()]


def _value(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value}" if isinstance(value, int) else f"{value:.4f}".rstrip("0").rstrip(".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200, help="requests of each kind, with each catalog")
    arguments = parser.parse_args()
    print(toml(asyncio.run(run(arguments.requests))), end="")


if __name__ == "__main__":
    main()
