"""Reads the settings files of different clients, and brings their ways to describe an MCP server into one form, which `desktop`
turns into tables: Claude Desktop, Cursor, Cline and Windsurf (`mcpServers`), VS Code (`servers`), opencode (`mcp`), Zed
(`context_servers`) and codex (`[mcp_servers.NAME]` in TOML)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcaddie.core.errors import ConfigError

_LISTS = ("mcpServers", "servers", "mcp_servers", "mcp", "context_servers")
_COMMENTS = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMAS = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')
_OTHER_NAMES = {
    "serverUrl": "url",  # Windsurf
    "httpUrl": "url",
    "environment": "env",  # opencode
    "http_headers": "headers",  # codex
    "env_http_headers": "headers_from",
    "bearer_token_env_var": "token_env",
    "transport": "type",
    "transportType": "type",
}


def document_of(text: bytes, *, place: str) -> Any:
    """Returns the value of a settings file: JSON, also with comments and superfluous commas, or TOML. Raises `ConfigError`."""
    text = text.removeprefix(b"\xef\xbb\xbf")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        problem = error
    try:
        plain = text.decode()
        if plain.lstrip()[:1] in ("{", "/"):
            return msgspec.json.decode(_LAST_COMMAS.sub(_kept, _COMMENTS.sub(_kept, plain)))
        return tomllib.loads(plain)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{place} is neither JSON nor TOML: {problem}") from error


def _kept(match: re.Match[str]) -> str:
    return match[1] or ""


def servers_of(document: Any) -> Mapping[str, Any] | None:
    """Returns the servers of a file by name; None: it has no list of servers."""
    if not isinstance(document, Mapping):
        return None
    for key in _LISTS:
        value = document.get(key)
        if isinstance(value, Mapping):
            return servers_of(value) or value if key == "mcp" else value
    return None


def server_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a server with the keys that most clients use: command, args, env, cwd, url, headers, type, disabled."""
    server = {_OTHER_NAMES.get(key, key): value for key, value in entry.items()}
    if isinstance(server.get("command"), Mapping):  # older files of Zed
        command = dict(server.pop("command"))
        server["command"] = command.pop("path", None)
        server.update(command)
    if server.get("enabled") is False:
        server["disabled"] = True
    return {key: value for key, value in server.items() if key not in ("enabled", "source")}
