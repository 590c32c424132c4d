"""Catalogs that belong to tenants, through the gateway: who sees and calls what, and which names are refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.databases import sqlite_only
from tests.doors.tenants import shared, write_definitions, write_module, write_tenant
from toolcaddie.parts import Parts
from toolcaddie.storage.memory import MemoryStore

pytestmark = pytest.mark.anyio

CRM = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    result = {"tools": [{"name": "find", "description": "Find in " + sys.argv[1], "inputSchema": {"type": "object"},
                         "annotations": {"readOnlyHint": True}}]}
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "found in " + sys.argv[1]}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
"""An MCP server whose tool differs from tenant to tenant."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "tenants").mkdir()
    return tmp_path


def common() -> str:
    """Says what all share."""
    return "shared by all"


async def test_a_tenant_has_the_shared_tools_and_its_own_and_nobody_else_has_those(folder: Path) -> None:
    write_module(folder, "tools_of_acme", greet="hello from acme", invoice="an invoice of acme")
    write_module(folder, "tools_of_beta", greet="hello from beta")
    write_tenant(folder / "tenants", "acme", "python:tools_of_acme")
    write_tenant(folder / "tenants", "beta", "python:tools_of_beta")
    async with shared(folder, sources=[common]) as server:
        acme, beta, other = [await server.key(tenant) for tenant in ("acme", "beta", "gamma")]
        assert await server.tools(acme) == ["common", "greet", "invoice"]
        assert await server.tools(beta) == ["common", "greet"]
        assert await server.tools(other) == ["common"]
        assert await server.said(acme, "call greet") == "hello from acme"
        assert await server.said(beta, "call greet") == "hello from beta"
        assert await server.said(beta, "call common") == "shared by all"


async def test_a_call_of_another_tenants_tool_is_answered_like_that_of_an_unknown_one(folder: Path) -> None:
    write_module(folder, "secret_tools_of_acme", merger_with_globex="secret")
    write_tenant(folder / "tenants", "acme", "python:secret_tools_of_acme")
    write_definitions(folder / "tenants" / "beta.jsonl", "merge_files")
    write_tenant(folder / "tenants", "beta", "beta.jsonl")
    async with shared(folder, sources=[common]) as server:
        acme, beta = await server.key("acme"), await server.key("beta")
        assert await server.said(acme, "call merger_with_globex") == "secret"
        for secret in (beta, await server.key("gamma")):
            known = await server.said(secret, "call merger_with_globex")
            unknown = await server.said(secret, "call merger_with_globez")
            assert known.replace("globex", "globez") == unknown
            assert "secret" not in known


async def test_a_tool_of_a_tenant_stands_in_place_of_the_shared_one_of_its_name(folder: Path) -> None:
    write_module(folder, "own_tools_of_acme", common="acme's own")
    write_tenant(folder / "tenants", "acme", "python:own_tools_of_acme")
    async with shared(folder, sources=[common]) as server:
        assert await server.said(await server.key("acme"), "call common") == "acme's own"
        assert await server.said(await server.key("beta"), "call common") == "shared by all"


async def test_results_are_cached_for_each_tenant_alone(folder: Path) -> None:
    for tenant in ("acme", "beta"):
        (folder / f"cached_{tenant}.py").write_text(
            "from toolcaddie import tool\n\n"
            "@tool(cache_ttl=60, read_only=True)\n"
            f'def stock() -> str:\n    """Says the stock."""\n    return "{tenant} has 7"\n'
        )
        write_tenant(folder / "tenants", tenant, f"python:cached_{tenant}")
    async with shared(folder) as server:
        acme, beta = await server.key("acme"), await server.key("beta")
        assert [await server.said(secret, "call stock") for secret in (acme, beta, acme)] == [
            "acme has 7",
            "beta has 7",
            "acme has 7",
        ]


@pytest.mark.parametrize(
    "text",
    [
        'catalogs = ["missing.jsonl"]',
        'catalogs = ["python:no_such_module_of_acme"]',
        "catalogs = [",
        'database_url = "sqlite:///elsewhere.sqlite"',
        '[[source]]\ntype = "opneapi"',
        'catalogs = ["persona"]',
        "catalogs = 7",
    ],
)
async def test_a_broken_catalog_is_an_error_of_its_tenant_alone_and_says_nothing_of_the_files(
    folder: Path, text: str
) -> None:
    write_definitions(folder / "tenants" / "beta.jsonl", "merge_files")
    write_tenant(folder / "tenants", "beta", "beta.jsonl")
    (folder / "tenants" / "acme.toml").write_text(text)
    async with shared(folder, sources=[common]) as server:
        acme, beta = await server.key("acme"), await server.key("beta")
        for _ in range(2):
            status, answer = await server.asked(acme, "which tools are there?")
            assert status == 503
            assert answer["error"]["code"] == "catalog_unavailable"
            assert answer["error"]["message"] == (
                "the catalog of the tenant 'acme' cannot be opened; the server's log says why, and whoever runs the server "
                "can correct it"
            )
        status, answer = await server.asked(acme, "hello", "/v1/messages", max_tokens=9)
        assert (status, answer["type"]) == (503, "error")
        assert await server.tools(beta) == ["common", "merge_files"]
        without = {"x-toolcaddie-catalog": "none"}
        assert (await server.asked(acme, "hello", headers=without))[0] == 200


_NUL = sqlite_only("PostgreSQL stores no NUL, so there can be no key of such a tenant")


@pytest.mark.parametrize(
    "name",
    [
        "../beta",
        pytest.param("be\0ta", marks=_NUL),
        "b" * 65,
        "",
        ".",
        "..",
        "/etc/passwd",
        "beta/../acme",
        "bêta",
        "-x",
    ],
)
async def test_a_tenant_whose_name_cannot_be_a_file_is_refused(folder: Path, name: str) -> None:
    write_definitions(folder / "tenants" / "beta.jsonl", "merge_files")
    write_tenant(folder / "tenants", "beta", "beta.jsonl")
    async with shared(folder, sources=[common]) as server:
        status, answer = await server.asked(await server.key(name), "which tools are there?")
        assert (status, answer["error"]["code"]) == (503, "catalog_unavailable")
        assert "cannot be the name of a tenant" in answer["error"]["message"]
        assert await server.tools(await server.key("beta")) == ["common", "merge_files"]


async def test_tenants_whose_names_differ_in_upper_and_lower_case_only_are_refused(folder: Path) -> None:
    """The answer does not say why: a tenant does not learn that there is another one."""
    write_definitions(folder / "tenants" / "tools.jsonl", "merge_files")
    write_tenant(folder / "tenants", "acme", "tools.jsonl")
    async with shared(folder, sources=[common]) as server:
        status, answer = await server.asked(await server.key("ACME"), "which tools are there?")
        assert (status, answer["error"]["code"]) == (503, "catalog_unavailable")
        assert answer["error"]["message"].startswith("the catalog of the tenant 'ACME' cannot be opened;")
        assert "acme" not in answer["error"]["message"]
        assert await server.tools(await server.key("acme")) == ["common", "merge_files"]


async def test_mcp_servers_of_two_tenants_may_have_the_same_name(folder: Path) -> None:
    """The definitions of a server are pinned under its name: a changed one would wait for a person."""
    (folder / "crm.py").write_text(CRM)
    for tenant in ("acme", "beta"):
        (folder / "tenants" / f"{tenant}.toml").write_text(
            f'[[source]]\ntype = "mcp"\nname = "crm"\nprotocol = "2025-11-25"\ntrusted = true\n'
            f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(folder / 'crm.py'))}, {json.dumps(tenant)}]\n"
        )
    async with shared(folder, parts=Parts(store=MemoryStore())) as server:
        for tenant in ("acme", "beta"):
            secret = await server.key(tenant)
            assert await server.tools(secret) == ["crm__find"]
            assert f"found in {tenant}" in await server.said(secret, "call crm__find")
