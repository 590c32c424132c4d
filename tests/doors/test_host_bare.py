"""`toolcaddie serve` on a machine that has nothing the tools of a host depend on: each tool says so, and the server goes on."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp.client.streamable_http as transport
import pytest
from mcp import Client, StdioServerParameters

from tests.databases import home_environment
from tests.doors.commandline import CommandLine
from tests.doors.hosts import CALLS, PLUGINS, bare_host
from tests.doors.processes import Process, serving

pytestmark = pytest.mark.anyio

_INSTALL, _BUS, _OVS = "install toolcaddie[host]", "there is no D-Bus at", "start Open vSwitch, or set ovs.database"
_NFT = "nft cannot be started: No such file or directory; install nftables"
_OF_PLUGINS = {
    "systemd": _BUS,
    "network": _INSTALL,
    "packagekit": "this machine has no package manager that can be used",
    "firewall": _NFT,
    "users": "etc/group cannot be read",
    "lxc": "install incus or lxd, or name its socket",
    "openflow": _OVS,
    "privacy": _NFT,
}
WORDS = {
    **{name: _BUS for name in CALLS if name.startswith("systemd_")},
    **{name: _OVS for name in CALLS if name.startswith("ovs_")},
    **{f"plugin_{plugin}_{step}": text for plugin, text in _OF_PLUGINS.items() for step in ("query", "diff", "apply")},
    "plugin_storage_diff": "is no mount point of the settings",
    "plugin_storage_apply": "nothing was done",
    "list_network_interfaces": _INSTALL,
    "procfs_read": _INSTALL,
    "read_file": "lies outside of the folders",
    "write_file": "lies outside of the folders",
    "list_directory": "lies outside of the folders",
    "shell_execute": "Not allowed: ",
}
"""Text of the failed result of a tool."""
WORKS = {"respond_to_user", "cannot_perform", "request_clarification", "plugin_storage_query"}
"""Tools that depend on nothing, or on the kernel alone."""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Path]]:
    home = tmp_path_factory.mktemp("bare")
    with bare_host(home, "psutil", "pyroute2") as server:
        yield server, home


async def called(server: Process, name: str, **arguments: Any) -> Any:
    url = server.base_url.removesuffix("/v1") + "/mcp"
    async with Client(transport.streamable_http_client(url)) as client:
        return await client.call_tool(name, arguments or dict(CALLS[name]))


async def approved(server: Process, home: Path, name: str) -> Any:
    """Calls a tool again after a person has approved the call."""
    text = (await called(server, name)).content[0].text
    approval = re.search(r"approval_\w+", text)
    assert approval is not None, text
    words = [sys.executable, "-m", "toolcaddie", "approvals", "approve", approval[0]]
    await anyio.run_process(words, cwd=home, env={**os.environ, **home_environment(home)})
    return await called(server, name)


def test_every_tool_is_expected_to_work_or_to_say_why_it_cannot() -> None:
    assert {*WORDS, *WORKS} == set(CALLS)
    assert len(CALLS) == 54
    assert {*_OF_PLUGINS, "storage"} == set(PLUGINS)


@pytest.mark.proves("R004-32")
@pytest.mark.parametrize("name", CALLS)
async def test_a_tool_without_its_back_end_is_a_clear_failed_result(bare: tuple[Process, Path], name: str) -> None:
    server, home = bare
    asks = name in ("ovs_del_bridge", "ovs_del_flows")  # a person is asked even where the policy allows everything
    result = await approved(server, home, name) if asks else await called(server, name)
    text = result.content[0].text
    assert result.is_error == (name not in WORKS), text
    assert WORDS.get(name, "") in text
    assert "Traceback" not in text
    assert "Traceback" not in server.log()


@pytest.mark.proves("R004-32")
def test_the_gateway_starts_by_one_command_without_the_extra_packages_and_names_them(tmp_path: Path) -> None:
    with bare_host(tmp_path, "dbus_fast", "psutil", "pyroute2") as server, server.client() as client:
        messages: list[Any] = [{"role": "user", "content": "list_network_interfaces"}]
        answer = client.chat.completions.create(model="practice", messages=messages)
        assert "I called list_network_interfaces" in (answer.choices[0].message.content or "")
        assert _INSTALL in (answer.choices[0].message.content or "")


@pytest.mark.proves("R004-30")
async def test_a_catalog_by_name_serves_the_gateway_and_mcp_at_once(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--catalog", "host", "--preset", "compact", "--model", "practice") as server,
        server.client() as client,
    ):
        messages: list[Any] = [{"role": "user", "content": "procfs_read of info_type uptime"}]
        answer = client.chat.completions.create(model="practice", messages=messages)
        assert "I called procfs_read" in (answer.choices[0].message.content or "")
        result = await called(server, "search_tools", query="restart a unit")
    assert "systemd_restart_unit" in result.content[0].text


async def test_mcp_serve_with_five_shows_five_tools(tmp_path: Path) -> None:
    words = ["-m", "toolcaddie", "mcp", "serve", "--catalog", "host", "--five"]
    async with Client(StdioServerParameters(command=sys.executable, args=words, cwd=tmp_path)) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        total = (await client.call_tool("list_tools", {})).structured_content["total"]
    assert names == ["execute_tool", "list_tools", "search_tools", "get_tool_schema", "respond"]
    assert total == 54


def test_the_tools_of_a_host_are_listed_without_a_database(toolcaddie: CommandLine) -> None:
    assert {tool["name"] for tool in toolcaddie.json("tools", "--catalog", "host")["tools"]} == set(CALLS)
    assert list(toolcaddie.home.iterdir()) == []
