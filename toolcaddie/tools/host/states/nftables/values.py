"""Checks values of rules that come from a model, and writes them in one way."""

from __future__ import annotations

import re
from ipaddress import ip_network

from toolcaddie.core.errors import RequestError

_RANGE = re.compile(r"([1-9]\d{0,4})-([1-9]\d{0,4})\Z", re.ASCII)
_HIGHEST_PORT = 65_535


def network_text(place: str, text: str) -> str:
    """Returns an address or network as `10.0.0.0/8`. Raises `RequestError`; `place` says where the value stands."""
    try:
        network = ip_network(text)
    except ValueError as error:
        raise RequestError(
            f"{place}: {text[:60]!r} is not an address or a network such as 10.0.0.0/8; names are not resolved"
        ) from error
    if "%" in text:
        raise RequestError(f"{place}: {text[:60]!r} has a scope; leave it out")
    return str(network)


def port_value(place: str, port: int | str | None, protocol: str) -> int | str | None:
    """Returns a port, or a range of ports as `8000-8100`. Raises `RequestError`."""
    if port is None:
        return None
    if protocol not in ("tcp", "udp"):
        raise RequestError(f"{place}: a port needs the protocol tcp or udp")
    if isinstance(port, str) and port.isascii() and port.isdecimal() and len(port) <= 5:
        port = int(port)
    if isinstance(port, int):
        if not 1 <= port <= _HIGHEST_PORT:
            raise RequestError(f"{place}: a port is between 1 and {_HIGHEST_PORT}, not {port}")
        return port
    bounds = _RANGE.match(port)
    if bounds is None or not int(bounds[1]) < int(bounds[2]) <= _HIGHEST_PORT:
        raise RequestError(f"{place}: {port[:40]!r} is not a port or a range such as 8000-8100")
    return port
