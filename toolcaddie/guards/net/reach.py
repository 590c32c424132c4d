"""Says where a guarded client may go: ports, hosts, and the private hosts that the operator names.

Reach(ports=(80, 443), domains=("example.com", "*.example.org"), private_hosts=("localhost:8080",))
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta
from yarl import URL

from toolcaddie.core.errors import ConfigError

Host = Annotated[
    str,
    Meta(
        pattern=r"^(\*\.)?[^\s/:@*?#]{1,253}\Z",
        description="with the name of a host and nothing else, such as example.com or *.example.com: no https://, port or path",
    ),
]
"""A host name, or `*.example.com` for every name below `example.com`."""
HostPort = Annotated[
    str,
    Meta(
        pattern=r"^(\[[0-9A-Fa-f:.]+\]|[^\s/:@\[\]]+):[0-9]{1,5}\Z",
        description="with a host and its port, such as 127.0.0.1:8080",
    ),
]
"""A host with its port, such as `localhost:8080` or `[::1]:8080`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where a guarded client may go."""

    ports: Sequence[int] | None = None
    """None: any port."""
    domains: Sequence[str] = ()
    """Hosts; `*.example.com` stands for every name below `example.com`. Empty: any public host."""
    private_hosts: Sequence[HostPort] = ()
    """Servers of the operator that may be reached although they are private, each with its exact host and port. They need not be
    named in `ports` and `domains`."""

    def __post_init__(self) -> None:
        """Raises `ConfigError` for a private host without a port."""
        for name in self.private_hosts:
            _host_and_port(name)

    def is_private_host(self, url: URL) -> bool:
        """Returns True if the URL leads to one of the private hosts."""
        return (plain_host(url.raw_host or ""), url.port) in set(map(_host_and_port, self.private_hosts))

    def may_open(self, address: str, port: int) -> bool:
        """Returns True if an IP address and port can belong to one of the private hosts. A name may have any address."""
        named = [host for host, its_port in map(_host_and_port, self.private_hosts) if its_port == port]
        return any(_same_address(host, address) if _is_address(host) else True for host in named)

    def may_look_up(self, host: str) -> bool:
        """Returns True for the name of a private host."""
        return plain_host(host) in {name for name, _ in map(_host_and_port, self.private_hosts)}


ANYWHERE_PUBLIC = Reach()
"""Every port of every public host."""


def host_matches(host: str, patterns: Iterable[str]) -> bool:
    """Returns True if a host name is in a list. `*.example.com` stands for every name below `example.com`, not for it."""
    plain = plain_host(host)
    return any(_matches(plain, plain_host(pattern)) for pattern in patterns)


def plain_host(host: str) -> str:
    """Returns a host name in the form in which names are compared: ASCII, lower case, without a dot at its end."""
    return (host if host.isascii() else _ascii(host)).lower().rstrip(".")


def _ascii(host: str) -> str:
    """Returns the ASCII form of a name with other letters, which a URL has too. Empty, which matches nothing: there is none."""
    wildcard, name = ("*.", host[2:]) if host.startswith("*.") else ("", host)
    try:
        return wildcard + (URL.build(scheme="http", host=name).raw_host or "")
    except ValueError:
        return ""


def _matches(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return bool(host) and host == pattern


def _host_and_port(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"the private host {name!r} needs a host and a port; write it like localhost:8080")
    return plain_host(host.strip("[]")), int(port)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _same_address(one: str, other: str) -> bool:
    return ipaddress.ip_address(one) == ipaddress.ip_address(other.partition("%")[0])
