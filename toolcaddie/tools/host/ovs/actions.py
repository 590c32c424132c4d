"""Actions of flows, as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from toolcaddie.core.errors import RequestError
from toolcaddie.tools.host.ovs.fields import (
    PORT_NAMES,
    VLAN_PRESENT,
    Field,
    number,
    parsed,
    port_number,
    port_text,
    shown,
)
from toolcaddie.tools.host.ovs.matches import Match, Term, lacking, settable, tos

MOST_TABLES = 253
"""The last table that is not kept by Open vSwitch for itself."""
CURRENT_PORT, CURRENT_TABLE = 0xFFF8, 0xFF
"""The port and table of `resubmit` that say that it does not change them."""
WHOLE_PACKET = 0xFFFF
"""The length of a packet that is sent to a controller, if all of it is."""

Verb = Literal[
    "output", "set_field", "push_vlan", "pop_vlan", "dec_ttl", "set_queue", "group", "resubmit", "goto_table", "unknown"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action."""

    verb: Verb
    number: int = 0
    """The port, type of tag, queue, group or table."""
    port: int = CURRENT_PORT
    """Of `resubmit`; for output to a controller the length of the packet."""
    term: Term | None = None
    """Of `set_field`."""
    text: str = ""
    """Of an action that this module does not know."""

    def __str__(self) -> str:
        match self.verb:
            case "output" if self.number == PORT_NAMES["CONTROLLER"]:
                return f"CONTROLLER:{self.port}"
            case "output" if self.number in PORT_NAMES.values():
                return port_text(self.number)
            case "output":
                return f"output:{self.number}"
            case "set_field" if self.term is not None:
                return f"set_field:{shown_value(self.term)}->{self.term.field.name}"
            case "push_vlan":
                return f"push_vlan:{self.number:#06x}"
            case "resubmit" if self.number == CURRENT_TABLE:
                return f"resubmit:{'IN_PORT' if self.port == CURRENT_PORT else self.port}"
            case "resubmit":
                return f"resubmit({'' if self.port == CURRENT_PORT else self.port},{self.number})"
            case "set_queue" | "group" | "goto_table":
                return f"{self.verb}:{self.number}"
            case "unknown":
                return self.text
            case _:
                return self.verb


Actions = tuple[Action, ...]

_SETTERS: Mapping[str, str] = {
    "mod_dl_src": "dl_src",
    "mod_dl_dst": "dl_dst",
    "mod_vlan_vid": "vlan_vid",
    "mod_vlan_pcp": "dl_vlan_pcp",
    "mod_nw_src": "nw_src",
    "mod_nw_dst": "nw_dst",
    "mod_nw_tos": "nw_tos",
    "mod_tp_src": "tp_src",
    "mod_tp_dst": "tp_dst",
}
_WORDS = ("output:PORT", "normal", "flood", "all", "local", "in_port", "controller", "drop", "push_vlan:0x8100")
ACTION_WORDS = (
    *(*_WORDS, "pop_vlan", "set_field:VALUE->FIELD", *(f"{name}:VALUE" for name in _SETTERS), "dec_ttl"),
    *("set_queue:N", "group:N", "resubmit:PORT", "resubmit(PORT,TABLE)", "goto_table:N"),
)
"""The forms of an action, for error messages."""

_PART = re.compile(r"(?:[^,()]|\([^()]*\))+")
_RESUBMIT = re.compile(r"\(([A-Za-z0-9_]*),([0-9]+)\)")


def shown_value(term: Term) -> str:
    """Returns the value of `set_field` as text. Open vSwitch writes a tag in decimal, with the bit that says there is one."""
    return str(term.value) if term.field.name == "vlan_vid" else shown(term.field, term.value)


def actions_text(actions: Actions) -> str:
    """Returns actions as text."""
    return ",".join(map(str, actions)) or "drop"


def parsed_actions(text: str, match: Match, table: int) -> Actions:
    """Returns the actions that a text describes, for a flow of this match and table. Raises `RequestError`."""
    parts = list(_parts(text))
    if parts == ["drop"]:
        return ()
    actions: list[Action] = []
    tagged = match.has("vlan")
    for part in parts:
        action = _action(part, match)
        if actions and actions[-1].verb == "goto_table":
            raise RequestError("goto_table: it is the last action")
        if action.verb == "goto_table" and not table < action.number:
            raise RequestError(f"goto_table:{action.number}: a flow of table {table} goes to a later table only")
        if action.verb == "set_field" and action.term is not None:
            problem = lacking(action.term.field, match)
            if problem and not (action.term.field.needs == "vlan" and tagged):
                raise RequestError(f"{part[:60]}: {problem}")
        if action.verb == "pop_vlan" and not tagged:
            raise RequestError("pop_vlan: only packets with a tag have one to remove; add dl_vlan=NUMBER to the match")
        if action.verb == "dec_ttl" and not match.has("ip"):
            raise RequestError("dec_ttl: only packets of ip or ipv6 have it; add that word to the match")
        tagged = action.verb == "push_vlan" or (tagged and action.verb != "pop_vlan")
        actions.append(action)
    return tuple(actions)


def _parts(text: str) -> Iterator[str]:
    """Yields the actions of a text, which commas separate."""
    place = 0
    while True:
        match = _PART.match(text, place)
        if match is None:
            raise RequestError(f"actions: there is no action where one belongs; write one of {', '.join(ACTION_WORDS)}")
        yield match[0].strip()
        place = match.end()
        if place == len(text):
            return
        if text[place] != ",":
            raise RequestError(f"actions: {text[place]!r} does not belong there")
        place += 1


def _action(text: str, match: Match) -> Action:
    name, colon, value = text.partition(":")
    word = name.lower()
    if word == "drop":
        raise RequestError("drop: it stands alone")
    if not colon and word in _PLAIN:
        return _PLAIN[word]
    if not colon and word.startswith("resubmit("):
        return _resubmit(text)
    if not colon and word.isdigit():
        return _output(text)
    if colon and word == "set_field":
        return _set_field(value, match)
    if colon and word in _SETTERS:
        return _set(_SETTERS[word], value, match)
    if colon and word in _NUMBERED:
        return _NUMBERED[word](value)
    raise RequestError(f"there is no action {text[:40]!r}; write one of {', '.join(ACTION_WORDS)}")


def _output(text: str) -> Action:
    port = port_number(text, "output", tuple(PORT_NAMES))
    return _TO_CONTROLLER if port == PORT_NAMES["CONTROLLER"] else Action(verb="output", number=port)


def _controller(text: str) -> Action:
    length = number(text, WHOLE_PACKET, "controller")
    return Action(verb="output", number=PORT_NAMES["CONTROLLER"], port=length)


def _push_vlan(text: str) -> Action:
    kind = number(text, 0xFFFF, "push_vlan")
    if kind not in (0x8100, 0x88A8):
        raise RequestError(f"push_vlan: {text[:40]!r} is no type of a tag; write 0x8100 or 0x88a8")
    return Action(verb="push_vlan", number=kind)


def _set_field(text: str, match: Match) -> Action:
    value, arrow, name = text.rpartition("->")
    if not arrow:
        raise RequestError(f"set_field: {text[:60]!r} names no field; write set_field:VALUE->FIELD")
    field = settable(name, match)
    if name == "nw_tos":
        return _term(field, tos(value))
    return _term(field, parsed(field, value))


def _set(name: str, text: str, match: Match) -> Action:
    field = settable(name, match)
    match name:
        case "nw_tos":
            return _term(field, tos(text))
        case "vlan_vid":
            return _term(field, number(text, 0xFFF, "mod_vlan_vid") | VLAN_PRESENT)
        case _:
            return _term(field, parsed(field, text))


def _term(field: Field, value: int) -> Action:
    if field.name == "vlan_vid" and not value & VLAN_PRESENT:
        raise RequestError(
            "set_field: the value of vlan_vid is 4096 plus the number of the tag; or write mod_vlan_vid:N"
        )
    return Action(verb="set_field", term=Term(field=field, value=value))


def _resubmit(text: str) -> Action:
    parts = _RESUBMIT.fullmatch(text[len("resubmit") :])
    if parts is None:
        raise RequestError(f"{text[:40]!r}: write resubmit(,TABLE) or resubmit(PORT,TABLE)")
    port = _port16(parts[1]) if parts[1] else CURRENT_PORT
    return Action(verb="resubmit", number=number(parts[2], MOST_TABLES, "resubmit"), port=port)


def _port16(text: str) -> int:
    return port_number(text, "resubmit", ("IN_PORT",)) & 0xFFFF


def _table(text: str) -> Action:
    return Action(verb="goto_table", number=number(text, MOST_TABLES, "goto_table"))


_TO_CONTROLLER = Action(verb="output", number=PORT_NAMES["CONTROLLER"], port=WHOLE_PACKET)
_PLAIN: Mapping[str, Action] = {
    **{word.lower(): Action(verb="output", number=port) for word, port in PORT_NAMES.items()},
    "controller": _TO_CONTROLLER,
    "pop_vlan": Action(verb="pop_vlan"),
    "strip_vlan": Action(verb="pop_vlan"),
    "dec_ttl": Action(verb="dec_ttl"),
}
_NUMBERED: Mapping[str, Callable[[str], Action]] = {
    "output": _output,
    "controller": _controller,
    "push_vlan": _push_vlan,
    "resubmit": lambda text: Action(verb="resubmit", number=CURRENT_TABLE, port=_port16(text)),
    "goto_table": _table,
    "set_queue": lambda text: Action(verb="set_queue", number=number(text, 0xFFFFFFFE, "set_queue")),
    "group": lambda text: Action(verb="group", number=number(text, 0xFFFFFF00, "group")),
}
