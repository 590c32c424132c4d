"""Makes changes to containers: deletes, then changes, then creates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.core.errors import HostError
from toolcaddie.core.states import Change
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.lxc.client import LxcClient, LxcRefusedError
from toolcaddie.tools.host.states.lxc.containers import IMAGE_KEY, attributes, configuration

_FINGERPRINT = re.compile(r"[0-9a-f]{12,64}")
_CHANGED_MEANWHILE = 412
_ORDER = ("delete", "modify", "create")
_STOPPING_SECONDS = 30
_WRITABLE = ("architecture", "config", "description", "devices", "ephemeral", "profiles", "stateful")
"""The parts of a container that a request replaces."""


async def make(client: LxcClient, changes: Sequence[Change], *, servers: Mapping[str, str]) -> None:
    """Makes the changes. `servers`: that of each image; empty: it is one of this machine. Raises `HostError`."""
    for change in sorted(changes, key=lambda each: _ORDER.index(each.action)):
        match change.action:
            case "create":
                await _create(client, change.target, change.after or {}, servers)
            case "modify":
                await _modify(client, change.target, change.before or {}, change.after or {})
            case "delete":
                await _delete(client, change.target, change.before or {})


async def _create(client: LxcClient, name: str, after: JsonObject, servers: Mapping[str, str]) -> None:
    await client.change(
        "POST",
        "/1.0/instances",
        {
            "name": name,
            "type": "container",
            "description": after["description"],
            "profiles": after["profiles"],
            "config": configuration({IMAGE_KEY: after["image"]}, after),
            "source": _source(after["image"], servers[after["image"]]),
        },
    )
    if after["running"]:
        await _switch(client, name, running=True)


def _source(image: str, server: str) -> dict[str, Any]:
    name = {"fingerprint" if _FINGERPRINT.fullmatch(image) else "alias": image}
    if not server:
        return {"type": "image", **name}
    return {"type": "image", "mode": "pull", "server": server, "protocol": "simplestreams", **name}


async def _modify(client: LxcClient, name: str, before: JsonObject, after: JsonObject) -> None:
    if any(before[key] != after[key] for key in after if key != "running"):
        await _configure(client, name, before, after)
    if before["running"] != after["running"]:
        await _switch(client, name, running=after["running"])


async def _configure(client: LxcClient, name: str, before: JsonObject, after: JsonObject) -> None:
    """Replaces the configuration, unless it is no longer the one for which the change was planned."""
    answer = await client.get(f"/1.0/instances/{name}")
    instance = answer.metadata
    if not isinstance(instance, dict) or attributes(instance) != before:
        raise HostError(f"{name} was changed by somebody else meanwhile")
    body = {key: instance[key] for key in _WRITABLE if key in instance} | {
        "description": after["description"],
        "profiles": after["profiles"],
        "config": configuration(instance.get("config") or {}, after),
    }
    try:
        await client.change("PUT", f"/1.0/instances/{name}", body, etag=answer.etag)
    except LxcRefusedError as error:
        if error.code == _CHANGED_MEANWHILE:
            raise HostError(f"{name} was changed by somebody else meanwhile") from error
        raise


async def _switch(client: LxcClient, name: str, *, running: bool, force: bool = False) -> None:
    action = "start" if running else "stop"
    body = {"action": action, "timeout": 0 if force else _STOPPING_SECONDS, "force": force}
    await client.change("PUT", f"/1.0/instances/{name}/state", body)


async def _delete(client: LxcClient, name: str, before: JsonObject) -> None:
    """Deletes a container, after it was stopped at once: its files are deleted anyway."""
    if before["running"]:
        await _switch(client, name, running=False, force=True)
    await client.change("DELETE", f"/1.0/instances/{name}")
