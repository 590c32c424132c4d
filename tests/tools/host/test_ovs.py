"""Bridges and ports, through the runtime, with a real ovsdb-server and ovs-vswitchd, compared with `ovs-vsctl`."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.tools.host.ovs_rig import Machine, bare_machine, console, running_machine

pytestmark = pytest.mark.anyio


@pytest.mark.proves("R004-28")
async def test_a_bridge_and_a_port_are_added_shown_and_removed_as_ovs_vsctl_sees_them(ovs: Machine) -> None:
    async with console(ovs) as desk:
        await desk.value("ovs_add_bridge", bridge="br-lan")
        await desk.value("ovs_add_port", bridge="br-lan", port="uplink.7")
        assert ovs.vsctl("list-br") == ["br-lan"]
        assert ovs.vsctl("list-ports", "br-lan") == ["uplink.7"]
        assert ovs.vsctl("get", "interface", "br-lan", "type") == ["internal"]
        assert await desk.value("ovs_list_bridges") == [{"name": "br-lan", "ports": 2}]
        ports = await desk.value("ovs_list_ports", bridge="br-lan")
        number = int(ovs.vsctl("get", "interface", "uplink.7", "ofport")[0])
        assert [(port["port"], port["number"]) for port in ports] == [("br-lan", "LOCAL"), ("uplink.7", number)]
        await desk.value("ovs_del_port", bridge="br-lan", port="uplink.7")
        assert ovs.vsctl("list-ports", "br-lan") == []
        await desk.value("ovs_del_bridge", bridge="br-lan")
        assert ovs.vsctl("list-br") == []


async def test_a_bridge_is_shown_as_the_database_has_it_and_no_other_one(ovs: Machine) -> None:
    ovs.vsctl("add-br", "br1", "--", "add-br", "br2", "--", "set", "bridge", "br1", "fail_mode=secure")
    ovs.vsctl("add-port", "br1", "p1", "tag=12", "--", "add-bond", "br1", "bond1", "s1", "s2")
    async with console(ovs) as desk:
        shown = await desk.value("ovs_show_bridge", bridge="br1")
    assert shown["name"] == "br1"
    assert shown["fail_mode"] == "secure"
    assert shown["datapath_id"] == ovs.vsctl("get", "bridge", "br1", "datapath_id")[0].strip('"')
    ports = {port["name"]: port for port in shown["ports"]}
    assert set(ports) == {"br1", *ovs.vsctl("list-ports", "br1")}
    assert ports["p1"]["tag"] == 12
    assert [interface["name"] for interface in ports["bond1"]["interfaces"]] == ["s1", "s2"]
    for interface in (interface for port in shown["ports"] for interface in port["interfaces"]):
        address = ovs.vsctl("get", "interface", interface["name"], "mac_in_use")[0].strip('"')
        assert interface["mac_in_use"] == address


async def test_a_hundred_requests_at_once_share_a_connection_and_each_gets_its_own_answer(ovs: Machine) -> None:
    for bridge in range(5):
        ovs.vsctl("add-br", f"br{bridge}")
    before = ovs.sessions()
    async with console(ovs) as desk:
        shown = await asyncio.gather(*(desk.value("ovs_show_bridge", bridge=f"br{n % 5}") for n in range(100)))
        during = ovs.sessions()
    assert [bridge["name"] for bridge in shown] == [f"br{n % 5}" for n in range(100)]
    assert (during, ovs.sessions()) == (before + 1, before)


async def test_of_many_changes_at_once_none_is_lost(ovs: Machine) -> None:
    ovs.vsctl("add-br", "br0")
    async with console(ovs) as desk:
        await asyncio.gather(*(desk.value("ovs_add_port", bridge="br0", port=f"p{n}") for n in range(20)))
        assert set(ovs.vsctl("list-ports", "br0")) == {f"p{n}" for n in range(20)}
        results = await asyncio.gather(*(desk.call("ovs_add_port", bridge="br0", port="same") for _ in range(8)))
    assert sum(result.success for result in results) == 1
    for result in results:
        assert result.success or "same" in result.text
    assert ovs.vsctl("list-ports", "br0").count("same") == 1


async def test_what_does_not_exist_or_exists_already_is_named(ovs: Machine) -> None:
    ovs.vsctl("add-br", "br0", "--", "add-port", "br0", "p1", "--", "add-br", "br1")
    async with console(ovs) as desk:
        assert "there is no bridge br9" in await desk.failure("ovs_show_bridge", bridge="br9")
        assert "there is no bridge br9" in await desk.failure("ovs_del_bridge", bridge="br9")
        assert "bridge br0 already" in await desk.failure("ovs_add_bridge", bridge="br0")
        assert "port p1 already" in await desk.failure("ovs_add_port", bridge="br1", port="p1")
        assert "bridge br1 has no port p1" in await desk.failure("ovs_del_port", bridge="br1", port="p1")
        assert "ovs_del_bridge" in await desk.failure("ovs_del_port", bridge="br1", port="br1")
    assert ovs.vsctl("list-ports", "br0") == ["p1"]


@pytest.mark.parametrize("name", ["", "a/b", "../x", "-br", ".", "br\n", "br\0", "br 0", "x" * 16, "br;ls", "b\u202er"])
async def test_a_hostile_name_of_a_bridge_or_port_reaches_nothing(ovs: Machine, name: str) -> None:
    ovs.vsctl("add-br", "br0")
    async with console(ovs) as desk:
        for tool in ("ovs_add_bridge", "ovs_del_bridge", "ovs_show_bridge", "ovs_list_ports", "ovs_dump_flows"):
            assert (await desk.call(tool, bridge=name)).is_error
        for tool in ("ovs_add_port", "ovs_del_port"):
            assert (await desk.call(tool, bridge=name, port="p1")).is_error
            if len(name) != 16:  # a port may have a longer name than a bridge
                assert (await desk.call(tool, bridge="br0", port=name)).is_error
        assert desk.person.questions == []
    assert ovs.vsctl("list-br") == ["br0"]
    assert ovs.vsctl("list-ports", "br0") == []


async def test_a_bridge_that_the_settings_do_not_allow_is_neither_seen_nor_changed(ovs: Machine) -> None:
    ovs.vsctl("add-br", "br-lan", "--", "add-br", "wan")
    async with console(ovs, bridges=["br-*"]) as desk:
        assert await desk.value("ovs_list_bridges") == [{"name": "br-lan", "ports": 1}]
        for tool in ("ovs_show_bridge", "ovs_del_bridge", "ovs_dump_flows", "ovs_del_flows"):
            assert "the settings do not allow it" in await desk.failure(tool, bridge="wan")
        state = (await desk.value("plugin_openflow_query"))["state"]
        assert {name.partition("/")[0] for name in state} == {"br-lan"}
        desired = {"wan/table=0,priority=1": {"actions": "drop"}}
        assert "the settings do not allow it" in await desk.failure("plugin_openflow_diff", desired_state=desired)
    assert "wan" in ovs.vsctl("list-br")


async def test_removing_a_bridge_asks_and_shows_what_goes_with_it(ovs: Machine) -> None:
    ovs.vsctl("add-br", "br0", "--", "add-port", "br0", "p1")
    async with console(ovs) as desk:
        desk.person.agrees = False
        assert (await desk.call("ovs_del_bridge", bridge="br0")).is_error
        (approval,) = desk.person.questions
    assert "p1" in approval.preview
    assert ovs.vsctl("list-br") == ["br0"]


async def test_a_device_that_does_not_exist_is_no_port_and_leaves_nothing_behind() -> None:
    with running_machine(override=False) as machine:
        machine.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy")
        async with console(machine) as desk:
            text = await desk.failure("ovs_add_port", bridge="br0", port="nodev")
            assert "No such device" in text
            assert "removed again" in text
            assert "removed again" in await desk.failure("ovs_add_bridge", bridge="br1")
        assert machine.vsctl("list-ports", "br0") == []
        assert machine.vsctl("list-br") == ["br0"]


async def test_a_database_that_is_not_there_is_a_failed_result_that_names_it() -> None:
    with bare_machine() as machine:
        async with console(machine) as desk:
            for tool in ("ovs_list_bridges", "plugin_openflow_query"):
                text = await desk.failure(tool)
                assert f"ovsdb-server at {machine.folder}/db.sock cannot be reached" in text
            (ovs, plugin) = [back_end for group in desk.source.groups for back_end in await group.back_ends()]
        assert (ovs.present, plugin.present) == (False, False)
        assert "cannot be reached" in ovs.detail


async def test_without_ovs_vswitchd_bridges_are_shown_and_nothing_is_changed() -> None:
    with running_machine() as machine:
        machine.vsctl("add-br", "br0")
        machine.stop("ovs-vswitchd")
        async with console(machine) as desk:
            assert [bridge["name"] for bridge in await desk.value("ovs_list_bridges")] == ["br0"]
            for tool, more in (("ovs_add_bridge", {}), ("ovs_del_bridge", {}), ("ovs_add_port", {"port": "p1"})):
                name = "br1" if tool == "ovs_add_bridge" else "br0"
                assert "ovs-vswitchd is not running" in await desk.failure(tool, bridge=name, **more)
            assert "ovs-vswitchd does not listen" in await desk.failure("ovs_dump_flows", bridge="br0")
            assert machine.vsctl("--no-wait", "list-br") == ["br0"]
            machine.start_vswitchd()
            await desk.value("ovs_add_port", bridge="br0", port="p1")  # the lock was given back


async def test_a_change_that_ovs_vswitchd_does_not_take_is_no_success() -> None:
    with running_machine() as machine:
        machine.vsctl("add-br", "br0")
        pid = int((machine.folder / "ovs-vswitchd.pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            async with console(machine, timeout=0.3) as desk:
                text = await desk.failure("ovs_add_port", bridge="br0", port="p1")
                flows = await desk.failure("ovs_dump_flows", bridge="br0")
        finally:
            os.kill(pid, signal.SIGCONT)
    assert "ovs-vswitchd has not taken it within 0.3 s" in text
    assert "the switch has not answered within 0.3 s" in flows


async def test_the_connection_is_made_again_after_ovsdb_server_was_restarted() -> None:
    with running_machine() as machine:
        machine.vsctl("add-br", "br0")
        async with console(machine) as desk:
            await desk.value("ovs_list_bridges")
            machine.stop("ovsdb-server")
            assert "cannot be reached" in await desk.failure("ovs_list_bridges")
            machine.start_database()
            assert await desk.value("ovs_list_bridges") == [{"name": "br0", "ports": 1}]


async def test_the_database_may_be_reached_by_tcp() -> None:
    with bare_machine() as machine:
        machine.start_database("ptcp:0:127.0.0.1")
        log = (machine.folder / "ovsdb-server.log").read_text()
        port = log.rpartition("listening on port ")[2].split()[0]
        machine.vsctl("--no-wait", "init")
        machine.start_vswitchd()
        async with console(machine, database=f"tcp:127.0.0.1:{port}") as desk:
            await desk.value("ovs_add_bridge", bridge="br0")
        assert machine.vsctl("list-br") == ["br0"]
