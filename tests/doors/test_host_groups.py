"""Each group of a host's tools through the gateway and through MCP, on real files, programs and services."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.host_callers import DOORS, caller, stored_host, value
from tests.tools.host.hosting import host_source
from tests.tools.host.netns import LINUX_ROOT, ip, isolated
from tests.tools.host.ovs_rig import Machine, running_machine
from tests.tools.host.systemd_rig import RealSystemd, real_systemd
from tests.walls import needs_the_wall
from toolcaddie.parts import Parts
from toolcaddie.sandbox.wall import Wall

pytestmark = pytest.mark.anyio
doors = pytest.mark.parametrize("door", DOORS)


@pytest.fixture(scope="module")
def ovs() -> Iterator[Machine]:
    with running_machine() as machine:
        yield machine


@pytest.fixture(scope="module")
def world() -> Iterator[RealSystemd]:
    with real_systemd() as world:
        world.service("web.service", "/bin/sleep 1000")
        yield world


@pytest.mark.proves("R004-24")
@doors
async def test_files_are_written_read_and_listed_and_those_with_secrets_are_refused(tmp_path: Path, door: str) -> None:
    site = tmp_path / "site"
    site.mkdir()
    host = host_source(
        {"groups": ["filesystem"], "filesystem": {"roots": [{"path": "/etc"}, {"path": str(site), "write": True}]}}
    )
    async with caller(tmp_path, door, host) as call:
        assert "Wrote 4 bytes" in await call("write_file", path=str(site / "a.txt"), content="open")
        assert (site / "a.txt").read_text() == "open"
        assert "open" in await call("read_file", path=str(site / "a.txt"))
        assert "a.txt  4 bytes" in await call("list_directory", path=str(site))
        for secret in ("/etc/shadow", "/etc/sudoers"):
            text = await call("read_file", path=secret)
            assert "refused: it belongs to the system" in text, text
        for path in ("/etc/toolcaddie-test", "/boot/toolcaddie-test"):
            text = await call("write_file", path=path, content="x")
            assert "Wrote" not in text
            assert "may" in text or "lies outside of the folders" in text, text


@pytest.mark.proves("R004-25")
@needs_the_wall
@doors
async def test_a_program_of_the_list_runs_without_a_shell_and_others_do_not(tmp_path: Path, door: str) -> None:
    box = Wall()
    settings = {"groups": ["shell"], "shell": {"workdir": str(tmp_path / "work")}}
    try:
        async with caller(tmp_path, door, host_source(settings, Parts(sandbox=lambda: box))) as call:
            assert "a $(id) ; b" in await call("shell_execute", command="echo", args=["a $(id)", "; b"])
            assert "is no program of the list" in await call("shell_execute", command="sh", args=["-c", "id"])
    finally:
        await box.close()


@LINUX_ROOT
@pytest.mark.proves("R004-26")
@doors
async def test_facts_of_proc_and_the_network_interfaces_are_shown(tmp_path: Path, door: str) -> None:
    with isolated():
        ip("link", "add", "left", "type", "veth", "peer", "name", "right")
        ip("link", "set", "left", "address", "02:00:00:00:00:07")
        async with caller(tmp_path, door, stored_host(groups=["system"])) as call:
            for fact in ("cpuinfo", "meminfo", "loadavg", "uptime", "version", "mounts"):
                assert value(await call("procfs_read", info_type=fact)), fact
            assert os.uname().release in await call("procfs_read", info_type="version")
            interfaces = value(await call("list_network_interfaces"))["interfaces"]
    shown = {each["name"]: (each["state"], each["mac"]) for each in interfaces}
    assert shown["left"] == ("down", "02:00:00:00:00:07")


@pytest.mark.proves("R004-27")
@doors
async def test_a_unit_is_started_listed_enabled_restarted_disabled_and_stopped(
    tmp_path: Path, world: RealSystemd, door: str
) -> None:
    settings = {"units": ["web.service"], "bus": world.address}
    enabling = world.units / "default.target.wants/web.service"
    async with caller(tmp_path, door, stored_host(groups=["systemd"], systemd=settings)) as call:
        await call("systemd_start_unit", unit="web.service")
        assert world.control("is-active", "web").stdout == "active\n"
        units = value(await call("systemd_list_units", unit_type="service", state="active", limit=50))["units"]
        assert "web.service" in [each["unit"] for each in units]
        status = value(await call("systemd_unit_status", unit="web.service"))
        assert "active" in str(status)
        assert "Test web.service" in str(status)
        first = world.control("show", "web", "--property=MainPID").stdout
        await call("systemd_restart_unit", unit="web.service")
        assert world.control("show", "web", "--property=MainPID").stdout != first
        await call("systemd_enable_unit", unit="web.service")
        assert enabling.is_symlink()
        await call("systemd_disable_unit", unit="web.service")
        assert not enabling.is_symlink()
        world.service("web.service", "/bin/sleep 2000")
        assert world.control("show", "web", "--property=NeedDaemonReload").stdout == "NeedDaemonReload=yes\n"
        await call("systemd_reload_daemon")
        assert world.control("show", "web", "--property=NeedDaemonReload").stdout == "NeedDaemonReload=no\n"
        await call("systemd_stop_unit", unit="web.service")
        assert world.control("is-active", "web").stdout == "inactive\n"


@pytest.mark.proves("R004-28")
@doors
async def test_a_bridge_a_port_and_a_flow_are_added_shown_and_removed(tmp_path: Path, ovs: Machine, door: str) -> None:
    settings = {"database": ovs.database, "folder": str(ovs.folder)}
    async with caller(tmp_path, door, stored_host(groups=["ovs"], ovs=settings)) as call:
        await call("ovs_add_bridge", bridge="br0")
        await call("ovs_add_port", bridge="br0", port="p1")
        assert (ovs.vsctl("list-br"), ovs.vsctl("list-ports", "br0")) == (["br0"], ["p1"])
        assert "br0" in await call("ovs_list_bridges")
        assert "datapath_id" in await call("ovs_show_bridge", bridge="br0")
        assert "p1" in await call("ovs_list_ports", bridge="br0")
        await call("ovs_add_flow", bridge="br0", flow="priority=7,tcp,tp_dst=80,actions=drop")
        assert "tp_dst=80" in await call("ovs_dump_flows", bridge="br0")
        await call("ovs_del_flows", bridge="br0", match_str="tcp,tp_dst=80")
        assert not [line for line in ovs.ofctl("dump-flows", "br0") if "tp_dst=80" in line]
        await call("ovs_del_port", bridge="br0", port="p1")
        assert ovs.vsctl("list-ports", "br0") == []
    ovs.clear()


@pytest.mark.proves("R004-29", "R004-31")
@doors
async def test_a_plugin_reads_the_state_compares_it_and_applies_a_difference_through_a_door(
    tmp_path: Path, world: RealSystemd, door: str
) -> None:
    settings = {"systemd": {"units": ["web.service"], "bus": world.address}}
    host = stored_host(groups=["plugins"], plugins=["systemd"], plugin=settings)
    desired = {"web.service": {"active": True}}
    async with caller(tmp_path, door, host) as call:
        state = value(await call("plugin_systemd_query", filter="web*"))["state"]
        assert state == {"web.service": {"active": False, "enabled": False}}
        diff = value(await call("plugin_systemd_diff", desired_state=desired))
        assert [(each["action"], each["target"]) for each in diff["changes"]] == [("modify", "web.service")]
        assert value(await call("plugin_systemd_apply", diff=diff))["dry_run"] is True
        assert world.control("is-active", "web").stdout == "inactive\n"
        applied = value(await call("plugin_systemd_apply", diff=diff, dry_run=False))
        assert applied["applied"] is True
        assert world.control("is-active", "web").stdout == "active\n"
        again = value(await call("plugin_systemd_diff", desired_state=desired))
        assert [each["action"] for each in again["changes"]] == ["no-op"]
        assert "the state has changed" in await call("plugin_systemd_apply", diff=diff, dry_run=False)
        await call("plugin_systemd_apply", diff=applied["undo"], dry_run=False)
        assert world.control("is-active", "web").stdout == "inactive\n"
