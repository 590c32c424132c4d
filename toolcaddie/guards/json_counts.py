"""Counts the values of a JSON text without decoding it.

A decoder makes objects of twenty bytes for each byte of text. Meanwhile no other thread can run, and it cannot be stopped. So the
values of a large text, such as a request or a provider's answer, are counted first. Array operations on pieces of the text do it:
they let other threads run and need little memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.errors import RequestError

_PIECE = 128 * 1024
"""Size in bytes of a piece."""

_COMMA, _QUOTE, _BACKSLASH = ord(","), ord('"'), ord("\\")

_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[[ord("{"), ord("[")]] = 1
_STEPS[[ord("}"), ord("]")]] = -1
"""Change of the nesting level by each byte."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of a JSON text. If the JSON is invalid, they include at least the part that a decoder would read before it fails."""

    values: int
    """Objects, lists and their items."""
    depth: int
    """Levels of nested objects and lists."""
    fields: int
    """Values of the outermost object."""


def counts(text: bytes, *, most: int, deepest: int) -> Counts:
    """Counts the values of a JSON text. Counting ends early at more than `most` values or `deepest` levels."""
    data = np.frombuffer(text, dtype=np.uint8)
    values = fields = 1
    depth = level = 0
    inside, escaped = False, False
    for at in range(0, len(data), _PIECE):
        piece = data[at : at + _PIECE]
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
    """Returns an array that is True at the quotes which begin or end strings, and True if the first byte of the next piece is
    escaped.

    `escaped`: True if the first byte of this piece is escaped.
    """
    quotes = piece == _QUOTE
    backslashes = np.flatnonzero(piece == _BACKSLASH)
    if escaped:
        quotes[0] = False
        backslashes = backslashes[1:] if len(backslashes) and backslashes[0] == 0 else backslashes
    if not len(backslashes):
        return quotes, False
    # In a row of backslashes, every second backslash is escaped. So the byte after the row is escaped if the length is odd.
    starts = np.flatnonzero(np.diff(backslashes, prepend=-2) != 1)
    lengths = np.diff(np.append(starts, len(backslashes)))
    behind = backslashes[starts] + lengths
    odd = behind[lengths % 2 == 1]
    runs_over = len(odd) > 0 and int(odd[-1]) == len(piece)
    quotes[odd[:-1] if runs_over else odd] = False
    return quotes, runs_over


def _inside(quotes: npt.NDArray[np.bool_], before: bool) -> npt.NDArray[np.bool_]:
    """Returns an array that is True for each byte inside a string; at the quotes themselves it may be True or False. `before`:
    True if the piece begins inside a string."""
    return np.logical_xor(np.logical_xor.accumulate(quotes), before)


def check_counts(text: bytes, bounds: Bounds, *, what: str) -> Counts:
    """Returns the counts of a JSON text. Raises `RequestError` if it has more values or levels than the bounds allow. `what`: the
    name of the text, with which the error message begins."""
    result = counts(text, most=bounds.values, deepest=bounds.depth)
    if result.values > bounds.values:
        message = beyond(f"{what} holds too many JSON values", bounds.values, "values")
        raise RequestError(message, code="too_many_values")
    if result.depth > bounds.depth:
        message = beyond(f"{what} nests objects and lists too deeply", bounds.depth, "depth")
        raise RequestError(message, code="too_deep")
    return result
