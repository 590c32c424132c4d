"""The IP addresses that are not part of the public Internet, with the use of each range."""

from __future__ import annotations

import ipaddress


def why_not_public(address: str) -> str | None:
    """Returns the reason why an address is not part of the public Internet; None: it is public.

    `address` is an IPv4 or IPv6 address as sockets write it. It is compared with the tables below and not with
    `ipaddress.is_global`, which accepts addresses that a tunnel or a cloud maps to internal ones.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "it is not an IP address"
    value = int(parsed)
    if isinstance(parsed, ipaddress.IPv4Address):
        return _range_use(value, _CLOSED_4)
    if value >> 125 != 0b001:
        return _range_use(value, _OUTSIDE_6) or "outside 2000::/3, the public part of IPv6"
    if (value >> 32) & 0xFFFFFFFF in (0x00005EFE, 0x02005EFE):
        return "an IPv4 address in an ISATAP tunnel"
    return _range_use(value, _CLOSED_6)


Range = tuple[int, int, str]
"""First and last address, and their use."""


def _range_use(value: int, table: tuple[Range, ...]) -> str | None:
    """Returns the use of the first range that contains the address; None: no range of the table contains it."""
    return next((use for first, last, use in table if first <= value <= last), None)


def _table(text: str) -> tuple[Range, ...]:
    """Returns the ranges of a table with a network and its use in each line."""
    ranges = []
    for line in text.strip().splitlines():
        network, use = line.split(maxsplit=1)
        parsed = ipaddress.ip_network(network)
        ranges.append((int(parsed.network_address), int(parsed.broadcast_address), use))
    return tuple(ranges)


_CLOSED_4 = _table(
    """
    0.0.0.0/8          this network
    10.0.0.0/8         private
    100.64.0.0/10      carrier-grade NAT
    127.0.0.0/8        loopback
    168.63.129.16/32   Azure's host service
    169.254.0.0/16     link-local, cloud metadata
    172.16.0.0/12      private
    192.0.0.0/24       protocol assignments, cloud metadata
    192.0.2.0/24       documentation
    192.88.99.0/24     6to4 relay
    192.168.0.0/16     private
    198.18.0.0/15      benchmarking
    198.51.100.0/24    documentation
    203.0.113.0/24     documentation
    224.0.0.0/4        multicast
    240.0.0.0/4        reserved, broadcast
    """
)
"""IPv4 addresses that are refused."""

_CLOSED_6 = _table(
    """
    2001::/32       Teredo tunnel
    2001::/23       protocol assignments
    2001:db8::/32   documentation
    2002::/16       6to4 tunnel
    3fff::/20       documentation
    """
)
"""Addresses within the public part of IPv6 that are refused."""

_OUTSIDE_6 = _table(
    """
    ::/128            unspecified
    ::1/128           loopback
    ::ffff:0:0/96     an IPv4 address in IPv6
    ::ffff:0:0:0/96   an IPv4 address in IPv6
    ::/96             an IPv4 address in IPv6
    64:ff9b::/96      NAT64, an IPv4 address behind a translator
    64:ff9b:1::/48    NAT64, an IPv4 address behind a translator
    100::/64          discard
    100:0:0:1::/64    dummy prefix
    5f00::/16         segment routing
    fc00::/7          unique local
    fe80::/10         link-local
    fec0::/10         site-local
    ff00::/8          multicast
    """
)
"""Addresses outside the public part of IPv6. All such addresses are refused; the table only names the use of some."""
