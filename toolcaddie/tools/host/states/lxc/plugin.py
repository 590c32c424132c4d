"""The plugin itself.

[source.plugin.lxc]
images = { "debian/12" = "https://images.example.org", "our-base" = "" }   # name and server; "": an image of this machine
profiles = ["default"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from toolcaddie.core.errors import HostError
from toolcaddie.core.numbers import Seconds
from toolcaddie.core.states import BackEnd, Change, State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.states.lxc.client import INSTALL, LxcClient
from toolcaddie.tools.host.states.lxc.containers import CONFIG, attributes, is_container, mapping
from toolcaddie.tools.host.states.lxc.making import make
from toolcaddie.tools.host.states.lxc.planning import Allowed, planned

_TEXT: dict[str, Any] = {"type": "string", "maxLength": 2_000}
_NAMES: dict[str, Any] = {"type": "array", "items": _TEXT, "maxItems": 1_000}
_ATTRIBUTES: dict[str, Any] = {
    "running": {"type": "boolean"},
    "image": {**_TEXT, "description": "To create one; cannot be changed"},
    "profiles": _NAMES,
    "description": _TEXT,
    **dict.fromkeys(CONFIG, _TEXT),
    "other": {**_NAMES, "description": "Names of what was set by others; cannot be changed"},
}
_NO_IMAGES: Mapping[str, str] = MappingProxyType({})


def lxc(
    *,
    images: Mapping[str, str] = _NO_IMAGES,
    profiles: tuple[str, ...] = ("default",),
    socket: str = "",
    project: str = "default",
    timeout: Seconds = 20.0,
    operation_timeout: Seconds = 100.0,
) -> LxcPlugin:
    """Returns the plugin.

    `images`: the images of which containers may be created, each with the address of its server, or an empty text for an image of
    this machine. `profiles`: those that a container may have. `socket`: empty for that of Incus or LXD. `timeout`: seconds for an
    answer; `operation_timeout`: seconds for creating, starting or stopping a container. Raises `ConfigError`.
    """
    client = LxcClient(socket, project=project, timeout=timeout, operation_timeout=operation_timeout)
    return LxcPlugin(client, Allowed(images=dict(images), profiles=profiles))


class LxcPlugin:
    """Implements `ports.StatePlugin`. Virtual machines are no part of its state."""

    name = "lxc"
    description = "Containers of Incus or LXD: running, profiles, limits. An empty text: not set."
    attributes: ClassVar[JsonObject] = {"type": "object", "properties": _ATTRIBUTES, "additionalProperties": False}
    may_lock_out = False

    def __init__(self, client: LxcClient, allowed: Allowed) -> None:
        self._client = client
        self._allowed = allowed

    async def query(self) -> State:
        instances = (await self._client.get("/1.0/instances", recursion="1")).metadata
        if not isinstance(instances, list):
            raise HostError("the container server did not list its containers")
        return {each["name"]: attributes(each) for each in instances if is_container(each)}

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        return planned(self._allowed, target, desired, current)

    def effects(self, change: Change) -> tuple[str, ...]:
        before, after = change.before or {}, change.after or {}
        names: list[str] = []
        if change.action != "modify":
            names.append(change.action)
        elif any(before[key] != after[key] for key in after if key != "running"):
            names.append("modify")
        if before.get("running", False) != after.get("running", False):
            names.append("start" if after.get("running") else "stop")
        return tuple(f"lxc.{name} {change.target}" for name in names)

    def question(self, change: Change) -> str:
        if change.action == "delete":
            return f"deletes {change.target} with all its files and snapshots, which cannot be brought back"
        return ""

    async def apply(self, changes: Sequence[Change]) -> None:
        await make(self._client, changes, servers=self._allowed.images)

    async def back_ends(self) -> Sequence[BackEnd]:
        try:
            metadata = (await self._client.get("/1.0")).metadata
        except HostError as error:
            return (BackEnd(name="incus or lxd", present=False, detail=str(error), remedy=INSTALL),)
        server = mapping(metadata)
        environment = mapping(server.get("environment"))
        name = f"{environment.get('server', 'server')} {environment.get('server_version', '')}".strip()[:100]
        if server.get("auth") != "trusted":
            remedy = "run as a member of the group incus-admin or lxd"
            return (BackEnd(name="incus or lxd", present=False, detail=f"{name} does not trust us", remedy=remedy),)
        return (BackEnd(name="incus or lxd", present=True, detail=f"{name} at {self._client.socket()}"),)

    async def close(self) -> None:
        await self._client.close()
