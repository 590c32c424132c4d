"""The tools of a host, a machine without the parts that they depend on, and a call of each tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.doors.processes import Process, serving

PLUGINS = ("systemd", "network", "packagekit", "firewall", "users", "storage", "lxc", "openflow", "privacy")
_DIFF = {"base": "0" * 32, "changes": []}
_UNIT, _BRIDGE, _PORT = {"unit": "site.service"}, {"bridge": "br0"}, {"bridge": "br0", "port": "p1"}

CALLS: Mapping[str, Mapping[str, Any]] = {
    "respond_to_user": {"message": "Done."},
    "cannot_perform": {"reason": "There is no printer."},
    "request_clarification": {"question": "Which one?"},
    "read_file": {"path": "/srv/none"},
    "write_file": {"path": "/srv/none", "content": "text"},
    "list_directory": {"path": "/srv/none"},
    "shell_execute": {"command": "no-such-program"},
    "procfs_read": {"info_type": "mounts"},
    "list_network_interfaces": {},
    "systemd_unit_status": _UNIT,
    "systemd_list_units": {},
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
    "ovs_add_flow": {**_BRIDGE, "flow": "actions=drop"},
    "ovs_del_flows": _BRIDGE,
    **{
        f"plugin_{plugin}_{step}": arguments
        for plugin in PLUGINS
        for step, arguments in {
            "query": {},
            "diff": {"desired_state": {"thing": None}},
            "apply": {"diff": {"plugin": plugin, **_DIFF}, "dry_run": False},
        }.items()
    },
}
"""A call of each of the 54 tools, in their order."""

_SETTINGS = """
[policy]
type = "allow"

[mcp]
mode = "all"

[[source]]
type = "host"

[source.systemd]
units = ["*"]
bus = "unix:path={home}/none"

[source.ovs]
database = "unix:{home}/none"
folder = "{home}"

[[source.filesystem.roots]]
path = "{home}/root"
write = true

[source.plugin.packagekit]
packages = ["hello"]
manager = "packagekit"
bus = "unix:path={home}/none"

[source.plugin.firewall]
program = "/none/nft"

[source.plugin.privacy]
program = "/none/nft"

[source.plugin.users]
prefix = "{home}/root"

[source.plugin.storage]
points = ["{home}/none"]

[source.plugin.lxc]
socket = "{home}/none"
"""
_EXTRA = ("dbus_fast", "psutil", "pyroute2")
_ABSENT = "raise ModuleNotFoundError(f'No module named {__name__!r}', name=__name__)\n"


@contextmanager
def bare_host(home: Path, *absent: str, words: Sequence[str] = ("--model", "practice")) -> Iterator[Process]:
    """Runs a server on whose machine no part is there that the tools depend on, apart from the kernel. `absent`: packages of
    Python that are not installed. `words`: options of the server."""
    (home / "root").mkdir()
    (home / "toolcaddie.toml").write_text(_SETTINGS.format(home=home))
    for package in absent:
        (home / f"{package}.py").write_text(_ABSENT)
    with serving(home, *words, PATH=str(home / "root")) as server:
        yield server
