"""Real MCP servers for tests: one definition, served over stdio (run this file) or over streamable HTTP, in both generations."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents, ToolAnnotations
from pydantic import BaseModel

HERE = Path(__file__)
PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de")


class Booking(BaseModel):
    seat: str
    price: float


class Wish(BaseModel):
    color: str = "blue"


def make_server(name: str = "upstream") -> MCPServer:
    """Returns a server with one tool of each kind."""
    server = MCPServer(name)

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def book(seat: str) -> Booking:
        """Book a seat."""
        return Booking(seat=seat, price=12.5)

    @server.tool()
    def picture() -> Image:
        """Draw a picture."""
        return Image(data=PIXEL, format="png")

    @server.tool()
    def mixed() -> CallToolResult:
        """Return several parts."""
        resource = TextResourceContents(uri="memo://1", mime_type="text/plain", text="remember")
        return CallToolResult(
            content=[TextContent(text="first"), EmbeddedResource(resource=resource)], structured_content={"n": 1}
        )

    @server.tool()
    async def count(ctx: Context[Any, Any], steps: int, pause: float = 0.0) -> str:
        """Count slowly."""
        for step in range(steps):
            await ctx.report_progress(step + 1, steps, f"step {step + 1}")
            await asyncio.sleep(pause)
        return f"counted to {steps}"

    @server.tool()
    async def wait(seconds: float) -> str:
        """Wait."""
        marker = os.environ.get("WAIT_MARKER")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if marker:
                Path(marker).write_text("cancelled")  # noqa: ASYNC240  nothing else runs in this program now
            raise
        return "waited"

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("no seats left")

    @server.tool()
    async def wish(ctx: Context[Any, Any]) -> str:
        """Ask the user for a color."""
        answer = await ctx.elicit("Which color?", Wish)
        return f"{answer.action}: {getattr(answer, 'data', None)}"

    @server.tool()
    def environment() -> str:
        """Name the variables."""
        return ",".join(sorted(os.environ))

    @server.tool()
    def spawn() -> str:
        """Start a process that outlives everything."""
        process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        return str(process.pid)

    @server.tool()
    def die() -> str:
        """End the server in the middle of the call."""
        os._exit(3)

    @server.resource("memo://{topic}")
    def memo(topic: str) -> str:
        """A memo about a topic."""
        return f"about {topic}"

    @server.resource("memo://fixed")
    def fixed() -> str:
        """The fixed memo."""
        return "always the same"

    @server.prompt()
    def greet(who: str) -> str:
        """Greet somebody."""
        return f"Say hello to {who}."

    return server


@contextlib.asynccontextmanager
async def serving(server: MCPServer, port: int = 0, **options: Any) -> AsyncIterator[str]:
    """Serves over streamable HTTP on a real socket, and yields the address."""
    # With the protocol named, asyncio turns off the delay of small writes.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    app = server.streamable_http_app(**options)
    config = uvicorn.Config(app, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
    running = uvicorn.Server(config)
    running.install_signal_handlers = lambda: None  # type: ignore[method-assign]
    task = asyncio.create_task(running.serve(sockets=[listener]))
    while not running.started:  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        running.should_exit = True
        await asyncio.wait({task}, timeout=5)
        listener.close()


if __name__ == "__main__":
    make_server(sys.argv[1] if len(sys.argv) > 1 else "upstream").run("stdio")
