"""Our MCP server behind our own MCP source, three levels deep, each level a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from pathlib import Path

import pytest

from tests.databases import database_url
from tests.doors.processes import serving as serve_in
from tests.sources.mcp.using import GENERATIONS, context
from toolcaddie.sources.mcp import McpServer, McpSource

pytestmark = pytest.mark.anyio

TOOLS = '''
import asyncio, pathlib
from toolcaddie import RunContext, tool

@tool(read_only=True)
async def count(steps: int, run: RunContext) -> dict:
    """Count."""
    for step in range(steps):
        await run.report_progress(step + 1, steps, f"step {step + 1}")
    return {"counted": steps}

@tool
async def wait(marker: str) -> str:
    """Wait."""
    pathlib.Path(marker + ".began").write_text("x")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        pathlib.Path(marker).write_text("cancelled")
        raise
    return "waited"
'''


async def test_progress_results_and_cancellation_pass_three_levels(tmp_path: Path) -> None:
    (tmp_path / "deeptools.py").write_text(TOOLS)
    urls = [database_url(tmp_path / f"{level}.sqlite") for level in range(4)]
    (tmp_path / "level1.toml").write_text(f'catalogs = ["python:deeptools"]\ndatabase_url = "{urls[1]}"\n')
    for level in (2, 3):
        arguments = ["-m", "toolcaddie", "--config", f"level{level - 1}.toml", "mcp", "serve", "--mode", "all"]
        (tmp_path / f"level{level}.toml").write_text(
            f'database_url = "{urls[level]}"\n[[source]]\ntype = "mcp"\nname = "up"\nprefix = ""\ntrusted = true\n'
            f"connect_seconds = 60.0\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(arguments)}\n"
        )
    top = McpServer(
        name="top",
        prefix="",
        trusted=True,
        command=sys.executable,
        args=("-m", "toolcaddie", "--config", "level3.toml", "mcp", "serve", "--mode", "all"),
        cwd=str(tmp_path),
        connect_seconds=60,
    )
    await _passes(top, tmp_path)


async def test_progress_results_and_cancellation_pass_three_levels_over_http(tmp_path: Path) -> None:
    """The generations of the protocol take turns from level to level."""
    (tmp_path / "deeptools.py").write_text(TOOLS)
    with contextlib.ExitStack() as running:
        settings = 'catalogs = ["python:deeptools"]\n'
        for level, protocol in ((1, GENERATIONS[0]), (2, GENERATIONS[1]), (3, GENERATIONS[0])):
            home = tmp_path / f"level{level}"
            home.mkdir()
            (home / "toolcaddie.toml").write_text(settings)
            words = ("--mcp-mode", "all")
            server = await asyncio.to_thread(running.enter_context, serve_in(home, *words, PYTHONPATH=str(tmp_path)))
            url = server.base_url.removesuffix("/v1") + "/mcp"
            settings = (
                f'[[source]]\ntype = "mcp"\nname = "up"\nprefix = ""\ntrusted = true\nconnect_seconds = 60.0\n'
                f"url = {json.dumps(url)}\nprotocol = {json.dumps(protocol)}\n"
            )
        top = McpServer(name="top", prefix="", trusted=True, url=url, protocol="2025-11-25", connect_seconds=60)
        await _passes(top, tmp_path)


async def _passes(top: McpServer, folder: Path) -> None:
    """Checks that the server at the top has the tools of the lowest level, and passes progress up and cancellation down."""
    steps: list[str] = []

    async def listen(done: float, total: float | None, message: str) -> None:
        steps.append(f"{done:g}/{total:g} {message}")

    source = McpSource(top)
    await source.open()
    try:
        tools = {tool.name: tool for tool in source.tools()}
        result = await source.call_tool(tools["count"], {"steps": 2}, context(on_progress=listen))
        assert (result.structured, result.is_error) == ({"counted": 2}, False)
        assert steps == ["1/2 step 1", "2/2 step 2"]
        assert tools["count"].annotations.read_only is True
        marker = folder / "marker"
        call = asyncio.create_task(source.call_tool(tools["wait"], {"marker": str(marker)}, context()))
        await _exists(folder / "marker.began")
        call.cancel()
        await asyncio.wait({call})
        await _exists(marker)
    finally:
        await source.close()


async def _exists(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():  # noqa: ASYNC240  another process writes it
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
