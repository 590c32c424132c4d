"""Addresses of servers: where they begin, and whether one lies below another."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

_PORTS = {"http": 80, "https": 443}


def origin(address: str) -> tuple[str, str, int | None]:
    """Returns the scheme, the host and the port of an address. Raises `ValueError` for a port that is no number."""
    parts = urlsplit(address)
    return parts.scheme.lower(), (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme.lower())


def lies_below(address: str, base: str) -> bool:
    """Returns True if the address has the origin of `base` and a path below its path."""
    try:
        if origin(address) != origin(base):
            return False
    except ValueError:
        return False
    path, start = urlsplit(address).path.rstrip("/") + "/", urlsplit(base).path.rstrip("/") + "/"
    return path.startswith(start) and ".." not in path.split("/")


def joined(base: str, address: str) -> str:
    """Returns an address that may be relative to `base`; empty if it is no address."""
    try:
        whole = urljoin(base, address)
        origin(whole)
    except ValueError:
        return ""
    return whole
