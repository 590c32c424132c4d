"""opencode, as npm installs it, with 200 tools of an MCP server of its own, against the gateway."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients.programs import ROOT
from tests.clients.server import Stage, names_of
from toolcaddie.testing import call, say

AGENTS = Path(__file__).parent / "agents"
OPENCODE = AGENTS / "node_modules" / ".bin" / "opencode"
PAGE = ROOT / "docs" / "coding-agents.md"
TASK = "cancel the shipment 77 and archive its invoice; order.txt names it"


def settings_of_the_page(stage: Stage, calls: Path) -> str:
    """The page's `opencode.json`, with the addresses of this test."""
    (text,) = re.findall(r"^```json opencode\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    settings = json.loads(text.replace("http://127.0.0.1:8321/v1", stage.base_url))
    settings["mcp"]["office"]["command"] = [sys.executable, str(AGENTS / "office.py"), str(calls)]
    return json.dumps(settings)


def test_opencode_finishes_a_task_with_a_file_tool_and_two_mcp_tools(stage: Stage, tmp_path: Path) -> None:
    if not OPENCODE.exists():
        pytest.skip(f"{OPENCODE.relative_to(ROOT)} is not there; `make clients` installs it")
    order, calls, settings = tmp_path / "order.txt", tmp_path / "calls", tmp_path / "opencode.json"
    order.write_text("Invoice 5 belongs to shipment 77.\n")
    settings.write_text(settings_of_the_page(stage, calls))

    def answer(body: Any) -> Any:
        if not names_of(body):
            return say("A title")
        steps = (
            call("read", {"filePath": str(order)}),
            call("office_cancel_shipment", {"id": "77"}),
            call("office_archive_invoice", {"id": "5"}),
            say("All done."),
        )
        return steps[sum(message["role"] == "tool" for message in body["messages"])]

    stage.plays(*[answer] * 8)
    folders = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "CACHE", "STATE")}
    quiet = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    done = subprocess.run(
        [OPENCODE, "run", TASK],
        cwd=tmp_path,
        env={**os.environ, **folders, **quiet, "PWD": str(tmp_path), "OPENCODE_CONFIG": str(settings)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert "All done." in done.stdout, done.stderr
    assert [json.loads(line) for line in calls.read_text().splitlines()] == [
        ["cancel_shipment", {"id": "77"}],
        ["archive_invoice", {"id": "5"}],
    ]
    for body in filter(names_of, stage.bodies):
        assert {"read", "bash", "todowrite", "task", "office_cancel_shipment"} <= set(names_of(body))
        assert len(names_of(body)) < 60
