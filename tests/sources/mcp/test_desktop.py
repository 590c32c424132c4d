"""Files of desktop clients, and the commands around MCP servers."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.sources.mcp.upstream import HERE
from toolcaddie.app.settings import load_settings
from toolcaddie.core.errors import ConfigError
from toolcaddie.doors.cli import cli
from toolcaddie.sources.mcp.desktop import as_toml, read_servers
from toolcaddie.sources.named import mcp_settings

FILE = {
    "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "server-files", "/tmp"], "env": {"MODE": "ro", "API_KEY": "s3cret"}},
        "my tickets": {
            "type": "http",
            "url": "https://tickets.example.com/mcp",
            "headers": {"Authorization": "Bearer abc", "X-Team": "blue"},
            "autoApprove": ["x"],
        },
        "off": {"command": "x", "disabled": True},
        "broken": {"args": []},
    }
}


def test_servers_of_a_desktop_client_become_tables(tmp_path: Path) -> None:
    imported = read_servers(json.dumps(FILE).encode(), place="mcp.json")
    text = as_toml(imported.tables)
    files, tickets = tomllib.loads(text)["source"]
    assert files == {
        "type": "mcp",
        "name": "files",
        "command": "npx",
        "args": ["-y", "server-files", "/tmp"],
        "env": {"MODE": "ro"},
        "env_from": {"API_KEY": "API_KEY"},
    }
    assert tickets["name"] == "my-tickets"
    assert tickets["headers_from"] == {"Authorization": "MY_TICKETS_AUTHORIZATION"}
    assert imported.variables == ("API_KEY", "MY_TICKETS_AUTHORIZATION")
    assert "s3cret" not in text
    assert "Bearer abc" not in text
    remarks = "\n".join(imported.remarks)
    assert "'autoApprove' has no counterpart" in remarks
    assert "off: omitted, because it is disabled" in remarks
    assert "broken: omitted, because it has neither a command nor a url" in remarks
    path = tmp_path / "toolcaddie.toml"
    path.write_text(text)
    assert [part.type for part in load_settings(path, environ={}).source] == ["mcp", "mcp"]


CLIENTS = {
    "claude-desktop": (
        '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "server"]}}}',
        {"args": ["-y", "server"]},
    ),
    "cline": ('{"mcpServers": {"files": {"command": "npx", "disabled": false, "alwaysAllow": ["a"]}}}', {}),
    "windsurf": (
        '{"mcpServers": {"files": {"serverUrl": "https://a.example/mcp"}}}',
        {"url": "https://a.example/mcp", "command": None, "args": None},
    ),
    "vscode": (
        """{
        // comments and superfluous commas are usual here
        "inputs": [{"id": "api-key", "type": "promptString", "password": true}],
        "servers": {"files": {"type": "stdio", "command": "npx", "env": {"API_KEY": "${input:api-key}", "U": "http://x"},}},
        }""",
        {"env": {"U": "http://x"}, "env_from": {"API_KEY": "api_key"}},
    ),
    "vscode-settings": ('{"mcp": {"servers": {"files": {"command": "npx"}}}}', {}),
    "opencode": (
        '{"mcp": {"files": {"type": "local", "command": ["npx", "server"], "enabled": true, '
        '"environment": {"A_TOKEN": "{env:MINE}"}}}}',
        {"args": ["server"], "env_from": {"A_TOKEN": "MINE"}},
    ),
    "zed": ('{"context_servers": {"files": {"source": "custom", "command": "npx", "args": ["a"]}}}', {"args": ["a"]}),
    "zed-older": ('{"context_servers": {"files": {"command": {"path": "npx", "args": ["a"]}}}}', {"args": ["a"]}),
    "codex": (
        '[mcp_servers.files]\ncommand = "npx"\nargs = ["a"]\nenv = { MODE = "ro" }',
        {"args": ["a"], "env": {"MODE": "ro"}},
    ),
    "codex-http": (
        '[mcp_servers.files]\nurl = "https://a.example/mcp"\nbearer_token_env_var = "T"\nenv_http_headers = { "X-A" = "B" }',
        {"url": "https://a.example/mcp", "token_env": "T", "headers_from": {"X-A": "B"}, "command": None, "args": None},
    ),
}


@pytest.mark.parametrize(("text", "more"), CLIENTS.values(), ids=CLIENTS)
def test_the_file_of_each_client_can_be_read(text: str, more: dict[str, Any], tmp_path: Path) -> None:
    [table] = read_servers(text.encode(), place="file").tables
    expected = {"type": "mcp", "name": "files", "command": "npx", "args": [], **more}
    assert table == {key: value for key, value in expected.items() if value is not None}
    (tmp_path / "toolcaddie.toml").write_text(as_toml([table]))
    assert len(load_settings(tmp_path / "toolcaddie.toml", environ={}).source) == 1


def test_a_placeholder_in_an_argument_is_named() -> None:
    text = b'{"servers": {"files": {"command": "npx", "args": ["${workspaceFolder}/a"]}}}'
    [remark] = read_servers(text, place="mcp.json").remarks
    assert "the argument '${workspaceFolder}/a' has a placeholder of the client" in remark


def test_servers_are_not_appended_over_others_of_their_name(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"files": {"command": "npx"}}}')
    settings = tmp_path / "toolcaddie.toml"
    words = ["import", str(tmp_path / "mcp.json"), "--append", str(settings)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    before = settings.read_text()
    again = CliRunner().invoke(cli, words)
    assert again.exit_code == 2
    assert "already has the source 'files', so nothing was added" in again.stderr
    assert settings.read_text() == before


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"a": 1}'], ids=["json", "list", "other"])
def test_a_file_without_servers_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError, match=r"mcp\.json"):
        read_servers(text, place="mcp.json")


@pytest.mark.parametrize(
    ("target", "settings"),
    [
        ("https://a.example.com/mcp", {"name": "a-example-com", "url": "https://a.example.com/mcp"}),
        (
            "npx -y @x/server-files '/a b'",
            {"name": "server-files", "command": "npx", "args": ("-y", "@x/server-files", "/a b")},
        ),
        ("python srv.py", {"name": "srv", "command": "python", "args": ("srv.py",)}),
    ],
    ids=["url", "npx", "python"],
)
def test_short_forms_name_a_server(target: str, settings: dict[str, Any]) -> None:
    assert mcp_settings(target) == settings


def test_the_commands_show_and_accept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("toolcaddie.toml").write_text(
        f'[[source]]\ntype = "mcp"\nname = "up"\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(HERE))}]\n'
        '[[source]]\ntype = "mcp"\nname = "gone"\nurl = "http://127.0.0.1:9/mcp"\n'
    )
    runner = CliRunner()
    result = runner.invoke(cli, ["mcp", "status", "--json"])
    servers = json.loads(result.stdout)["servers"]
    assert [(each["name"], each["state"]) for each in servers] == [("up", "connected"), ("gone", "failed")]
    assert servers[0]["tools"] == 11
    assert "'gone'" in servers[1]["reason"]
    assert result.exit_code == 1
    assert "nothing is in quarantine" in runner.invoke(cli, ["mcp", "accept", "up"]).output
    assert "did you mean 'up'" in runner.invoke(cli, ["mcp", "accept", "upp"]).output
    listed = runner.invoke(cli, ["tools", "--json"])
    tools = json.loads(listed.stdout)["tools"]
    assert {tool["source"] for tool in tools} == {"up"}
    assert "source_failed" in listed.output
