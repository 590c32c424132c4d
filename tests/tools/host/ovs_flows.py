"""Random flows: texts as a person would write them, with the fields and actions that Open vSwitch allows together."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from toolcaddie.core.states import DesiredState
from toolcaddie.tools.host.ovs.flows import FLAGS, parsed_flow

BRIDGES = ("br0", "br1")
_IPV4 = st.builds("{}.{}.{}.{}".format, *[st.integers(0, 255)] * 4)
_IPV6 = st.builds("{:x}:{:x}::{:x}".format, *[st.integers(1, 0xFFFF)] * 3)
_MAC = st.builds("{:02x}:{:02x}:{:02x}:00:00:{:02x}".format, *[st.integers(0, 255)] * 4)
_PORTS = st.integers(0, 65535).map(str) | st.builds("{:#x}/{:#x}".format, st.integers(0, 65535), st.integers(0, 65535))
_IPV4_MASK = st.integers(0, 32).map("/{}".format) | st.just("") | _IPV4.map("/{}".format)
_NETWORK = st.builds("{}{}".format, _IPV4, _IPV4_MASK)
_NETWORK6 = st.builds("{}{}".format, _IPV6, st.integers(0, 128).map("/{}".format) | st.just(""))
_MACS = st.builds("{}{}".format, _MAC, st.just("") | _MAC.map("/{}".format))
_BYTE = st.integers(0, 255).map(str)

_ANY: dict[str, Any] = {
    "in_port": st.sampled_from(["1", "2", "LOCAL", "65279"]),
    "dl_src": _MACS,
    "dl_dst": _MACS,
    "metadata": st.integers(0, 2**64 - 1).map("{:#x}".format),
    "tun_id": st.builds("{:#x}/{:#x}".format, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    "dl_vlan": st.integers(0, 4095).map(str) | st.just("0xffff"),
}
_IP = {"nw_tos": st.integers(0, 63).map(lambda value: str(4 * value)), "nw_ecn": st.integers(0, 3).map(str)}
_V4 = {"nw_src": _NETWORK, "nw_dst": _NETWORK, **_IP}
_V6 = {"ipv6_src": _NETWORK6, "ipv6_dst": _NETWORK6, **_IP}
_TRANSPORT = {"tp_src": _PORTS, "tp_dst": _PORTS}
_ICMP = {"icmp_type": _BYTE, "icmp_code": _BYTE}
_ARP = {
    "arp_op": st.integers(0, 255).map(str),
    "arp_spa": _NETWORK,
    "arp_tpa": _NETWORK,
    "arp_sha": _MACS,
    "arp_tha": _MACS,
}
FIELDS: dict[str, dict[str, Any]] = {
    "": {},
    "ip": {**_V4, "nw_proto": st.sampled_from(["47", "50", "6"])},
    "ipv6": _V6,
    "arp": _ARP,
    "rarp": {},
    "dl_type=0x88cc": {},
    **{word: {**_V4, **_TRANSPORT} for word in ("tcp", "udp", "sctp")},
    **{word: {**_V6, **_TRANSPORT} for word in ("tcp6", "udp6", "sctp6")},
    "icmp": {**_V4, **_ICMP},
    "icmp6": {**_V6, **_ICMP},
}
_PLAIN = (
    *("output:1", "2", "normal", "flood", "all", "local", "in_port", "controller", "controller:128", "output:65000"),
    *("set_queue:3", "resubmit(,4)", "resubmit(7,5)", "resubmit:2"),
)
_ACTIONS = st.sampled_from(_PLAIN) | st.builds("mod_dl_src:{}".format, _MAC)


@st.composite
def matches(draw: st.DrawFn) -> str:
    """Draws the text of a match."""
    word = draw(st.sampled_from(sorted(FIELDS)))
    fields = {**_ANY, **FIELDS[word]}
    names = draw(st.lists(st.sampled_from(sorted(fields)), unique=True, max_size=5))
    texts = [f"{name}={draw(fields[name])}" for name in names]
    return ",".join(draw(st.permutations([text for text in [word, *texts] if text])))


@st.composite
def actions(draw: st.DrawFn, match: str = "") -> str:
    """Draws the text of actions that fit a match."""
    parts = draw(st.lists(_ACTIONS, max_size=4))
    words = match.split(",")
    if "tcp" in words:
        parts += draw(st.lists(st.sampled_from(["mod_nw_src:10.0.0.7", "mod_tp_dst:8080", "dec_ttl", "mod_nw_tos:8"])))
    if draw(st.booleans()):
        tag, number = draw(st.sampled_from(["0x8100", "0x88a8"])), draw(st.integers(0, 4095))
        parts += [f"push_vlan:{tag}", f"mod_vlan_vid:{number}", "mod_vlan_pcp:3", "output:1", "strip_vlan"]
    if draw(st.booleans()):
        parts.append(f"goto_table:{draw(st.integers(4, 253))}")
    return ",".join(parts) or "drop"


@st.composite
def flows(draw: st.DrawFn) -> str:
    """Draws the text of a flow."""
    match = draw(matches())
    options = draw(
        st.lists(
            st.sampled_from(
                ["cookie=0x7b", "idle_timeout=6000", "hard_timeout=65535", "table=3", "priority=7", *FLAGS]
            ),
            unique=True,
        )
    )
    head = ",".join([*options, *([match] if match else [])])
    return f"{head}{',' if head else ''}actions={draw(actions(match))}"


@st.composite
def states(draw: st.DrawFn) -> DesiredState:
    """Draws a desired state of the plugin `openflow`. There are few keys, so that two states often have some in common."""
    desired: dict[str, dict[str, Any] | None] = {}
    few = st.sampled_from(["", "tcp,tp_dst=80", "ip,nw_dst=10.0.0.0/8", "dl_vlan=5", "arp"])
    for match in draw(st.lists(few | matches(), max_size=6)):
        table, priority = draw(st.sampled_from([0, 3])), draw(st.sampled_from([5, 32768]))
        flow = parsed_flow(f"table={table},priority={priority},{match},actions={draw(actions(match))}")
        attributes = {"actions": str(flow).partition("actions=")[2]}
        if draw(st.booleans()):
            attributes |= {"cookie": "0x1f", "idle_timeout": 60_000, "flags": ["send_flow_rem"]}
        desired[f"{draw(st.sampled_from(BRIDGES))}/{flow.key}"] = draw(st.sampled_from([attributes, attributes, None]))
    return desired
