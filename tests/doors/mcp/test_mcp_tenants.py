"""Catalogs of tenants through the MCP door: each session has the tools of its own tenant, and hears of their changes alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.doors.mcp.doors import Door, mcp_door, says
from tests.doors.tenants import write_definitions, write_module, write_tenant
from toolcaddie.app.settings import MCPSettings, Settings
from toolcaddie.app.settings.tenants import TenantSettings
from toolcaddie.app.tenants import tenants_of
from toolcaddie.core.control import Principal
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.sources.tenant_parts import Tenants

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "tenants").mkdir()
    return tmp_path


def tenants_in(folder: Path) -> Tenants:
    settings = Settings(tenants=TenantSettings(folder=str(folder / "tenants"), open=1))
    tenants = tenants_of(settings, Registry(), Parts())
    assert tenants is not None
    return tenants


async def key_of(door: Door, tenant: str) -> str:
    return (await door.database.keys.add(f"key-of-{tenant}", Principal(id="ann", tenant=tenant)))[1]


async def names(client: Client) -> list[str]:
    """Returns the names of the tools of the catalog that a client lists."""
    return [each.name for each in (await client.list_tools()).tools if each.name != "read_result"]


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
async def test_a_client_lists_and_calls_the_tools_of_its_own_tenant(folder: Path, protocol: str) -> None:
    for tenant in ("acme", "beta"):
        module = f"mcp_tools_of_{tenant}_{protocol[:4]}"
        write_module(folder, module, greet=f"hello from {tenant}", **{f"only_{tenant}": "x"})
        write_tenant(folder / "tenants", tenant, f"python:{module}")
    async with mcp_door(folder, [], tenants=tenants_in(folder)) as door:
        for tenant, other in (("acme", "beta"), ("beta", "acme")):
            async with door.client(protocol, secret=await key_of(door, tenant)) as client:
                assert await names(client) == ["greet", f"only_{tenant}"]
                assert await says(client, "greet") == f"hello from {tenant}"
                others, unknown = f"only_{other}", f"only_{other[:-1]}0"
                assert (await says(client, others)).replace(others, unknown) == await says(client, unknown)


@pytest.mark.parametrize("five", [True, False])
async def test_the_compact_tools_search_the_catalog_of_the_clients_tenant(folder: Path, five: bool) -> None:
    for tenant in ("acme", "beta"):
        write_definitions(folder / "tenants" / f"{tenant}.jsonl", f"invoice_of_{tenant}", f"stock_of_{tenant}")
        write_tenant(folder / "tenants", tenant, f"{tenant}.jsonl")
    settings = MCPSettings(mode="compact", five=five)
    async with (
        mcp_door(folder, [], settings=settings, tenants=tenants_in(folder)) as door,
        door.client("legacy", secret=await key_of(door, "acme")) as client,
    ):
        matches = await says(client, "search_tools", query="invoice")
        assert "invoice_of_acme" in matches
        assert "beta" not in matches


async def test_a_broken_catalog_is_an_error_of_its_tenant_alone(folder: Path) -> None:
    write_definitions(folder / "tenants" / "beta.jsonl", "stock")
    write_tenant(folder / "tenants", "beta", "beta.jsonl")
    write_tenant(folder / "tenants", "acme", "missing.jsonl")
    async with mcp_door(folder, [], tenants=tenants_in(folder)) as door:
        async with door.client("legacy", secret=await key_of(door, "acme")) as client:
            with pytest.raises(MCPError, match="catalog of the tenant 'acme' cannot be opened") as error:
                await client.list_tools()
            assert "missing" not in str(error.value)
        async with door.client("legacy", secret=await key_of(door, "beta")) as client:
            assert await names(client) == ["stock"]


async def test_a_changed_catalog_is_news_for_the_sessions_of_its_tenant_only(folder: Path) -> None:
    for tenant in ("acme", "beta"):
        write_definitions(folder / "tenants" / f"{tenant}.jsonl", "stock")
        write_tenant(folder / "tenants", tenant, f"{tenant}.jsonl")
    told: dict[str, list[str]] = {"acme": [], "beta": []}
    heard = anyio.Event()

    def listener(tenant: str) -> Any:
        async def listen(message: Any) -> None:
            if isinstance(getattr(message, "root", message), types.ToolListChangedNotification):
                told[tenant].append("tools")
                heard.set()

        return listen

    async with mcp_door(folder, [], tenants=tenants_in(folder)) as door:
        secrets = {tenant: await key_of(door, tenant) for tenant in told}
        async with (
            door.client("legacy", secret=secrets["beta"], message_handler=listener("beta")) as beta,
            door.client("legacy", secret=secrets["acme"], message_handler=listener("acme")) as acme,
        ):
            assert await names(beta) == await names(acme) == ["stock"]
            async with door.runtime.holding("acme"):
                for number in range(20):  # a change before the door's first look at the catalog is no change
                    write_definitions(folder / "tenants" / "acme.jsonl", "stock", f"orders_{number}")
                    assert await door.runtime.catalogs.look_again() == ["acme"]
                    with anyio.move_on_after(2):
                        await heard.wait()
                    if heard.is_set():
                        break
            assert await names(acme) == ["stock", f"orders_{number}"]
            assert told["beta"] == []
            assert told["acme"]
