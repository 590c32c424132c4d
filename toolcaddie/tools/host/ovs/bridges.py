"""Bridges and their ports: reads and changes them in the database, and waits until ovs-vswitchd has taken a change."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.ovs.ovsdb import ConflictError, Operation, Ovsdb
from toolcaddie.tools.host.ovs.rows import Bridge, Port, Snapshot, selection, snapshot
from toolcaddie.tools.host.ovs.settings import OvsSettings
from toolcaddie.tools.host.ovs.switch import Switch
from toolcaddie.util.suggest import did_you_mean

_GRACE = 2.0
"""Seconds that the answer of ovsdb-server to a request that waits may come later."""


class Bridges:
    """The bridges that the settings allow."""

    def __init__(self, settings: OvsSettings, database: Ovsdb) -> None:
        self.settings = settings
        self._database = database

    async def all(self) -> Sequence[Bridge]:
        """Returns the bridges, by name. Raises `HostError`."""
        bridges = (await self._snapshot()).bridges
        return [bridge for name, bridge in bridges.items() if self.settings.allows(name)]

    async def get(self, name: str) -> Bridge:
        """Returns a bridge. Raises `RequestError` for a name that is not allowed, and `HostError` if there is none."""
        return self._bridge(await self._snapshot(), self.settings.bridge(name))

    async def switch(self, name: str) -> Switch:
        """Returns the flows of a bridge. Raises `RequestError` and `HostError` as `get` does."""
        return self.flows_of(await self.get(name))

    def flows_of(self, bridge: Bridge) -> Switch:
        """Returns the flows of a bridge."""
        return Switch(bridge.name, self.settings.folder, self.settings.timeout)

    async def add(self, name: str) -> Bridge:
        """Makes a bridge. Raises `RequestError` and `HostError`; then there is none."""
        present = await self._before_change()
        self._check_free(present, self.settings.bridge(name))
        await self._change(present, [*_unused(name), *_new_bridge(present.root, name)], f"bridge {name}")
        bridge = await self.get(name)
        if problem := _problem(bridge.port(name)):
            await self._undone(self.remove(name), f"bridge {name}", problem)
        return bridge

    async def remove(self, name: str) -> Bridge:
        """Removes a bridge with its ports, and returns what it was. Raises `RequestError` and `HostError`."""
        present = await self._before_change()
        bridge = self._bridge(present, self.settings.bridge(name))
        ports = ["set", [_uuid(uuid) for uuid in bridge.port_uuids]]
        operations = [
            _wait("Bridge", [["_uuid", "==", _uuid(bridge.uuid)]], {"name": name, "ports": ports}),
            _mutate("Open_vSwitch", present.root, "bridges", "delete", _uuid(bridge.uuid)),
        ]
        await self._change(present, operations, f"bridge {name}")
        return bridge

    async def add_port(self, bridge_name: str, name: str) -> Port:
        """Adds a network device of this name to a bridge. Raises `RequestError` and `HostError`; then it is not added."""
        present = await self._before_change()
        bridge = self._bridge(present, self.settings.bridge(bridge_name))
        self._check_free(present, name)
        operations = [
            *_unused(name),
            _wait("Bridge", [["_uuid", "==", _uuid(bridge.uuid)]], {"name": bridge.name}),
            {"op": "insert", "table": "Interface", "row": {"name": name}, "uuid-name": "new_interface"},
            _insert("Port", {"name": name, "interfaces": ["named-uuid", "new_interface"]}, "new_port"),
            _mutate("Bridge", bridge.uuid, "ports", "insert", ["named-uuid", "new_port"]),
        ]
        await self._change(present, operations, f"port {name}")
        port = (await self.get(bridge_name)).port(name)
        if port is None:
            raise HostError(f"port {name}: somebody has removed it again")
        if problem := _problem(port):
            await self._undone(self.remove_port(bridge_name, name), f"port {name}", problem)
        return port

    async def remove_port(self, bridge_name: str, name: str) -> Port:
        """Removes a port from a bridge, and returns what it was. Raises `RequestError` and `HostError`."""
        present = await self._before_change()
        bridge = self._bridge(present, self.settings.bridge(bridge_name))
        port = bridge.port(name)
        if port is None:
            raise HostError(
                f"bridge {bridge.name} has no port {name}: {did_you_mean(name, [p.name for p in bridge.ports])}"
            )
        if name == bridge.name:
            raise HostError(f"port {name} belongs to the bridge itself; ovs_del_bridge removes both")
        where = [["_uuid", "==", _uuid(bridge.uuid)], ["ports", "includes", _uuid(port.uuid)]]
        operations = [
            _wait("Bridge", where, {"name": bridge.name}),
            _mutate("Bridge", bridge.uuid, "ports", "delete", _uuid(port.uuid)),
        ]
        await self._change(present, operations, f"port {name}")
        return port

    async def _snapshot(self) -> Snapshot:
        return snapshot(await self._database.read(selection()))

    async def _before_change(self) -> Snapshot:
        """Returns the bridges. Raises `HostError` if ovs-vswitchd is not running, because a change would then stay a wish."""
        if not await self._database.is_served():
            raise HostError(
                "ovs-vswitchd is not running, so nothing was changed; start it, such as the unit openvswitch-switch"
            )
        return await self._snapshot()

    async def _change(self, present: Snapshot, operations: Sequence[Operation], what: str) -> None:
        """Makes a change, and waits until ovs-vswitchd has taken it. Raises `HostError`."""
        counted = {
            "op": "mutate",
            "table": "Open_vSwitch",
            "where": [["_uuid", "==", _uuid(present.root)]],
            "mutations": [["next_cfg", "+=", 1]],
        }
        shown = {"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["next_cfg"]}
        try:
            results = await self._database.transact([*operations, counted, shown])
        except ConflictError as error:
            raise HostError(
                f"{what}: somebody else has changed the bridges at this moment, so nothing was done; look again ({error})"
            ) from error
        await self._taken(present.root, _number(results), what)

    async def _taken(self, root: str, number: int, what: str) -> None:
        seconds = self.settings.timeout
        # The server answers when the row of this condition is there.
        where = [["_uuid", "==", _uuid(root)], ["cur_cfg", ">=", number]]
        waiting = {**_wait("Open_vSwitch", where, {"_uuid": _uuid(root)}), "timeout": int(seconds * 1000)}
        try:
            await self._database.transact([waiting], timeout=seconds + _GRACE)
        except ConflictError as error:
            running = "it is running" if await self._database.is_served() else "it is not running any more"
            raise HostError(
                f"{what}: the change is in the database, but ovs-vswitchd has not taken it within {seconds:g} s; {running}"
            ) from error

    async def _undone(self, undoing: Awaitable[object], what: str, problem: str) -> None:
        """Undoes a change that ovs-vswitchd cannot make, and raises `HostError`."""
        try:
            await undoing
        except HostError as error:
            raise HostError(
                f"{what}: ovs-vswitchd cannot use it: {problem}. It could not be removed: {error}"
            ) from error
        raise HostError(f"{what}: ovs-vswitchd cannot use it: {problem}. It was removed again")

    def _bridge(self, present: Snapshot, name: str) -> Bridge:
        bridge = present.bridges.get(name)
        if bridge is None:
            names = [other for other in present.bridges if self.settings.allows(other)]
            raise HostError(f"there is no bridge {name}{': ' + did_you_mean(name, names) if names else ''}")
        return bridge

    def _check_free(self, present: Snapshot, name: str) -> None:
        if holder := present.holder(name):
            raise HostError(f"{name}: this name is that of the {holder} already")


def _problem(port: Port | None) -> str:
    """Returns the reason why ovs-vswitchd cannot use a port; empty: it can."""
    if port is None:
        return "it has no port of its own"
    for interface in port.interfaces:
        if interface.error or interface.number is None or interface.number < 0:
            return interface.error or "it has given it no number"
    return ""


def _unused(name: str) -> list[Operation]:
    return [_wait(table, [["name", "==", name]]) for table in ("Bridge", "Port", "Interface")]


def _new_bridge(root: str, name: str) -> list[Operation]:
    return [
        _insert("Interface", {"name": name, "type": "internal"}, "new_interface"),
        _insert("Port", {"name": name, "interfaces": ["named-uuid", "new_interface"]}, "new_port"),
        _insert("Bridge", {"name": name, "ports": ["named-uuid", "new_port"]}, "new_bridge"),
        _mutate("Open_vSwitch", root, "bridges", "insert", ["named-uuid", "new_bridge"]),
    ]


def _wait(table: str, where: list[Any], *rows: dict[str, Any]) -> Operation:
    """Returns an operation that fails the transaction unless the rows that `where` selects are these."""
    columns = list(rows[0]) if rows else ["_uuid"]
    return {
        "op": "wait",
        "table": table,
        "where": where,
        "columns": columns,
        "until": "==",
        "rows": list(rows),
        "timeout": 0,
    }


def _insert(table: str, row: dict[str, Any], name: str) -> Operation:
    return {"op": "insert", "table": table, "row": row, "uuid-name": name}


def _mutate(table: str, uuid: str, column: str, mutator: str, member: Any) -> Operation:
    mutations = [[column, mutator, ["set", [member]]]]
    return {"op": "mutate", "table": table, "where": [["_uuid", "==", _uuid(uuid)]], "mutations": mutations}


def _uuid(uuid: str) -> list[str]:
    return ["uuid", uuid]


def _number(results: list[dict[str, Any]]) -> int:
    try:
        return int(results[-1]["rows"][0]["next_cfg"])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise HostError("ovsdb-server has made the change, but its answer cannot be read") from error
