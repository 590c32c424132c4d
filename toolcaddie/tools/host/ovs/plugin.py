"""The state plugin `openflow`: the flows of all bridges that the settings allow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import ClassVar

from toolcaddie.core.errors import RequestError
from toolcaddie.core.states import BackEnd, Change, State
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.ovs.actions import actions_text, parsed_actions
from toolcaddie.tools.host.ovs.bridges import Bridges
from toolcaddie.tools.host.ovs.fields import number
from toolcaddie.tools.host.ovs.flows import FLAGS, MOST_COOKIE, Flow, parsed_flow
from toolcaddie.tools.host.ovs.group import back_ends
from toolcaddie.tools.host.ovs.ovsdb import Ovsdb
from toolcaddie.tools.host.ovs.settings import OvsSettings, address_of
from toolcaddie.util.replacing import replace

_SECONDS = {"type": "integer", "minimum": 0, "maximum": 65535}
_EFFECTS: Mapping[str, str] = {"create": "ovs.add-flow", "modify": "ovs.add-flow", "delete": "ovs.del-flow"}


class OpenFlowPlugin:
    """Implements `ports.StatePlugin`. A thing is a flow, by its bridge, table, priority and match."""

    name = "openflow"
    description = "Flows by BRIDGE/table=0,priority=100,tcp,nw_dst=10.0.0.1: actions, such as output:2."
    may_lock_out = True
    attributes: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "actions": {"type": "string", "maxLength": 200_000, "description": "Such as output:2 or drop"},
            "cookie": {"type": "string", "pattern": "^0x[0-9a-f]{1,16}$"},
            "idle_timeout": _SECONDS,
            "hard_timeout": _SECONDS,
            "flags": {"type": "array", "items": {"enum": list(FLAGS)}, "maxItems": len(FLAGS)},
        },
        "additionalProperties": False,
    }

    def __init__(self, settings: OvsSettings) -> None:
        self._settings = settings
        self._database = Ovsdb(address_of(settings.database), settings.timeout)
        self._bridges = Bridges(settings, self._database)

    async def query(self) -> State:
        state: dict[str, JsonObject] = {}
        for bridge in await self._bridges.all():
            for each in await self._bridges.flows_of(bridge).flows():
                state[f"{bridge.name}/{each.flow.key}"] = _attributes(each.flow)
        return state

    def planned(self, target: str, desired: JsonObject | None, current: JsonObject | None) -> JsonObject | None:
        if current is not None and desired == current:
            return current  # also a flow that is not understood here
        key = self._key(target)
        if current is not None:
            _check_known(target, current)
        return None if desired is None else _attributes(_flow(key, desired, current or {}))

    def effects(self, change: Change) -> tuple[str, ...]:
        return (f"{_EFFECTS[change.action]} {change.target.partition('/')[0]}",)

    def question(self, change: Change) -> str:
        return ""  # a deletion asks in any case

    async def apply(self, changes: Sequence[Change]) -> None:
        by_bridge: dict[str, list[Change]] = defaultdict(list)
        for change in changes:
            by_bridge[change.target.partition("/")[0]].append(change)
        for bridge, its_changes in by_bridge.items():
            removed = [self._key(change.target).selection for change in its_changes if change.after is None]
            added = [
                _flow(self._key(change.target), change.after, {}) for change in its_changes if change.after is not None
            ]
            await (await self._bridges.switch(bridge)).change(removed=removed, added=added)

    async def back_ends(self) -> Sequence[BackEnd]:
        return await back_ends(self._settings, self._database)

    async def close(self) -> None:
        await self._database.close()

    def _key(self, target: str) -> Flow:
        """Returns a flow of this bridge, table, priority and match, without actions. Raises `RequestError`."""
        bridge, slash, key = target.partition("/")
        if not slash:
            raise RequestError(f"{target[:60]!r}: write BRIDGE/MATCH, such as br0/table=0,priority=100,tcp,tp_dst=80")
        self._settings.bridge(bridge)
        if "actions" in key:
            raise RequestError(
                f"{target[:200]!r}: the name of a flow ends with its match; the actions are an attribute"
            )
        flow = parsed_flow(f"{key},actions=drop")
        if flow.key != key:
            raise RequestError(f"{target[:200]!r}: write it as {bridge}/{flow.key}")
        return flow


def openflow(
    *,
    database: str = OvsSettings().database,
    folder: str = OvsSettings().folder,
    bridges: tuple[str, ...] = OvsSettings().bridges,
    timeout: float = OvsSettings().timeout,
) -> OpenFlowPlugin:
    """Returns the plugin. The settings are those of the group `ovs`. Raises `ConfigError`."""
    return OpenFlowPlugin(OvsSettings(database=database, folder=folder, bridges=bridges, timeout=timeout))


def _attributes(flow: Flow) -> JsonObject:
    return {
        "actions": actions_text(flow.actions),
        "cookie": f"{flow.cookie:#x}",
        "idle_timeout": flow.idle_timeout,
        "hard_timeout": flow.hard_timeout,
        "flags": list(flow.flags),
    }


def _flow(key: Flow, desired: JsonObject, current: JsonObject) -> Flow:
    """Returns the flow with the desired attributes, and the current ones where nothing is desired. Raises `RequestError`."""
    merged = {**_attributes(key), **current, **desired}
    return replace(
        key,
        actions=parsed_actions(merged["actions"], key.match, key.table),
        cookie=number(merged["cookie"], MOST_COOKIE, "cookie"),
        idle_timeout=merged["idle_timeout"],
        hard_timeout=merged["hard_timeout"],
        flags=tuple(flag for flag in FLAGS if flag in merged["flags"]),
    )


def _check_known(target: str, current: JsonObject) -> None:
    """Raises `RequestError` for a flow that could not be made again if the change had to be undone."""
    if "unknown_" in current["actions"]:
        raise RequestError(
            f"{target[:200]!r}: it has actions that are not known here, so its change could not be undone; "
            "use ovs_add_flow or ovs_del_flows"
        )
