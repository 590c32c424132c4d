"""How much of what comes from outside is accepted: every bound there is, in one value. docs/bounds.md is its page.

    Bounds(body=4 * MEGABYTE)

Somebody else's request, a model's answer and a tool's schema are all held against these before anything is worked out of
them. Each field is a setting of the same name under `[bounds]`, and each refusal names its setting (`beyond`).
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.numbers import Seconds

Size = Annotated[int, Meta(ge=1)]

KILOBYTE = 1024
MEGABYTE = 1024 * KILOBYTE

LARGE = 256 * KILOBYTE
"""Bytes of JSON from which it is counted before it is decoded, and both happen in a thread."""


class Bounds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All sizes are bytes, unless a field says otherwise."""

    # --- a connection, before anybody knows who is there
    connections: Size = 1_000
    """Open ones. One more takes the place of the one that has waited longest for a request to be whole, or is refused where
    all of them wait for answers."""
    pipelined: Size = 16
    """Requests of one connection that wait for the answer to the one before."""
    url: Size = 8 * KILOBYTE
    header_line: Size = 16 * KILOBYTE
    """Name and value of one header."""
    headers: Size = 64 * KILOBYTE
    """All headers of a request and its trailers."""
    header_count: Size = 128
    head_seconds: Seconds = 10.0
    """From the first byte of a request, or from the opening of its connection, to the end of its headers."""
    body_seconds: Seconds = 60.0
    """From there to the end of the body."""
    chunks: Size = 50_000
    """Of one body: each costs a call, however small it is."""

    # --- a request's body
    body: Size = 16 * MEGABYTE
    bodies: Size = 64 * MEGABYTE
    """All bodies together that are being received, read or checked. The first 64 KiB of each are not counted, so that
    small requests pass while others fill this."""
    values: Size = 300_000
    """Values in one JSON document: objects, lists and what they hold."""
    depth: Size = 128
    """Objects and lists within each other."""

    # --- a chat request
    keys: Size = 200
    """Fields of the request itself."""
    messages: Size = 5_000
    parts: Size = 10_000
    """Parts of all messages together: texts, pictures."""
    calls: Size = 5_000
    """Tool calls of all messages together."""
    tools: Size = 10_000
    name: Size = 256
    """Characters of a tool's name, and of the name in a call."""
    description: Size = 64 * KILOBYTE
    """Characters of a tool's description."""

    # --- a model's answer
    answer: Size = 16 * MEGABYTE
    """A whole answer, streamed or not; a provider's list of models too."""
    event: Size = 8 * MEGABYTE
    """One event of a stream."""
    error: Size = 1 * MEGABYTE
    """The body of an error: what is longer is cut."""
    answer_calls: Size = 1_000
    """Calls of one answer; one with more is refused."""
    calls_run: Size = 256
    """Calls of one answer that are run; the others get a result that says so."""
    arguments: Size = 1_000_000
    """Characters of one call's arguments."""

    # --- patterns of a schema that use look-around or backreferences
    pattern_text: Size = 1_000
    """Characters of a text that such a pattern is matched against."""
    pattern_seconds: Seconds = 0.05
    """For all such matches of one check together."""

    def __post_init__(self) -> None:
        """Raises `ConfigError` for a bound made in Python that nothing could be within, as the settings refuse one in a file."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigError(f"bounds.{name} is {value!r}; give a number above 0")


DEFAULT = Bounds()


def check_bounds(bounds: Bounds) -> Bounds:
    """The bounds. Raises `ConfigError` where a part may be larger than the whole it belongs to."""
    for part, whole in (("body", "bodies"), ("header_line", "headers"), ("event", "answer")):
        small, large = getattr(bounds, part), getattr(bounds, whole)
        if small > large:
            raise ConfigError(
                f"bounds.{part} is {small:,} and bounds.{whole} only {large:,}; raise bounds.{whole} or lower bounds.{part}"
            )
    return bounds


def beyond(what: str, most: float, setting: str) -> str:
    """The end of every refusal: what there is too much of, how much is accepted, and where that is set."""
    return f"{what}; at most {most:,} are accepted (setting bounds.{setting})"
