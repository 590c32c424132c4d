"""Messages of OpenFlow 1.3: those that read and change flows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct as Layout

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.ovs import instructions, wire
from toolcaddie.tools.host.ovs.flows import FLAGS, Flow, Selection

VERSION = 4
"""OpenFlow 1.3."""
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, FLOW_MOD = 0, 1, 2, 3, 14
MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 18, 19, 20, 21

HEADER = Layout("!BBHI")
_MULTIPART = Layout("!HH4x")
_STATS_REQUEST = Layout("!B3xII4xQQ")
_STATS = Layout("!HBxIIHHHH4xQQQ")
_FLOW_MOD = Layout("!QQBBHHHIIIH2x")
_ERROR = _ELEMENT = Layout("!HH")
_FLOW_STATS, _MORE = 1, 1
_ANY, _NO_BUFFER, _ALL_TABLES = 0xFFFFFFFF, 0xFFFFFFFF, 0xFF
_ADD, _DELETE, _DELETE_STRICT = 0, 3, 4

_REASONS = {
    (0, 0): "it does not speak OpenFlow 1.3",
    (2, 4): "there is no such port",
    (2, 9): "there is no such group",
    (2, 10): "the actions do not fit the match",
    (2, 12): "it cannot do these actions in this order",
    (3, 1): "there is no such table",
    (4, 9): "a field of the match needs another one",
    (5, 1): "the table is full",
    (5, 2): "there is no such table",
    (5, 6): "a flow of the same priority overlaps with it",
}
"""The meaning of the more frequent errors, by type and code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message."""

    kind: int
    xid: int
    """Number of the request, which is also that of its answers."""
    body: bytes = b""
    version: int = VERSION

    def encoded(self) -> bytes:
        return HEADER.pack(self.version, self.kind, HEADER.size + len(self.body), self.xid) + self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFlow:
    """A flow with its counters."""

    flow: Flow
    packets: int
    bytes: int
    seconds: int
    """Since it was made."""


def hello() -> bytes:
    """Returns the body of the first message, which names the only version that is spoken here."""
    return _ELEMENT.pack(1, 8) + (1 << VERSION).to_bytes(4, "big")


def is_spoken_by(message: Message) -> bool:
    """Returns whether the sender of a first message speaks this version too: it names its versions, or the latest one."""
    kind, length = _ELEMENT.unpack_from(message.body) if len(message.body) >= _ELEMENT.size else (None, 0)
    if kind == 1 and length >= 8 and len(message.body) >= 8:
        return bool(int.from_bytes(message.body[4:8], "big") >> VERSION & 1)
    return message.version >= VERSION


def reading(selection: Selection) -> bytes:
    """Returns the body of a request for flows."""
    table = _ALL_TABLES if selection.table is None else selection.table
    fixed = _STATS_REQUEST.pack(table, _ANY, _ANY, selection.cookie, selection.cookie_mask)
    return _MULTIPART.pack(_FLOW_STATS, 0) + fixed + wire.encoded(selection.match)


def read_flows(body: bytes) -> tuple[list[CountedFlow], bool]:
    """Returns the flows of an answer, and whether more will follow. Raises `HostError`."""
    kind, flags = _MULTIPART.unpack_from(body) if len(body) >= _MULTIPART.size else (None, 0)
    if kind != _FLOW_STATS:
        raise HostError("the switch has sent something else than flows")
    return list(_flows(body[_MULTIPART.size :])), bool(flags & _MORE)


def adding(flow: Flow) -> bytes:
    """Returns the body of a request that adds a flow, or replaces the one with the same table, priority and match."""
    flags = sum(FLAGS[flag] for flag in flow.flags)
    times = (flow.idle_timeout, flow.hard_timeout, flow.priority)
    fixed = _FLOW_MOD.pack(flow.cookie, 0, flow.table, _ADD, *times, _NO_BUFFER, _ANY, _ANY, flags)
    return fixed + wire.encoded(flow.match) + instructions.encoded(flow.actions)


def removing(selection: Selection) -> bytes:
    """Returns the body of a request that removes flows."""
    table = _ALL_TABLES if selection.table is None else selection.table
    command = _DELETE if selection.priority is None else _DELETE_STRICT
    cookie = (selection.cookie, selection.cookie_mask)
    fixed = _FLOW_MOD.pack(*cookie, table, command, 0, 0, selection.priority or 0, _NO_BUFFER, _ANY, _ANY, 0)
    return fixed + wire.encoded(selection.match)


def refusal(body: bytes) -> str:
    """Returns the text of an error that the switch has sent."""
    if len(body) < _ERROR.size:
        return "for a reason that cannot be read"
    code = _ERROR.unpack_from(body)
    reason = _REASONS.get(code)
    numbers = f"OpenFlow error {code[0]}, code {code[1]}"
    return f"{reason} ({numbers})" if reason else numbers


def _flows(data: bytes) -> Iterator[CountedFlow]:
    while data:
        length = int.from_bytes(data[:2], "big")
        if not _STATS.size <= length <= len(data):
            raise HostError("the switch has sent flows that cannot be read")
        yield _flow(data[:length])
        data = data[length:]


def _flow(data: bytes) -> CountedFlow:
    _, table, seconds, _, priority, idle, hard, flags, cookie, packets, size = _STATS.unpack_from(data)
    match, length = wire.decoded(data[_STATS.size :])
    flow = Flow(
        table=table,
        priority=priority,
        match=match,
        actions=instructions.decoded(data[_STATS.size + length :]),
        cookie=cookie,
        idle_timeout=idle,
        hard_timeout=hard,
        flags=tuple(flag for flag, bit in FLAGS.items() if flags & bit),
    )
    return CountedFlow(flow=flow, packets=packets, bytes=size, seconds=seconds)
