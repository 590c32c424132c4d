"""Names reserved for the shipped tools, even if the tools are switched off.

No other tool of a catalog may have one of these names: a model and a policy that know `exec` must not meet a different tool of
that name. Tools that a caller runs itself may have any names.
"""

from __future__ import annotations

from collections.abc import Mapping

# fmt: off
_BOT_TOOLS = (
    "web_search", "web_fetch", "save_memory", "update_soul", "update_identity", "manage_goals", "memory_search", "memory_get",
    "exec", "process",
    "file_read", "file_write", "file_edit", "get_datetime", "cron", "phone_call",
    "delegate_to_bot", "collaborate", "improve", "create_tool",
)

_HOST_TOOLS = (
    "respond_to_user", "cannot_perform", "request_clarification",
    "read_file", "write_file", "list_directory",
    "shell_execute",
    "procfs_read", "list_network_interfaces",
    "systemd_unit_status", "systemd_list_units", "systemd_start_unit", "systemd_stop_unit", "systemd_restart_unit",
    "systemd_enable_unit", "systemd_disable_unit", "systemd_reload_daemon",
    "ovs_list_bridges", "ovs_show_bridge", "ovs_list_ports", "ovs_dump_flows", "ovs_add_bridge", "ovs_del_bridge",
    "ovs_add_port", "ovs_del_port", "ovs_add_flow", "ovs_del_flows",
)
# fmt: on

_PLUGINS = ("systemd", "network", "packagekit", "firewall", "users", "storage", "lxc", "openflow", "privacy")
_PLUGIN_TOOLS = tuple(f"plugin_{plugin}_{step}" for plugin in _PLUGINS for step in ("query", "diff", "apply"))

RESERVED_NAMES: Mapping[str, str] = {
    **dict.fromkeys(_BOT_TOOLS, "a built-in tool of bots"),
    **dict.fromkeys([*_HOST_TOOLS, *_PLUGIN_TOOLS], "a built-in tool of hosts"),
}
"""Reserved names, each with the kind of tool that it is reserved for."""
