"""The parameters of the 54 tools of a host, as the gateway and MCP show them: those of the source, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.doors.host_callers import FIVE, stored_host
from tests.doors.hosts import CALLS, PLUGINS
from tests.doors.mcp.doors import mcp_door, says
from tests.doors.serving import gateway
from toolcaddie.testing import ScriptedProvider, calls, say
from toolcaddie.tools.host.shell.settings import PROGRAMS

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.proves("R004-23", "R004-24", "R004-25", "R004-26", "R004-27", "R004-28", "R004-29", "R004-30"),
]

_REQUIRED = "required"
_UNIT, _BRIDGE, _PORT = {"unit": _REQUIRED}, {"bridge": _REQUIRED}, {"bridge": _REQUIRED, "port": _REQUIRED}
_OPTIONAL = "optional"

PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "respond_to_user": {"message": _REQUIRED},
    "cannot_perform": {"reason": _REQUIRED},
    "request_clarification": {"question": _REQUIRED},
    "read_file": {"path": _REQUIRED},
    "write_file": {"path": _REQUIRED, "content": _REQUIRED},
    "list_directory": {"path": _REQUIRED},
    "shell_execute": {"command": _REQUIRED, "args": [], "timeout_secs": 30},
    "procfs_read": {"info_type": _REQUIRED},
    "list_network_interfaces": {},
    "systemd_unit_status": _UNIT,
    "systemd_list_units": {"unit_type": "service", "state": "all", "limit": 50},
    "systemd_start_unit": _UNIT,
    "systemd_stop_unit": _UNIT,
    "systemd_restart_unit": _UNIT,
    "systemd_enable_unit": _UNIT,
    "systemd_disable_unit": _UNIT,
    "systemd_reload_daemon": {},
    "ovs_list_bridges": {},
    "ovs_show_bridge": _BRIDGE,
    "ovs_list_ports": _BRIDGE,
    "ovs_dump_flows": _BRIDGE,
    "ovs_add_bridge": _BRIDGE,
    "ovs_del_bridge": _BRIDGE,
    "ovs_add_port": _PORT,
    "ovs_del_port": _PORT,
    "ovs_add_flow": {**_BRIDGE, "flow": _REQUIRED},
    "ovs_del_flows": {**_BRIDGE, "match_str": ""},
    **{
        f"plugin_{plugin}_{step}": parameters
        for plugin in PLUGINS
        for step, parameters in {
            "query": {"filter": _OPTIONAL},
            "diff": {"desired_state": _REQUIRED},
            "apply": {"diff": _REQUIRED, "dry_run": True},
        }.items()
    },
}


def parameters(text: str) -> dict[str, Any]:
    """Returns for each parameter of a tool's schema its default, or whether it is required."""
    shown = msgspec.json.decode(text)
    schema = next(each for each in shown.values() if isinstance(each, dict) and "properties" in each)
    required = schema.get("required", ())
    return {
        name: _REQUIRED if name in required else each.get("default", _OPTIONAL)
        for name, each in schema["properties"].items()
    }


async def test_the_gateway_shows_the_parameters_of_each_tool(tmp_path: Path) -> None:
    asked = calls(*(("get_tool_schema", {"tool_name": name}) for name in CALLS))
    provider = ScriptedProvider([asked, say("done")])
    async with gateway(tmp_path, provider, sources=[stored_host()], preset="compact") as served:
        await served.client.chat.completions.create(model="m", messages=[{"role": "user", "content": "look"}])
    texts = [message.text for message in provider.requests[-1].messages if message.role == "tool"]
    assert dict(zip(CALLS, map(parameters, texts), strict=True)) == PARAMETERS


async def test_mcp_shows_the_parameters_of_each_tool(tmp_path: Path) -> None:
    async with (
        mcp_door(tmp_path, [stored_host()], settings=FIVE) as door,
        door.client("2026-07-28") as client,
    ):
        shown = {name: parameters(await says(client, "get_tool_schema", tool_name=name)) for name in CALLS}
    assert shown == PARAMETERS


def test_procfs_reads_six_kinds_of_facts_and_the_list_of_programs_has_41() -> None:
    schema = next(tool.input_schema for tool in stored_host().tools() if tool.name == "procfs_read")
    facts = schema["properties"]["info_type"]["enum"]
    assert sorted(facts) == ["cpuinfo", "loadavg", "meminfo", "mounts", "uptime", "version"]
    assert len(set(PROGRAMS)) == 41
