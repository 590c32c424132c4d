"""Matches of flows: the packets to which a flow applies, and their text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolcaddie.core.errors import RequestError
from toolcaddie.tools.host.ovs.fields import (
    FIELDS,
    PLACES,
    VLAN_PRESENT,
    Field,
    Need,
    number,
    parsed,
    parsed_mask,
    shown,
    shown_mask,
)

_NO_TAG = "0xffff"
"""The value of `dl_vlan` for packets without a tag."""

_IPV4, _IPV6, _ARP, _RARP = 0x0800, 0x86DD, 0x0806, 0x8035
PROTOCOLS: Mapping[str, tuple[int, int | None]] = {
    "ip": (_IPV4, None),
    "ipv6": (_IPV6, None),
    "arp": (_ARP, None),
    "rarp": (_RARP, None),
    "tcp": (_IPV4, 6),
    "udp": (_IPV4, 17),
    "sctp": (_IPV4, 132),
    "icmp": (_IPV4, 1),
    "tcp6": (_IPV6, 6),
    "udp6": (_IPV6, 17),
    "sctp6": (_IPV6, 132),
    "icmp6": (_IPV6, 58),
}
"""Type of the frame and number of the protocol of each word."""
_NEEDS: Mapping[Need, tuple[str, ...]] = {
    "ip": ("ip", "ipv6"),
    "ipv4": ("ip",),
    "ipv6": ("ipv6",),
    "arp": ("arp", "rarp"),
    "tcp": ("tcp", "tcp6"),
    "udp": ("udp", "udp6"),
    "sctp": ("sctp", "sctp6"),
    "icmp": ("icmp",),
    "icmp6": ("icmp6",),
}
_BY_TEXT: Mapping[str, tuple[Field, ...]] = {
    text: tuple(field for field in FIELDS if text in (field.text, field.name))
    for text in sorted({name for field in FIELDS for name in (field.text, field.name)})
}
MATCH_WORDS = tuple(sorted({*PROTOCOLS, *(field.text for field in FIELDS), "dl_vlan"}))
"""The terms of a match, for error messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """The value of one field."""

    field: Field
    value: int
    mask: int | None = None
    """None: all bits count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The packets to which a flow applies: all, unless terms say which."""

    terms: tuple[Term, ...] = ()
    """In the order of `FIELDS`."""
    foreign: tuple[str, ...] = ()
    """Fields that this module does not know, as text."""

    def __str__(self) -> str:
        exact = {term.field.text: term.value for term in self.terms if term.mask is None}
        word = _word(exact.get("dl_type"), exact.get("nw_proto"))
        implied = {"dl_type": word != "", "nw_proto": word != "" and PROTOCOLS[word][1] is not None}
        texts = [_text(term) for term in self.terms if not implied.get(term.field.text)]
        return ",".join([word, *texts, *self.foreign] if word else [*texts, *self.foreign])

    def value(self, name: str) -> int | None:
        """Returns the exact value of a field; None: it has none."""
        return next((term.value for term in self.terms if term.field.text == name and term.mask is None), None)

    def has(self, need: Need) -> bool:
        """Returns whether all packets of this match have the fields that need this."""
        if need == "":
            return True
        if need == "vlan":
            tag = next((term for term in self.terms if term.field.name == "vlan_vid"), None)
            return tag is not None and bool(tag.value & VLAN_PRESENT)
        kinds = [PROTOCOLS[word] for word in _NEEDS[need]]
        frame, protocol = self.value("dl_type"), self.value("nw_proto")
        return any(frame == kind[0] and kind[1] in (None, protocol) for kind in kinds)


def parsed_match(tokens: Iterable[tuple[str, str | None]]) -> Match:
    """Returns the match that words and values describe. Raises `RequestError`."""
    texts: dict[str, str] = {}
    frame: int | None = None
    protocol: int | None = None
    for name, value in tokens:
        if value is None:
            if name not in PROTOCOLS:
                raise _unknown(name)
            if frame is not None:
                raise RequestError(f"{name}: a flow names one protocol")
            frame, protocol = PROTOCOLS[name]
        elif name in texts:
            raise RequestError(f"{name}: it is given twice")
        else:
            texts[name] = value
    terms: dict[Field, Term] = {}
    if frame is not None:
        _add(terms, _exact("dl_type", frame))
    if protocol is not None:
        _add(terms, _exact("nw_proto", protocol))
    # The type first, because it decides which field a name such as tp_src is.
    for name in sorted(texts, key=_rank):
        _add(terms, _term(name, texts[name], matching(terms)))
    match = matching(terms)
    for term in match.terms:
        # A match of the tag itself may also be about packets without one.
        if term.field.name != "vlan_vid" and not match.has(term.field.needs):
            raise RequestError(_lacking(term.field))
    return match


def settable(name: str, match: Match) -> Field:
    """Returns the field that actions may set, by the name in a match or in `set_field`. Raises `RequestError`."""
    candidates = [field for field in _BY_TEXT.get(name, ()) if field.settable]
    if not candidates:
        names = sorted(field.name for field in FIELDS if field.settable)
        raise RequestError(f"set_field: there is no field {name[:40]!r} that can be set; there are {', '.join(names)}")
    return next((field for field in candidates if match.has(field.needs)), candidates[0])


def lacking(field: Field, match: Match) -> str:
    """Returns the reason why a flow of this match cannot set a field; empty: it can."""
    return "" if match.has(field.needs) else _lacking(field)


def _term(name: str, text: str, match: Match) -> Term:
    """Returns the value of a field of that name. `match`: the type of the packets."""
    if name == "dl_vlan":
        vlan = 0xFFFF if text == _NO_TAG else number(text, 0xFFFF, name)
        if 0xFFF < vlan < 0xFFFF:
            raise RequestError(f"dl_vlan: {text[:40]!r} is no number from 0 to 4095; packets without a tag are 0xffff")
        return _exact("vlan_vid", 0 if vlan == 0xFFFF else vlan | VLAN_PRESENT)
    candidates = _BY_TEXT.get(name, ())
    if not candidates:
        raise _unknown(name)
    field = next((field for field in candidates if match.has(field.needs)), candidates[0])
    value_text, slash, mask_text = text.partition("/")
    if name == "nw_tos":
        return _exact("ip_dscp", tos(value_text if not slash else text))
    value = parsed(field, value_text)
    mask = parsed_mask(field, mask_text) if slash else None
    if mask is not None:
        value &= mask
    return Term(field=field, value=value, mask=None if mask == field.full else mask)


def tos(text: str) -> int:
    """Returns the value of `ip_dscp` for one of `nw_tos`, which is 4 times as large. Raises `RequestError`."""
    value = number(text, 255, "nw_tos")
    if value % 4:
        raise RequestError(f"nw_tos: {text} is no multiple of 4; the lowest two bits are the field nw_ecn")
    return value // 4


def _text(term: Term) -> str:
    if term.field.name == "vlan_vid":
        if term.mask is None and term.value & VLAN_PRESENT:
            return f"dl_vlan={term.value & 0xFFF}"
        if term.mask is None and term.value == 0:
            return f"dl_vlan={_NO_TAG}"
    value = term.value * 4 if term.field.text == "nw_tos" else term.value
    mask = "" if term.mask is None else f"/{shown_mask(term.field, term.mask)}"
    if mask and term.field.kind == "decimal":
        return f"{term.field.text}={value:#x}{mask}"
    return f"{term.field.text}={shown(term.field, value)}{mask}"


def _exact(name: str, value: int) -> Term:
    field = next(field for field in FIELDS if name in (field.text, field.name))
    return Term(field=field, value=value)


def _add(terms: dict[Field, Term], term: Term) -> None:
    if term.field in terms:
        raise RequestError(f"{term.field.text}: it is given twice")
    terms[term.field] = term


def matching(terms: Mapping[Field, Term]) -> Match:
    """Returns the match of these terms, without those that fit every packet."""
    return Match(terms=tuple(terms[field] for field in sorted(terms, key=PLACES.__getitem__) if terms[field].mask != 0))


def _rank(name: str) -> int:
    order: Sequence[tuple[str, ...]] = (("dl_type", "eth_type"), ("nw_proto", "ip_proto"))
    return next((rank for rank, names in enumerate(order) if name in names), len(order))


def _word(frame: int | None, protocol: int | None) -> str:
    """Returns the most exact word for these packets; empty: there is none."""
    words = {kind: word for word, kind in PROTOCOLS.items()}
    return "" if frame is None else words.get((frame, protocol)) or words.get((frame, None), "")


def _unknown(name: str) -> RequestError:
    return RequestError(f"there is no field {name[:40]!r}; a match is made of {', '.join(MATCH_WORDS)}")


def _lacking(field: Field) -> str:
    if field.needs == "vlan":
        return f"{field.text}: only packets with a tag have it; add dl_vlan=NUMBER to the match"
    return f"{field.text}: only packets of {' or '.join(_NEEDS[field.needs])} have it; add that word to the match"
