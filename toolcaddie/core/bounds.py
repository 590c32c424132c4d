"""Bounds of all input from outside, in one value. docs/bounds.md documents them.

    Bounds(body=4 * MEGABYTE)

Requests of clients, answers of models and schemas of tools are all checked against these before they are processed. Each
field is a setting of the same name under `[bounds]`, and each refusal names the setting that it comes from (`beyond` writes the
sentence).
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
"""Size in bytes from which JSON and similar work is processed in a thread and not on the event loop. The values of such JSON are
counted before it is decoded."""


class Bounds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The largest accepted sizes, numbers and times. Sizes are bytes unless a field says otherwise."""

    # --- a connection, before the client is known
    connections: Size = 1_000
    """Open connections. A further connection replaces the one that has waited longest without a complete request. It is refused
    if all open connections wait for answers."""
    pipelined: Size = 16
    """Requests of one connection that wait for the answer to an earlier one."""
    url: Size = 8 * KILOBYTE
    header_line: Size = 16 * KILOBYTE
    """Name and value of one header."""
    headers: Size = 64 * KILOBYTE
    """All headers of a request and its trailers."""
    header_count: Size = 128
    head_seconds: Seconds = 10.0
    """Seconds from the first byte of a request, or from the opening of its connection, to the end of its headers."""
    body_seconds: Seconds = 60.0
    """Seconds from the end of the headers to the end of the body."""
    chunks: Size = 50_000
    """Chunks of one body. They are limited because each chunk costs a function call, however small it is."""

    # --- a request's body
    body: Size = 16 * MEGABYTE
    bodies: Size = 64 * MEGABYTE
    """All bodies together that are being received, read or checked. The first 64 KiB of each body are not counted, so that
    small requests pass while large ones use up this bound."""
    values: Size = 300_000
    """Values in one JSON document: objects, lists and their items."""
    depth: Size = 128
    """Levels of nested objects and lists."""

    # --- a chat request
    keys: Size = 200
    """Top-level fields of the request."""
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
    """A whole answer, streamed or not. The same bound holds for a provider's list of models."""
    event: Size = 8 * MEGABYTE
    """One event of a stream."""
    error: Size = 1 * MEGABYTE
    """The body of an error; a longer one is truncated."""
    answer_calls: Size = 1_000
    """Calls of one answer; an answer with more calls is refused."""
    calls_run: Size = 256
    """Calls of one answer that are executed; the others get an error result."""
    arguments: Size = 1_000_000
    """Characters of one call's arguments."""

    # --- patterns of a schema that use look-around or backreferences
    pattern_text: Size = 1_000
    """Characters of a text that such a pattern is matched against."""
    pattern_seconds: Seconds = 0.05
    """Seconds for all such matches of one check together."""

    def __post_init__(self) -> None:
        """Raises `ConfigError` for a bound that is not a positive number. In a settings file the reader of settings refuses it
        earlier."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigError(f"bounds.{name} is {value!r}; give a number above 0")


DEFAULT = Bounds()


def check_bounds(bounds: Bounds) -> Bounds:
    """Returns the bounds. Raises `ConfigError` if the bound of a part is above the bound of its whole (`body` and `bodies`)."""
    for part, total in (("body", "bodies"), ("header_line", "headers"), ("event", "answer")):
        small, large = getattr(bounds, part), getattr(bounds, total)
        if small > large:
            raise ConfigError(
                f"bounds.{part} is {small:,} and bounds.{total} only {large:,}; raise bounds.{total} or lower bounds.{part}"
            )
    return bounds


def beyond(problem: str, most: float, setting: str) -> str:
    """Returns the message of a refusal: the `problem`, the limit (`most`) and the name of its setting."""
    return f"{problem}; at most {most:,} are accepted (setting bounds.{setting})"
