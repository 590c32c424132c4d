"""Rows of the database of Open vSwitch: bridges, their ports, and the interfaces of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcaddie.core.errors import HostError
from toolcaddie.core.tool import JsonObject
from toolcaddie.tools.host.ovs.ovsdb import Operation

_BRIDGE = ("_uuid", "name", "ports", "datapath_type", "datapath_id", "fail_mode", "protocols", "stp_enable")
_PORT = ("_uuid", "name", "interfaces", "tag", "trunks", "vlan_mode")
_INTERFACE = ("_uuid", "name", "type", "ofport", "mac_in_use", "admin_state", "link_state", "mtu", "error")
_ROOT = ("_uuid", "cur_cfg", "next_cfg")
LOCAL_PORT = 65534
"""The OpenFlow number of the port that has the name of its bridge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """A network device of a port."""

    name: str
    kind: str
    """Such as `internal`; empty: a device of the machine."""
    number: int | None
    """The number in flows; None: ovs-vswitchd has given none. Below 0: it could not."""
    details: JsonObject
    """Other columns that have a value."""
    error: str
    """The reason why ovs-vswitchd cannot use it; empty: it can."""

    def shown(self) -> JsonObject:
        number = {} if self.number is None else {"number": self.number}
        error = {"error": self.error} if self.error else {}
        return {"name": self.name, "type": self.kind or "system", **number, **self.details, **error}


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port of a bridge. One with several interfaces is a bond."""

    uuid: str
    name: str
    interfaces: tuple[Interface, ...]
    details: JsonObject
    """Its tag and other columns that have a value."""

    def shown(self) -> JsonObject:
        return {"name": self.name, **self.details, "interfaces": [interface.shown() for interface in self.interfaces]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """A bridge."""

    uuid: str
    name: str
    ports: tuple[Port, ...]
    """By name; the first is the one with the name of the bridge."""
    port_uuids: tuple[str, ...]
    details: JsonObject

    def shown(self) -> JsonObject:
        return {"name": self.name, **self.details, "ports": [port.shown() for port in self.ports]}

    def port(self, name: str) -> Port | None:
        return next((port for port in self.ports if port.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All bridges at one moment."""

    root: str
    """The row under which all others are."""
    is_current: bool
    """True: ovs-vswitchd has taken all changes."""
    bridges: Mapping[str, Bridge]
    """By name."""

    def holder(self, name: str) -> str:
        """Returns what has this name already, which no other bridge, port or interface may have; empty: nothing has."""
        if name in self.bridges:
            return f"bridge {name}"
        for bridge in self.bridges.values():
            for port in bridge.ports:
                if name == port.name or any(name == interface.name for interface in port.interfaces):
                    return f"port {port.name}"
        return ""


def selection() -> list[Operation]:
    """Returns the operations that read everything at one moment."""
    tables = {"Open_vSwitch": _ROOT, "Bridge": _BRIDGE, "Port": _PORT, "Interface": _INTERFACE}
    return [{"op": "select", "table": table, "where": [], "columns": columns} for table, columns in tables.items()]


def snapshot(results: list[dict[str, Any]]) -> Snapshot:
    """Returns the bridges of the results of these operations. Raises `HostError`."""
    try:
        roots, bridges, ports, interfaces = ([_row(row) for row in result["rows"]] for result in results)
        if not roots:
            raise HostError("the database of Open vSwitch is empty; start ovs-vswitchd with it, or initialise it")
        by_uuid = {row["_uuid"]: _interface(row) for row in interfaces}
        known = {row["_uuid"]: _port(row, by_uuid) for row in ports}
        all_bridges = sorted((_bridge(row, known) for row in bridges), key=lambda bridge: bridge.name)
        return Snapshot(
            root=roots[0]["_uuid"],
            is_current=roots[0]["cur_cfg"] >= roots[0]["next_cfg"],
            bridges={bridge.name: bridge for bridge in all_bridges},
        )
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise HostError("the rows of the database of Open vSwitch cannot be read") from error


def _bridge(row: JsonObject, ports: Mapping[str, Port]) -> Bridge:
    uuids = _many(row["ports"])
    mine = sorted((ports[uuid] for uuid in uuids), key=lambda port: (port.name != row["name"], port.name))
    details = _details(row, _BRIDGE, "_uuid", "name", "ports")
    return Bridge(uuid=row["_uuid"], name=row["name"], ports=tuple(mine), port_uuids=tuple(uuids), details=details)


def _port(row: JsonObject, interfaces: Mapping[str, Interface]) -> Port:
    mine = sorted((interfaces[uuid] for uuid in _many(row["interfaces"])), key=lambda interface: interface.name)
    details = _details(row, _PORT, "_uuid", "name", "interfaces")
    return Port(uuid=row["_uuid"], name=row["name"], interfaces=tuple(mine), details=details)


def _interface(row: JsonObject) -> Interface:
    return Interface(
        name=row["name"],
        kind=row["type"],
        number=row["ofport"] if isinstance(row["ofport"], int) else None,
        details=_details(row, _INTERFACE, "_uuid", "name", "type", "ofport", "error"),
        error=row["error"] if isinstance(row["error"], str) else "",
    )


def _row(row: JsonObject) -> JsonObject:
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    """Returns a value of RFC 7047 as Python has it: a set as a list, a UUID as text."""
    match value:
        case ["set", list(members)]:
            return [_value(member) for member in members]
        case ["uuid", str(uuid)]:
            return uuid
        case ["map", list(pairs)]:
            return {str(key): _value(member) for key, member in pairs}
        case _:
            return value


def _many(value: Any) -> list[str]:
    """Returns the members of a set, which RFC 7047 writes without brackets if it is one."""
    return value if isinstance(value, list) else [value]


def _details(row: JsonObject, columns: tuple[str, ...], *others: str) -> JsonObject:
    empty: tuple[Any, ...] = ("", [], False)
    return {name: row[name] for name in columns if name not in others and row[name] not in empty}
