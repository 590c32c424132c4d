"""A server of the newer generation that is slow to answer its first question is not taken for one of the older generation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mcp.client import session

from toolcaddie.sources.mcp.server import McpServer
from toolcaddie.sources.mcp.source import McpSource

pytestmark = pytest.mark.anyio

SLOW = """
import json, sys, time
def send(id, **answer): print(json.dumps({"jsonrpc": "2.0", "id": id, **answer}), flush=True)
INFO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "slow", "version": "1"}, "resultType": "complete"}
asked = 0
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "server/discover":
        asked += 1
        if asked < 3:
            time.sleep(0.3)
        send(id, result={"supportedVersions": ["2026-07-28"], **INFO})
    elif method == "initialize":
        data = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        send(id, error={"code": -32022, "message": "already modern", "data": data})
    elif method == "tools/list":
        tools = [{"name": "do", "inputSchema": {"type": "object"}}]
        send(id, result={"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
"""


async def test_a_server_that_answers_late_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "DISCOVER_TIMEOUT_SECONDS", 0.1)
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    source = McpSource(McpServer(name="slow", command=sys.executable, args=("-u", str(script)), connect_seconds=30))
    await source.open()
    try:
        assert [tool.original or tool.name for tool in source.tools()] == ["do"]
    finally:
        await source.close()
