"""The fields of packets that flows match and set: names, numbers in OpenFlow 1.3, and their values as text."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Literal

from msgspec import Struct

from toolcaddie.core.errors import RequestError

Kind = Literal["port", "mac", "ipv4", "ipv6", "hex", "decimal"]
Need = Literal["", "ip", "ipv4", "ipv6", "arp", "tcp", "udp", "sctp", "icmp", "icmp6", "vlan"]

OXM = 0x8000
"""The class of the fields of OpenFlow itself."""
VLAN_PRESENT = 0x1000
"""The bit of `vlan_vid` that says that a packet has a tag."""
PORT_NAMES = {
    "IN_PORT": 0xFFFFFFF8,
    "NORMAL": 0xFFFFFFFA,
    "FLOOD": 0xFFFFFFFB,
    "ALL": 0xFFFFFFFC,
    "CONTROLLER": 0xFFFFFFFD,
    "LOCAL": 0xFFFFFFFE,
}
MOST_PORTS = 0xFEFF
"""The largest number of a port that is no reserved one."""

_PORT_WORDS = {number: word for word, number in PORT_NAMES.items()}
_MAC = re.compile(r"[0-9a-fA-F]{1,2}(:[0-9a-fA-F]{1,2}){5}")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,32}|[0-9]{1,39}")
_PREFIX = re.compile(r"[0-9]{1,3}")


class Field(Struct, frozen=True, kw_only=True):
    """One field."""

    name: str
    """The name in `set_field`, as Open vSwitch writes it."""
    text: str
    """The name in a match."""
    number: int
    bits: int
    kind: Kind = "decimal"
    needs: Need = ""
    """The packets that have this field; empty: all have it."""
    masked: bool = False
    """True: a match may name some bits only."""
    settable: bool = True

    @property
    def size(self) -> int:
        """Bytes of a value."""
        return (self.bits + 7) // 8

    @property
    def full(self) -> int:
        """The mask of all bits, which is also the largest value."""
        return (1 << self.bits) - 1


FIELDS: tuple[Field, ...] = (
    # In the order in which they are sent: OpenFlow wants the type of a packet before the fields that only this type has.
    Field(name="tun_id", text="tun_id", number=38, bits=64, kind="hex", masked=True),
    Field(name="metadata", text="metadata", number=2, bits=64, kind="hex", masked=True),
    Field(name="in_port", text="in_port", number=0, bits=32, kind="port", settable=False),
    Field(name="eth_dst", text="dl_dst", number=3, bits=48, kind="mac", masked=True),
    Field(name="eth_src", text="dl_src", number=4, bits=48, kind="mac", masked=True),
    Field(name="eth_type", text="dl_type", number=5, bits=16, kind="hex", settable=False),
    Field(name="vlan_vid", text="vlan_vid", number=6, bits=13, kind="hex", masked=True, needs="vlan"),
    Field(name="vlan_pcp", text="dl_vlan_pcp", number=7, bits=3, needs="vlan"),
    Field(name="ip_dscp", text="nw_tos", number=8, bits=6, needs="ip"),
    Field(name="nw_ecn", text="nw_ecn", number=9, bits=2, needs="ip"),
    Field(name="nw_proto", text="nw_proto", number=10, bits=8, needs="ip", settable=False),
    Field(name="ip_src", text="nw_src", number=11, bits=32, kind="ipv4", masked=True, needs="ipv4"),
    Field(name="ip_dst", text="nw_dst", number=12, bits=32, kind="ipv4", masked=True, needs="ipv4"),
    Field(name="ipv6_src", text="ipv6_src", number=26, bits=128, kind="ipv6", masked=True, needs="ipv6"),
    Field(name="ipv6_dst", text="ipv6_dst", number=27, bits=128, kind="ipv6", masked=True, needs="ipv6"),
    Field(name="tcp_src", text="tp_src", number=13, bits=16, masked=True, needs="tcp"),
    Field(name="tcp_dst", text="tp_dst", number=14, bits=16, masked=True, needs="tcp"),
    Field(name="udp_src", text="tp_src", number=15, bits=16, masked=True, needs="udp"),
    Field(name="udp_dst", text="tp_dst", number=16, bits=16, masked=True, needs="udp"),
    Field(name="sctp_src", text="tp_src", number=17, bits=16, masked=True, needs="sctp"),
    Field(name="sctp_dst", text="tp_dst", number=18, bits=16, masked=True, needs="sctp"),
    Field(name="icmp_type", text="icmp_type", number=19, bits=8, needs="icmp"),
    Field(name="icmp_code", text="icmp_code", number=20, bits=8, needs="icmp"),
    Field(name="icmpv6_type", text="icmp_type", number=29, bits=8, needs="icmp6"),
    Field(name="icmpv6_code", text="icmp_code", number=30, bits=8, needs="icmp6"),
    Field(name="arp_op", text="arp_op", number=21, bits=16, needs="arp"),
    Field(name="arp_spa", text="arp_spa", number=22, bits=32, kind="ipv4", masked=True, needs="arp"),
    Field(name="arp_tpa", text="arp_tpa", number=23, bits=32, kind="ipv4", masked=True, needs="arp"),
    Field(name="arp_sha", text="arp_sha", number=24, bits=48, kind="mac", masked=True, needs="arp"),
    Field(name="arp_tha", text="arp_tha", number=25, bits=48, kind="mac", masked=True, needs="arp"),
)
BY_NAME = {field.name: field for field in FIELDS}
BY_NUMBER = {field.number: field for field in FIELDS}
PLACES = {field: place for place, field in enumerate(FIELDS)}


def number(text: str, most: int, what: str) -> int:
    """Returns a number from 0 to `most`, written in decimal or with 0x. Raises `RequestError`."""
    if _NUMBER.fullmatch(text) and (value := int(text, 16 if text[:2] in ("0x", "0X") else 10)) <= most:
        return value
    raise RequestError(f"{what}: {text[:40]!r} is no number from 0 to {most}")


def port_number(text: str, what: str, words: tuple[str, ...]) -> int:
    """Returns the number of a port that is written as a number or one of these words. Raises `RequestError`."""
    if text.upper() in words:
        return PORT_NAMES[text.upper()]
    if text.isascii() and text.isdigit() and 0 < int(text[:9]) <= MOST_PORTS and len(text) < 9:
        return int(text)
    raise RequestError(
        f"{what}: {text[:40]!r} is no port; write its number, which ovs_list_ports shows, or {' or '.join(words)}"
    )


def port_text(port: int) -> str:
    """Returns a port as text."""
    return _PORT_WORDS.get(port, str(port))


def parsed(field: Field, text: str) -> int:
    """Returns the value of a field. Raises `RequestError`."""
    what = field.text
    match field.kind:
        case "port":
            return port_number(text, what, ("LOCAL",))
        case "mac":
            if _MAC.fullmatch(text):
                return int("".join(part.zfill(2) for part in text.split(":")), 16)
            raise RequestError(f"{what}: {text[:40]!r} is no hardware address; write one such as 00:11:22:33:44:55")
        case "ipv4" | "ipv6":
            try:
                return int(IPv4Address(text) if field.kind == "ipv4" else IPv6Address(_without_zone(text)))
            except AddressValueError:
                raise RequestError(f"{what}: {text[:60]!r} is no {field.kind.replace('ip', 'IP')} address") from None
        case "hex" | "decimal":
            return number(text, field.full, what)


def parsed_mask(field: Field, text: str) -> int:
    """Returns the mask of a field: the length of a prefix, or a value of the field. Raises `RequestError`."""
    if not field.masked:
        raise RequestError(f"{field.text}: this field takes no mask")
    if field.kind in ("ipv4", "ipv6") and _PREFIX.fullmatch(text):
        length = int(text)
        if length > field.bits:
            raise RequestError(f"{field.text}: /{text} is longer than the {field.bits} bits of an address")
        return field.full ^ (field.full >> length)
    return parsed(field, text)


def shown(field: Field, value: int) -> str:
    """Returns a value as text."""
    match field.kind:
        case "port":
            return port_text(value)
        case "mac":
            return ":".join(f"{byte:02x}" for byte in value.to_bytes(6, "big"))
        case "ipv4":
            return str(IPv4Address(value))
        case "ipv6":
            return str(IPv6Address(value))
        case "hex":
            return f"{value:#06x}" if field.bits <= 16 else f"{value:#x}"
        case "decimal":
            return str(value)


def shown_mask(field: Field, mask: int) -> str:
    """Returns a mask as text, as short as it can be written."""
    if field.kind in ("ipv4", "ipv6"):
        length = mask.bit_count()
        return str(length) if mask == field.full ^ (field.full >> length) else shown(field, mask)
    return shown(field, mask) if field.kind != "decimal" else f"{mask:#x}"


def _without_zone(text: str) -> str:
    if "%" in text:
        raise AddressValueError
    return text
