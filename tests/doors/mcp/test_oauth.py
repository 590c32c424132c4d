"""OAuth tokens at the MCP door, checked by introspection at an authorization server on a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.doors.processes import serving

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
RESOURCE = "https://tools.example/mcp"
GOOD = {"active": True, "sub": "ann", "aud": RESOURCE, "scope": "tools more", "role": "boss"}
CLAIMS: dict[str, dict[str, Any]] = {
    "good": GOOD,
    "several": {**GOOD, "aud": ["https://other.example", RESOURCE]},
    "revoked": {"active": False},
    "expired": {**GOOD, "exp": 1},
    "elsewhere": {**GOOD, "aud": "https://other.example"},
    "nowhere": {name: value for name, value in GOOD.items() if name != "aud"},
    "weak": {**GOOD, "scope": "more"},
    "nobody": {name: value for name, value in GOOD.items() if name != "sub"},
    "truthy": {**GOOD, "active": "true"},
}
TOOLS = '''
from toolcaddie import tool

@tool(roles=["boss"], read_only=True)
def payroll() -> str:
    """Show the salaries."""
    return "secret"
'''


@pytest.fixture
def authority(httpserver: HTTPServer) -> HTTPServer:
    def introspect(request: Request) -> Response:
        assert request.authorization is not None
        assert (request.authorization.username, request.authorization.password) == ("toolcaddie", "hush")
        (token,) = parse_qs(request.get_data(as_text=True))["token"]
        return Response(json.dumps(CLAIMS.get(token, {"active": False})), content_type="application/json")

    httpserver.expect_request("/introspect", method="POST").respond_with_handler(introspect)
    return httpserver


@pytest.fixture
def door(authority: HTTPServer, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "boss_tools.py").write_text(TOOLS)
    (tmp_path / "toolcaddie.toml").write_text(
        f"""
catalogs = ["python:boss_tools"]
[mcp]
mode = "all"
url = "{RESOURCE}"
authorization_servers = ["https://login.example"]
introspection_url = "{authority.url_for("/introspect")}"
client_id = "toolcaddie"
client_secret_env = "MCP_SECRET"
scopes = ["tools"]
role_claim = "role"
"""
    )
    with serving(tmp_path, MCP_SECRET="hush") as server:
        yield server.base_url.removesuffix("/v1")


def _asked(door: str, token: str | None) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    }
    headers = {**HEADERS, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    return httpx2.post(f"{door}/mcp", json={**body, "params": {"_meta": meta}}, headers=headers)


def test_tokens_open_the_door_and_name_the_role(door: str, authority: HTTPServer) -> None:
    for token in ("good", "several"):
        answer = _asked(door, token)
        assert answer.status_code == 200, answer.text
        assert [tool["name"] for tool in answer.json()["result"]["tools"]] == ["payroll", "read_result"]
    _asked(door, "good")
    assert len(authority.log) == 2, "a valid token is not checked at every request"


def test_other_tokens_are_refused_with_the_way_to_a_token(door: str) -> None:
    for token in ("revoked", "expired", "elsewhere", "nowhere", "nobody", "truthy", "unknown", "tc_key", "x" * 9_000):
        answer = _asked(door, token)
        assert answer.status_code == 401, token
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    nothing = _asked(door, None)
    assert nothing.status_code == 401
    where = "https://tools.example/.well-known/oauth-protected-resource/mcp"
    assert nothing.headers["www-authenticate"] == f'Bearer resource_metadata="{where}", scope="tools"'
    weak = _asked(door, "weak")
    assert weak.status_code == 403
    assert 'error="insufficient_scope"' in weak.headers["www-authenticate"]


def test_the_metadata_names_the_authorization_server(door: str) -> None:
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        assert httpx2.get(f"{door}{path}").json() == {
            "resource": RESOURCE,
            "authorization_servers": ["https://login.example"],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["tools"],
        }


def test_an_authorization_server_that_fails_lets_nobody_in(door: str, authority: HTTPServer) -> None:
    authority.clear()
    authority.expect_request("/introspect").respond_with_data("broken", status=500)
    assert _asked(door, "good").status_code == 503
