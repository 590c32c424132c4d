"""The cost of calling a tool through the MCP door instead of directly: python -m benchmarks mcp_door

The protocol's own client calls the same function in five ways, in turns: on a server of the package `mcp` alone, through a bare
proxy of that package in front of it, through a door that has the function itself, and through two doors in front of that server,
one of which trusts its annotations. Every server is a process of its own. The figures are milliseconds of a call: p50 and p99,
and how much more the p50 is than that of the server alone. The goal is less than 2. A call through a proxy, or through a door in
front of a server, includes a whole second call of the protocol.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from mcp import Client, StdioServerParameters

from benchmarks import servers
from benchmarks.mcp_calls import ARGUMENTS, COMMAND, GOAL, PROTOCOLS, http_server, mode_of
from toolcaddie import tool

ALONE = "server alone"
PROXY = "bare proxy"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One way to call the function, by one transport and one generation of the protocol."""

    transport: str
    protocol: str
    way: str
    p50: float
    p99: float
    overhead: float


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def main(arguments: Sequence[str]) -> Sequence[Row]:
    """Prints the table and returns its rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks mcp_door")
    parser.add_argument("--quick", action="store_true")
    calls = 100 if parser.parse_args(arguments).quick else 1_000
    rows = asyncio.run(_measured(calls))
    print(f"{'':<40}{'p50 ms':>9}{'p99':>8}{'overhead':>10}")
    for row in rows:
        verdict = "" if row.way in (ALONE, PROXY) else f"  goal < {GOAL:g} {'met' if row.overhead < GOAL else 'MISSED'}"
        name = f"{row.transport} {row.protocol}, {row.way}"
        print(f"{name:<40}{row.p50:>9.2f}{row.p99:>8.2f}{row.overhead:>10.2f}{verdict}")
    return rows


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that the rows miss."""
    return [
        f"{row.transport} {row.protocol}, {row.way}: {row.overhead:.2f} ms"
        for row in rows
        if row.way not in (ALONE, PROXY) and row.overhead >= GOAL
    ]


async def _measured(calls: int) -> list[Row]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = stack.enter_context(http_server())
        program = {"command": COMMAND[0], "args": list(COMMAND[1:])}
        doors = {way: _settings(folder, f"{way} http", entries) for way, entries in _ways({"url": url}).items()}
        proxy = stack.enter_context(http_server("benchmarks.mcp_proxy", url))
        http = {ALONE: url, PROXY: proxy, **{way: _http_door(stack, path) for way, path in doors.items()}}
        doors = {way: _settings(folder, f"{way} stdio", entries) for way, entries in _ways(program).items()}
        before = StdioServerParameters(command=COMMAND[0], args=["-m", "benchmarks.mcp_proxy", "stdio", *COMMAND])
        stdio = {
            ALONE: StdioServerParameters(**program),
            PROXY: before,
            **{way: _stdio_door(path) for way, path in doors.items()},
        }
        return [
            row
            for transport, targets in (("stdio", stdio), ("http", http))
            for protocol in PROTOCOLS
            for row in await _compared(transport, protocol, targets, calls)
        ]


def _ways(upstream: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Returns the source of each door. A server that is not trusted counts as able to destroy, so each call waits until its
    intent is on the disk."""
    server = {"type": "mcp", "name": "b", **upstream}
    return {
        "function": {"type": "python", "target": "benchmarks.mcp_door"},
        "upstream, trusted": {**server, "trusted": True},
        "upstream": server,
    }


def _settings(folder: str, name: str, source: Mapping[str, Any]) -> Path:
    path = Path(folder) / f"{name}.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in source.items()]
    path.write_text("\n".join(["[[source]]", *lines, ""]))
    return path


def _http_door(stack: contextlib.ExitStack, settings: Path) -> str:
    before, options = ("--config", str(settings)), ("--mcp-mode", "all", "--approve", "run")
    server = stack.enter_context(servers.toolcaddie(before=before, options=options))
    return f"{server.base_url.removesuffix('/v1')}/mcp"


def _stdio_door(settings: Path) -> StdioServerParameters:
    database = f"sqlite:///{settings.with_suffix('.sqlite')}"
    words = ["-m", "toolcaddie", "--config", str(settings), "mcp", "serve", "--mode", "all", "--approve", "run"]
    words += ["--database-url", database]
    return StdioServerParameters(command=sys.executable, args=words)


async def _compared(transport: str, protocol: str, targets: Mapping[str, Any], calls: int) -> list[Row]:
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            way: await stack.enter_async_context(Client(target, mode=mode_of(protocol)))
            for way, target in targets.items()
        }
        names = {way: await _name_of(client) for way, client in clients.items()}
        times: dict[str, list[float]] = {way: [] for way in clients}
        for number in range(calls + 10):
            for way, client in list(clients.items())[:: 1 if number % 2 else -1]:
                started = time.perf_counter()
                result = await client.call_tool(names[way], ARGUMENTS)
                times[way].append((time.perf_counter() - started) * 1e3)
                assert not result.is_error, result
    centiles = {way: statistics.quantiles(each[10:], n=100) for way, each in times.items()}
    alone = centiles[ALONE][49]
    return [
        Row(transport=transport, protocol=protocol, way=way, p50=each[49], p99=each[98], overhead=each[49] - alone)
        for way, each in centiles.items()
    ]


async def _name_of(client: Client) -> str:
    """Returns the name that the server gives to the function."""
    return next(tool.name for tool in (await client.list_tools()).tools if tool.name.endswith("add"))
