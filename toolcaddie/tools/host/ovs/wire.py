"""Matches as bytes of OpenFlow 1.3."""

from __future__ import annotations

from struct import Struct as Layout

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.ovs.fields import BY_NUMBER, OXM, Field
from toolcaddie.tools.host.ovs.matches import Match, Term, matching

_HEADER = Layout("!HBB")
_MATCH = Layout("!HH")


def encoded(match: Match) -> bytes:
    """Returns the bytes of a match, padded."""
    body = b"".join(encoded_term(term) for term in match.terms)
    length = _MATCH.size + len(body)
    return _MATCH.pack(1, length) + body + bytes(-length % 8)


def encoded_term(term: Term) -> bytes:
    """Returns the bytes of a field with its value."""
    size = term.field.size
    value = term.value.to_bytes(size, "big")
    if term.mask is None:
        return _HEADER.pack(OXM, term.field.number << 1, size) + value
    return _HEADER.pack(OXM, term.field.number << 1 | 1, 2 * size) + value + term.mask.to_bytes(size, "big")


def decoded(data: bytes) -> tuple[Match, int]:
    """Returns the match at the beginning of these bytes, and its length with padding. Raises `HostError`."""
    kind, length = _MATCH.unpack_from(data) if len(data) >= _MATCH.size else (None, 0)
    if kind != 1 or not _MATCH.size <= length <= len(data):
        raise HostError("the switch has sent a match that cannot be read")
    terms: dict[Field, Term] = {}
    foreign: list[str] = []
    rest = data[_MATCH.size : length]
    while rest:
        term, text, size = decoded_term(rest)
        rest = rest[size:]
        if term is None:
            foreign.append(text)
        else:
            terms[term.field] = term
    return Match(terms=matching(terms).terms, foreign=tuple(foreign)), length + -length % 8


def decoded_term(data: bytes) -> tuple[Term | None, str, int]:
    """Returns the first field of these bytes, or None and a text if it is not known; and its length. Raises `HostError`."""
    if len(data) < _HEADER.size:
        raise HostError("the switch has sent a field that cannot be read")
    kind, code, size = _HEADER.unpack_from(data)
    end = _HEADER.size + size
    payload = data[_HEADER.size : end]
    field = BY_NUMBER.get(code >> 1) if kind == OXM else None
    masked = bool(code & 1)
    if len(payload) < size:
        raise HostError("the switch has sent a field that cannot be read")
    if field is None or size != field.size * (2 if masked else 1):
        return None, f"unknown_field({kind:#06x}:{code >> 1}{'/' if masked else ''}=0x{payload.hex()})", end
    value = int.from_bytes(payload[: field.size], "big")
    mask = int.from_bytes(payload[field.size :], "big") if masked else None
    return Term(field=field, value=value, mask=None if mask == field.full else mask), "", end
