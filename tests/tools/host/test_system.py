"""The tools of the group `system`, through the runtime."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pytest

from tests.tools.host.netns import LINUX_ROOT, ip, isolated
from toolcaddie import PracticeModel, Runtime
from toolcaddie.core.tool import ToolResult
from toolcaddie.parts import Parts
from toolcaddie.tools.host import host

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="/proc is read on Linux only")]


async def called(name: str, **arguments: Any) -> ToolResult:
    source = host(groups=("system",), parts=Parts())
    async with Runtime(provider=PracticeModel(), sources=[source]) as runtime:
        return await runtime.call(name, arguments)


@pytest.mark.proves("R004-26")
async def test_the_facts_are_those_of_this_machine() -> None:
    version = (await called("procfs_read", info_type="version")).structured
    assert (version["kernel"], version["hostname"]) == (os.uname().release, os.uname().nodename)
    memory = (await called("procfs_read", info_type="meminfo")).structured
    assert memory["total_bytes"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    processor = (await called("procfs_read", info_type="cpuinfo")).structured
    assert processor["logical_processors"] == os.cpu_count()
    load = (await called("procfs_read", info_type="loadavg")).structured
    assert load["threads"] >= load["runnable_threads"] >= 1
    uptime = (await called("procfs_read", info_type="uptime")).structured
    assert abs(uptime["seconds"] - time.clock_gettime(time.CLOCK_BOOTTIME)) < 2
    mounts = (await called("procfs_read", info_type="mounts")).structured
    assert {"/", "/proc"} <= {mount["path"] for mount in mounts["mounts"]}


async def test_another_file_of_proc_is_not_read() -> None:
    result = await called("procfs_read", info_type="../etc/shadow")
    assert result.is_error
    assert "cpuinfo" in result.text


@LINUX_ROOT
@pytest.mark.proves("R004-26")
async def test_the_interfaces_have_name_state_mac_and_addresses() -> None:
    with isolated():
        ip("link", "add", "left", "type", "veth", "peer", "name", "right")
        ip("link", "set", "left", "address", "02:00:00:00:00:07", "mtu", "1400")
        ip("addr", "add", "10.1.2.3/24", "dev", "left")
        ip("link", "set", "left", "up")
        interfaces = (await called("list_network_interfaces")).structured["interfaces"]
        left = next(each for each in interfaces if each["name"] == "left")
        assert left == {
            "name": "left",
            "state": "lowerlayerdown",
            "mac": "02:00:00:00:00:07",
            "mtu": 1400,
            "addresses": ["10.1.2.3/24"],
        }
        names = {each["name"] for each in interfaces}
        assert {"lo", "left", "right"} <= names
        assert "eth0" not in names
