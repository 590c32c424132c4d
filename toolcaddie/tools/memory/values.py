"""The words of a bot's memory as values: lines, chunks of lines, whose they are, and what a search returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from toolcaddie.core.personas import Trust

Kind = Literal["log", "note", "session"]
"""A daily log, a note, or a stored chat."""


class Label(Struct, frozen=True, kw_only=True):
    """Whose words some lines have, where they were said, and how far they can be trusted."""

    kind: Kind
    who: str = ""
    """`tenant/id` of the person in whose conversation they were said; empty: unknown, or several people."""
    chat: str = ""
    """The chat, without the number of a later conversation in it; empty: unknown."""
    trust: Trust = "unknown"


class Line(Struct, frozen=True, kw_only=True):
    """A line of a file or chat, as a model reads it."""

    number: int
    """Counts from 1."""
    text: str
    label: Label
    at: float
    """Seconds since the epoch."""


class Chunk(Struct, frozen=True, kw_only=True):
    """Consecutive lines with the same label."""

    path: str
    first: int
    last: int
    at: float
    """Time of its first line, in seconds since the epoch."""
    label: Label
    text: str


class Match(Struct, frozen=True, kw_only=True):
    """A chunk that fits a query."""

    chunk: Chunk
    score: float
    """0 to 1."""
    words: tuple[str, ...] = ()
    """Words of the query that it has, or words of its own that are spelled like them."""
    meaning: float = 0.0
    """Nearness of the chunk's vector to that of the query, 0 to 1."""

    @property
    def reason(self) -> str:
        """How the chunk was reached, in words."""
        by_words = f"words ({', '.join(self.words)})" if self.words else ""
        by_meaning = f"meaning ({self.meaning:.2f})" if self.meaning else ""
        return " and ".join(filter(None, (by_words, by_meaning)))


class SearchAnswer(Struct, frozen=True, kw_only=True):
    """The chunks that fit a query, the best first."""

    matches: Sequence[Match] = ()
    note: str = ""
    """A sentence about a signal that did not take part; empty: all did."""
