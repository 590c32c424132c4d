"""MCP servers that get killed, stalled and restarted, for `benchmarks.mcp_chaos`. Run as a program, this file is one such server,
made with the official package."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import psutil
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

from tests.free_port import free_port
from toolcaddie.sources.mcp import McpServer

Disturbance = Literal["kill", "stall", "restart"]
DISTURBANCES: tuple[Disturbance, ...] = ("kill", "stall", "restart")
GENERATIONS: tuple[Literal["2025-11-25", "2026-07-28"], ...] = ("2025-11-25", "2026-07-28")


class Blow(msgspec.Struct, frozen=True, kw_only=True):
    """One disturbance: which server, what happens to it, when, and for how long."""

    after: float
    """Seconds since the blow before."""
    server: int
    what: Disturbance
    seconds: float
    """Duration of a stall, or of the time until a killed server is back."""


def blows(chance: random.Random, servers: int, timeout: float) -> Sequence[Blow]:
    """Returns a random plan in which every server is killed, stalled and restarted once."""
    pairs = [(server, what) for server in range(servers) for what in DISTURBANCES]
    chance.shuffle(pairs)
    return [
        Blow(
            after=chance.uniform(0, 0.5),
            server=server,
            what=what,
            seconds=chance.uniform(0.2, 1.5 * timeout) if what == "stall" else chance.uniform(0, 1.0),
        )
        for server, what in pairs
    ]


class Upstream:
    """One server. Over HTTP this object starts its program; over stdio the MCP source does, as in every application."""

    def __init__(self, number: int, timeout: float) -> None:
        self.name = f"chaos{number}"
        self.is_http = number % 2 == 1
        self.protocol = GENERATIONS[number // 2 % 2]
        self._timeout = timeout
        self._port = free_port() if self.is_http else 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def settings(self) -> McpServer:
        common: dict[str, Any] = {
            "name": self.name,
            "protocol": self.protocol,
            "timeout": self._timeout,
            "trusted": True,
            "connect_seconds": 30.0,
        }
        if self.is_http:
            return McpServer(url=f"http://127.0.0.1:{self._port}/mcp", **common)
        return McpServer(command=sys.executable, args=("-m", "benchmarks.chaos_servers", self.name, "stdio"), **common)

    async def start(self) -> None:
        """Starts the program of an HTTP server and waits until it listens."""
        if not self.is_http:
            return
        command = [sys.executable, "-m", "benchmarks.chaos_servers", self.name, str(self._port)]
        self._process = subprocess.Popen(command)  # noqa: ASYNC220  it returns at once
        while self._process.poll() is None:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self._port)
                writer.close()
                await writer.wait_closed()
                return
            await asyncio.sleep(0.05)
        raise RuntimeError(f"the server {self.name} has ended with {self._process.returncode}")

    async def suffer(self, blow: Blow) -> None:
        """Carries out a disturbance. Returns when the server could work again."""
        victim = self._victim()
        if victim is None:  # it is just being started again
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            if blow.what == "stall":
                victim.send_signal(signal.SIGSTOP)
                await asyncio.sleep(blow.seconds)
                victim.send_signal(signal.SIGCONT)
                return
            victim.send_signal(signal.SIGKILL if blow.what == "kill" else signal.SIGTERM)
        if self._process is not None:
            await asyncio.to_thread(self._wait)
            await asyncio.sleep(blow.seconds if blow.what == "kill" else 0)
            await self.start()

    async def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    def _wait(self) -> None:
        """Waits for the end of the program; one that is stopped by SIGSTOP as well cannot end by itself."""
        assert self._process is not None
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _victim(self) -> psutil.Process | None:
        """Returns the process of the server itself, not of its supervisor, which has the same words in its command."""
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if self.name in process.cmdline() and not process.children():
                    return process
        return None


def _serve(name: str, how: str) -> None:
    server = MCPServer(name, log_level="CRITICAL")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def work(ctx: Context[Any, Any], number: int, seconds: float) -> str:
        """Work for some seconds, then repeat the number."""
        await ctx.report_progress(0, 1, "began")
        await asyncio.sleep(seconds)
        await ctx.report_progress(1, 1, "ended")
        return str(number)

    if how == "stdio":
        server.run("stdio")
    else:
        app = server.streamable_http_app()
        uvicorn.run(app, host="127.0.0.1", port=int(how), log_level="critical", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
