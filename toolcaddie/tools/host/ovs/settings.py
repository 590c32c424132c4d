"""Settings of Open vSwitch, and the names of bridges and ports that are accepted."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from msgspec import Struct

from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.numbers import Seconds

_BRIDGE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}")
"""The name of a bridge is also that of a network device and of a socket, `BRIDGE.mgmt`."""
_PORT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_TCP = re.compile(r"(?:\[([0-9a-fA-F:]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})")


class OvsSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `ovs` of the source `host`."""

    database: str = "unix:/var/run/openvswitch/db.sock"
    """The address of ovsdb-server: `unix:PATH`, or `tcp:HOST:PORT`, which is not encrypted."""
    folder: str = "/var/run/openvswitch"
    """The folder of the sockets `BRIDGE.mgmt` of ovs-vswitchd."""
    bridges: tuple[str, ...] = ("*",)
    """Patterns of the bridges that may be seen and changed; others do not exist for the tools."""
    timeout: Seconds = 10.0
    """Seconds for one request, and again for ovs-vswitchd to take a change."""

    def allows(self, bridge: str) -> bool:
        """Returns whether a bridge may be seen and changed."""
        return any(fnmatchcase(bridge, pattern) for pattern in self.bridges)

    def bridge(self, name: str) -> str:
        """Returns the name of a bridge, checked. Raises `RequestError`."""
        if not _BRIDGE.fullmatch(name):
            raise RequestError(
                f"bridge {name[:40]!r}: the name of a bridge has 1 to 15 letters, digits, dots, dashes and underscores, "
                "and begins with none of . and -"
            )
        if not self.allows(name):
            raise RequestError(
                f"bridge {name!r}: the settings do not allow it; the tools may use {', '.join(self.bridges) or 'no bridge'}"
            )
        return name


def port_name(name: str) -> str:
    """Returns the name of a port, checked. Raises `RequestError`."""
    if not _PORT.fullmatch(name):
        raise RequestError(
            f"port {name[:40]!r}: the name of a port has 1 to 63 letters, digits, dots, dashes and underscores, "
            "and begins with none of . and -"
        )
    return name


class Address(Struct, frozen=True, kw_only=True):
    """An address of ovsdb-server."""

    path: str = ""
    """Of its unix socket; empty: it is reached by TCP."""
    host: str = ""
    port: int = 0


def address_of(text: str) -> Address:
    """Returns the address that the settings name. Raises `ConfigError`."""
    kind, _, rest = text.partition(":")
    if kind == "unix" and rest.startswith("/") and "\0" not in rest:
        return Address(path=rest)
    match = _TCP.fullmatch(rest) if kind == "tcp" else None
    if match is not None and 0 < int(match[3]) < 65536:
        return Address(host=match[1] or match[2], port=int(match[3]))
    raise ConfigError(
        f"ovs: database is {text!r}; write unix: and the absolute path of a socket, or tcp:HOST:PORT; ssl is not supported"
    )
