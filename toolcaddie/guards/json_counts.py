"""What a JSON text holds, counted without decoding it.

A decoder makes twenty bytes of objects of one byte of text, holds the interpreter while it does, and cannot be stopped. So
a large text is counted first: by array operations over pieces of it, which let other threads run and need little memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.errors import RequestError

_PIECE = 128 * 1024

_COMMA, _QUOTE, _BACKSLASH = ord(","), ord('"'), ord("\\")

_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[[ord("{"), ord("[")]] = 1
_STEPS[[ord("}"), ord("]")]] = -1

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Of a text that may be no JSON at all: then they are of what a decoder would see before it gives up, or more."""

    values: int
    """Objects, lists and what they hold."""
    depth: int
    fields: int
    """Values of the outermost object."""


def counts(text: bytes, *, most: int, deepest: int) -> Counts:
    """Counts the values of a JSON text; stops early where there are more than `most`, or more than `deepest` levels."""
    whole = np.frombuffer(text, dtype=np.uint8)
    values = fields = 1
    depth = level = 0
    inside, escaped = False, False
    for at in range(0, len(whole), _PIECE):
        piece = whole[at : at + _PIECE]
        quotes, escaped = _quotes(piece, escaped)
        outside = ~_inside(quotes, inside)
        inside = bool(inside ^ (np.count_nonzero(quotes) & 1))
        steps = np.where(outside, _STEPS[piece], np.int8(0))
        levels = level + np.cumsum(steps, dtype=np.int32)
        commas = outside & (piece == _COMMA)
        values += int(np.count_nonzero(commas)) + int(np.count_nonzero(steps > 0))
        fields += int(np.count_nonzero(commas & (levels == 1)))
        depth = max(depth, int(levels.max()))
        level = int(levels[-1])
        if values > most or depth > deepest:
            break
    return Counts(values=values, depth=depth, fields=fields)


def _quotes(piece: Bytes, escaped: bool) -> tuple[npt.NDArray[np.bool_], bool]:
    """Where a text begins or ends, and whether the first byte of the next piece is escaped."""
    quotes = piece == _QUOTE
    backslashes = np.flatnonzero(piece == _BACKSLASH)
    if escaped:
        quotes[0] = False
        backslashes = backslashes[1:] if len(backslashes) and backslashes[0] == 0 else backslashes
    if not len(backslashes):
        return quotes, False
    # Of a run of backslashes every second one is escaped itself; the byte behind one that is not, is.
    starts = np.flatnonzero(np.diff(backslashes, prepend=-2) != 1)
    lengths = np.diff(np.append(starts, len(backslashes)))
    behind = backslashes[starts] + lengths
    odd = behind[lengths % 2 == 1]
    runs_over = len(odd) > 0 and int(odd[-1]) == len(piece)
    quotes[odd[:-1] if runs_over else odd] = False
    return quotes, runs_over


def _inside(quotes: npt.NDArray[np.bool_], before: bool) -> npt.NDArray[np.bool_]:
    """Whether each byte stands in a text; the quotes themselves may count either way."""
    return np.logical_xor(np.logical_xor.accumulate(quotes), before)


def check_counts(text: bytes, bounds: Bounds, *, what: str) -> Counts:
    """Raises `RequestError` where a JSON text holds more than is accepted, or is nested deeper."""
    found = counts(text, most=bounds.values, deepest=bounds.depth)
    if found.values > bounds.values:
        told = beyond(f"{what} holds too many JSON values", bounds.values, "values")
        raise RequestError(told, code="too_many_values")
    if found.depth > bounds.depth:
        told = beyond(f"{what} nests objects and lists too deep", bounds.depth, "depth")
        raise RequestError(told, code="too_deep")
    return found
