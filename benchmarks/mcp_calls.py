"""The cost of calling a tool of an MCP server through the MCP source: python -m benchmarks mcp_calls

The same server, a process of its own, is called by the protocol's own client and by the source, in turns. The figures are
milliseconds of a call: p50 and p99 of both, and the difference of the p50, whose goal is less than 2.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from tests.free_port import free_port
from toolcaddie.core.catalog import Catalog, View
from toolcaddie.core.control import Principal
from toolcaddie.core.run import RunContext
from toolcaddie.sources.mcp import McpServer, McpSource

GOAL = 2.0
"""Goal: less than this many milliseconds more than a direct call."""
PROTOCOLS = ("2025-11-25", "2026-07-28")
ARGUMENTS = {"a": 2, "b": 3}
COMMAND = (sys.executable, "-m", "benchmarks.mcp_calls", "stdio")
"""Starts the server over stdio."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One transport and one generation of the protocol."""

    transport: str
    protocol: str
    direct: float
    direct_p99: float
    source: float
    source_p99: float
    overhead: float


def main(arguments: Sequence[str]) -> Sequence[Row]:
    """Prints the table and returns its rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks mcp_calls")
    parser.add_argument("--quick", action="store_true")
    calls = 100 if parser.parse_args(arguments).quick else 1_000
    rows = asyncio.run(_measured(calls))
    print(f"{'':<24}{'direct p50':>12}{'p99':>8}{'source p50':>12}{'p99':>8}{'overhead':>10}")
    for row in rows:
        print(
            f"{row.transport + ' ' + row.protocol:<24}{row.direct:>12.2f}{row.direct_p99:>8.2f}{row.source:>12.2f}"
            f"{row.source_p99:>8.2f}{row.overhead:>10.2f}  goal < {GOAL:g} {'met' if row.overhead < GOAL else 'MISSED'}"
        )
    return rows


def missed(rows: Sequence[Row]) -> list[str]:
    """Returns the goals that the rows miss."""
    return [f"{row.transport} {row.protocol}: {row.overhead:.2f} ms" for row in rows if row.overhead >= GOAL]


async def _measured(calls: int) -> list[Row]:
    rows = []
    command, *words = COMMAND
    with http_server() as url:
        for protocol in PROTOCOLS:
            stdio = StdioServerParameters(command=command, args=words)
            program = McpServer(name="b", command=command, args=tuple(words), protocol=protocol)
            rows.append(await _compared("stdio", protocol, stdio, program, calls))
            address = McpServer(name="b", url=url, protocol=protocol)
            rows.append(await _compared("http", protocol, url, address, calls))
    return rows


async def _compared(transport: str, protocol: str, target: Any, server: McpServer, calls: int) -> Row:
    source = McpSource(server)
    await source.open()
    [tool] = source.tools()
    context = RunContext(run_id="b", principal=Principal(), view=View(catalog=Catalog.of(())), model="none")
    async with Client(target, mode=mode_of(protocol)) as client:
        await client.list_tools()

        async def direct() -> None:
            assert not (await client.call_tool("add", ARGUMENTS)).is_error

        async def through_source() -> None:
            assert not (await source.call_tool(tool, dict(ARGUMENTS), context)).is_error

        direct_times, source_times = await _in_turns(direct, through_source, calls)
    await source.close()
    one, other = statistics.quantiles(direct_times, n=100), statistics.quantiles(source_times, n=100)
    return Row(
        transport=transport,
        protocol=protocol,
        direct=one[49],
        direct_p99=one[98],
        source=other[49],
        source_p99=other[98],
        overhead=other[49] - one[49],
    )


def mode_of(protocol: str) -> Any:
    """Returns the mode of the client for a generation of the protocol."""
    return "legacy" if protocol.startswith("2025") else protocol


async def _in_turns(
    one: Callable[[], Awaitable[None]], other: Callable[[], Awaitable[None]], calls: int
) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(calls):
        for place in (0, 1) if number % 2 else (1, 0):
            started = time.perf_counter()
            await (one, other)[place]()
            times[place].append((time.perf_counter() - started) * 1e3)
    return times


@contextmanager
def http_server(module: str = "benchmarks.mcp_calls", *words: str) -> Iterator[str]:
    """Starts a module as a server over HTTP, given its port and `words`. Yields the address."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", module, str(port), *words])
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(10)


def _serve(how: str) -> None:
    server = MCPServer("bench")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    if how == "stdio":
        server.run("stdio")
    else:
        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(how), log_level="critical")


if __name__ == "__main__":
    _serve(sys.argv[1])
