"""Requests in the words of administrators lead to the right tools of a host."""

from __future__ import annotations

import pytest

from toolcaddie import Runtime
from toolcaddie.parts import Parts
from toolcaddie.registry import Registry
from toolcaddie.storage.memory import MemoryStore
from toolcaddie.testing import ScriptedProvider

pytestmark = pytest.mark.anyio

_REQUESTS = {
    "is nginx running": "systemd_unit_status",
    "why did nginx fail": "systemd_unit_status",
    "restart nginx": "systemd_restart_unit",
    "list services": "systemd_list_units",
    "how much disk space is free": "plugin_storage_query",
    "firewall rules": "plugin_firewall_query",
    "block a port": "plugin_firewall_diff",
    "open port 443": "plugin_firewall_diff",
    "list users": "plugin_users_query",
    "create an account": "plugin_users_diff",
    "install htop": "plugin_packagekit_diff",
    "which version of openssl is installed": "plugin_packagekit_query",
    "ip address": "list_network_interfaces",
    "add a route": "plugin_network_diff",
    "default gateway": "plugin_network_query",
    "why is the machine slow": "procfs_read",
    "log of nginx": "read_file",
    "edit a configuration file": "write_file",
    "start a container": "plugin_lxc_diff",
    "add a port to a bridge": "ovs_add_port",
    "block all outgoing connections": "plugin_privacy_diff",
    "ping a host": "shell_execute",
}
_SHOWN = 10
"""Hits that `search_tools` shows unless the model asks for more."""


@pytest.mark.parametrize(("request_text", "name"), _REQUESTS.items())
async def test_a_search_in_plain_words_shows_the_tool(request_text: str, name: str) -> None:
    source = Registry().make("source", "host", {}, Parts(store=MemoryStore()))
    async with Runtime(provider=ScriptedProvider([]), sources=[source], preset="compact") as runtime:
        hits = await runtime.desk().search(request_text, limit=_SHOWN)
    assert name in [tool.name for tool in hits]
