"""codex, as npm installs it, with 200 tools of an MCP server of its own, against the gateway."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients.programs import ROOT
from tests.clients.server import Stage, serving
from toolcaddie.testing import ResponsesWire, call, calls, say

AGENTS = Path(__file__).parent / "agents"
CODEX = AGENTS / "node_modules" / ".bin" / "codex"
PAGE = ROOT / "docs" / "coding-agents.md"
TASK = "cancel the shipment 77 and archive its invoice; order.txt names it. Note the outcome in done.txt."
PATCH = "*** Begin Patch\n*** Add File: done.txt\n+cancelled and archived\n*** End Patch\n"

pytestmark = pytest.mark.skipif(
    not CODEX.exists(), reason=f"{CODEX.relative_to(ROOT)} is not there; `make clients` installs it"
)


@pytest.fixture(params=["chat", "responses"])
def office(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The gateway, with an upstream that has only chat completions, or only the Responses API."""
    wire = ResponsesWire() if request.param == "responses" else None
    with serving(tmp_path_factory.mktemp("codex"), wire=wire) as stage:
        yield stage
        assert stage.upstream.refusals == []


def settings_of_the_page(stage: Stage, log: Path) -> str:
    """The page's `config.toml`, with the addresses of this test."""
    (text,) = re.findall(r"^```toml codex\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    text = text.replace("http://127.0.0.1:8321/v1", stage.base_url)
    text = text.replace('command = "python"', f"command = {json.dumps(sys.executable)}")
    return text.replace('args = ["office.py"]', f"args = {json.dumps([str(AGENTS / 'office.py'), str(log)])}")


def codex(stage: Stage, folder: Path, *words: str) -> Sequence[dict[str, Any]]:
    """Runs codex with the task; gives its events."""
    home = folder / "home"
    home.mkdir()
    (home / "config.toml").write_text(settings_of_the_page(stage, folder / "calls"))
    (folder / "order.txt").write_text("Invoice 5 belongs to shipment 77.\n")
    done = subprocess.run(
        [CODEX, "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", *words, TASK],
        cwd=folder,
        env={**os.environ, "CODEX_HOME": str(home), "TOOLCADDIE_KEY": "none"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def names_in(body: Any) -> set[str]:
    """The names of the tools in a request, those of a namespace as the upstream's script calls them."""
    names = set()
    for tool in body.get("tools", ()):
        if tool["type"] == "namespace":
            names |= {f"{tool['name']}.{member['name']}" for member in tool["tools"]}
        elif "function" in tool or "name" in tool:
            names.add(tool.get("function", tool)["name"])
    return names


def office_tool(stage: Stage, name: str) -> str:
    """The name by which the model calls a tool of the MCP server."""
    return f"mcp__office{'.' if isinstance(stage.upstream.wire, ResponsesWire) else '__'}{name}"


def test_codex_finishes_a_task_with_a_shell_tool_and_two_mcp_tools(office: Stage, tmp_path: Path) -> None:
    cancel, archive = office_tool(office, "cancel_shipment"), office_tool(office, "archive_invoice")
    office.plays(
        call("exec_command", {"cmd": "cat order.txt"}),
        calls((cancel, {"id": "77"}), (archive, {"id": "5"})),
        call("exec_command", {"cmd": "echo done > done.txt"}),
        say("All done."),
    )
    events = codex(office, tmp_path)
    assert [event["item"]["text"] for event in events if event.get("item", {}).get("type") == "agent_message"] == [
        "All done."
    ]
    assert (tmp_path / "done.txt").read_text() == "done\n"
    assert sorted(json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()) == [
        ["archive_invoice", {"id": "5"}],
        ["cancel_shipment", {"id": "77"}],
    ]
    for body in office.bodies:
        assert {"exec_command", "write_stdin", "view_image", cancel} <= names_in(body)
        assert len(names_in(body)) < 60


def test_codex_patches_a_file_and_finds_deferred_mcp_tools_by_a_search(office: Stage, tmp_path: Path) -> None:
    """For a model of OpenAI, codex defers the tools of its MCP servers, and sends `apply_patch` as a `custom` tool."""
    cancel = office_tool(office, "cancel_shipment")
    office.plays(
        call("tool_search", {"query": "cancel shipment"}),
        call(cancel, {"id": "77"}),
        call("apply_patch", {"input": PATCH}),
        say("All done."),
    )
    codex(office, tmp_path, "--model", "gpt-5.5")
    assert (tmp_path / "done.txt").read_text() == "cancelled and archived\n"
    assert json.loads((tmp_path / "calls").read_text()) == ["cancel_shipment", {"id": "77"}]
    first, second, *_ = office.bodies
    assert {"exec_command", "apply_patch"} <= names_in(first)
    assert cancel not in names_in(first)
    assert (cancel in names_in(second)) == ("messages" in second)
