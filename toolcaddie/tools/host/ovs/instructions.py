"""Actions of flows as bytes of OpenFlow 1.3, in which they are instructions: actions to apply, and a table to go to."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.ovs.actions import CURRENT_PORT, Action, Actions
from toolcaddie.tools.host.ovs.fields import PORT_NAMES
from toolcaddie.tools.host.ovs.wire import decoded_term, encoded_term

_HEADER = Layout("!HH")
_OUTPUT = Layout("!HHIH6x")
_SHORT = Layout("!HHH2x")
_LONG = Layout("!HHI")
_EMPTY = Layout("!HH4x")
_GOTO = Layout("!HHB3x")
_APPLY = Layout("!HH4x")
_NICIRA = Layout("!HHIHHB3x")

_GOTO_TABLE, _APPLY_ACTIONS = 1, 4
_OUTPUT_TYPE, _PUSH_VLAN, _POP_VLAN, _SET_QUEUE, _GROUP, _DEC_TTL, _SET_FIELD = 0, 17, 18, 21, 22, 24, 25
_EXPERIMENTER, _NICIRA_ID, _RESUBMIT_TABLE = 0xFFFF, 0x2320, 14


def encoded(actions: Actions) -> bytes:
    """Returns the instructions of a flow with these actions, all of which are known."""
    body = b"".join(_encoded(action) for action in actions if action.verb != "goto_table")
    applied = _APPLY.pack(_APPLY_ACTIONS, _APPLY.size + len(body)) + body if body else b""
    tables = [_GOTO.pack(_GOTO_TABLE, _GOTO.size, action.number) for action in actions if action.verb == "goto_table"]
    return applied + b"".join(tables)


def decoded(data: bytes) -> Actions:
    """Returns the actions of these instructions. Raises `HostError` if they cannot be read."""
    actions: list[Action] = []
    for kind, part in _split(data):
        if kind == _APPLY_ACTIONS and len(part) >= _APPLY.size:
            actions += (_decoded(kind, part) for kind, part in _split(part[_APPLY.size :]))
        elif kind == _GOTO_TABLE and len(part) == _GOTO.size:
            actions.append(Action(verb="goto_table", number=_GOTO.unpack(part)[2]))
        else:
            actions.append(Action(verb="unknown", text=f"unknown_instruction({kind}=0x{part[_HEADER.size :].hex()})"))
    return tuple(actions)


def _encoded(action: Action) -> bytes:
    match action.verb:
        case "output":
            length = action.port if action.number == PORT_NAMES["CONTROLLER"] else 0
            return _OUTPUT.pack(_OUTPUT_TYPE, _OUTPUT.size, action.number, length)
        case "set_field" if action.term is not None:
            field = encoded_term(action.term)
            length = _HEADER.size + len(field)
            padding = -length % 8
            return _HEADER.pack(_SET_FIELD, length + padding) + field + bytes(padding)
        case "push_vlan":
            return _SHORT.pack(_PUSH_VLAN, _SHORT.size, action.number)
        case "set_queue":
            return _LONG.pack(_SET_QUEUE, _LONG.size, action.number)
        case "group":
            return _LONG.pack(_GROUP, _LONG.size, action.number)
        case "pop_vlan":
            return _EMPTY.pack(_POP_VLAN, _EMPTY.size)
        case "dec_ttl":
            return _EMPTY.pack(_DEC_TTL, _EMPTY.size)
        case "resubmit":
            kind = (_EXPERIMENTER, _NICIRA.size, _NICIRA_ID, _RESUBMIT_TABLE)
            return _NICIRA.pack(*kind, action.port, action.number)
        case _:
            raise HostError(f"the action {action} cannot be made here")


def _decoded(kind: int, data: bytes) -> Action:
    """Returns an action. One whose bytes are not exactly those of a known action is unknown."""
    action = _known(kind, data)
    if action is None or _encoded(action) != data:
        return Action(verb="unknown", text=f"unknown_action({kind}=0x{data[_HEADER.size :].hex()})")
    return action


def _known(kind: int, data: bytes) -> Action | None:
    size = len(data)
    if kind == _OUTPUT_TYPE and size == _OUTPUT.size:
        _, _, port, length = _OUTPUT.unpack(data)
        return Action(verb="output", number=port, port=length if port == PORT_NAMES["CONTROLLER"] else CURRENT_PORT)
    if kind == _PUSH_VLAN and size == _SHORT.size:
        return Action(verb="push_vlan", number=_SHORT.unpack(data)[2])
    if kind in (_SET_QUEUE, _GROUP) and size == _LONG.size:
        return Action(verb="group" if kind == _GROUP else "set_queue", number=_LONG.unpack(data)[2])
    if kind in (_POP_VLAN, _DEC_TTL) and size == _EMPTY.size:
        return Action(verb="pop_vlan" if kind == _POP_VLAN else "dec_ttl")
    if kind == _SET_FIELD:
        term, _, _ = decoded_term(data[_HEADER.size :])
        return Action(verb="set_field", term=term) if term is not None and term.field.settable else None
    if kind == _EXPERIMENTER and size == _NICIRA.size:
        _, _, owner, subtype, port, table = _NICIRA.unpack(data)
        if owner == _NICIRA_ID and subtype == _RESUBMIT_TABLE:
            return Action(verb="resubmit", number=table, port=port)
    return None


def _split(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the type and the bytes of each part. Raises `HostError`."""
    while data:
        kind, length = _HEADER.unpack_from(data) if len(data) >= _HEADER.size else (0, 0)
        if not _HEADER.size <= length <= len(data):
            raise HostError("the switch has sent actions that cannot be read")
        yield kind, data[:length]
        data = data[length:]
