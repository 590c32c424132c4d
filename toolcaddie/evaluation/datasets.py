"""Reads the files that `toolcaddie eval` measures with: tools, and labelled requests. Each line is a JSON object.

A tool has the keys `name`, `description`, `parameters` and `category`. A request has `query`, the message; `history`, the earlier
messages ("user: ..." or "assistant: ..."); `gold`, the names of the right tools (an empty list: no tool fits); and `group`,
which is equal for requests that are not independent, such as turns of one conversation. Other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from toolcaddie.core.errors import ConfigError
from toolcaddie.core.message import Message, Role
from toolcaddie.core.tool import Tool

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRequest:
    """A request and the tools that serve it."""

    messages: tuple[Message, ...]
    gold: frozenset[str]
    """Names of the right tools. Empty: no tool of the catalog fits."""
    group: str
    """Name of the group. Requests of one group are not independent, so the bootstrap of intervals draws groups as a whole."""
    run_id: str = ""
    """The recorded run from which it comes; empty: none."""


class _ToolLine(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    category: str | None = None


class _RequestLine(msgspec.Struct):
    query: str
    gold: list[str]
    history: list[str] = []
    group: str | None = None


def read_tools(path: Path) -> list[Tool]:
    """Returns the tools of a file. Raises `ConfigError`, which names the first line that is not a tool."""
    return [
        Tool(
            name=line.name,
            description=line.description or "",
            input_schema=line.parameters or {"type": "object", "properties": {}},
            category=line.category or None,
        )
        for _, line in _lines(_read(path), _ToolLine, origin=str(path))
    ]


def read_requests(path: Path) -> list[LabelledRequest]:
    """Returns the labelled requests of a file. Raises `ConfigError`, which names the first line that is not a request."""
    return requests_in(_read(path), origin=str(path))


def requests_in(lines: Iterable[bytes], *, origin: str) -> list[LabelledRequest]:
    """Returns the labelled requests of lines. `origin`: what errors call their source. Raises `ConfigError`."""
    return [
        LabelledRequest(
            messages=(*map(_history_message, line.history), Message(role="user", content=line.query)),
            gold=frozenset(line.gold),
            group=line.group if line.group is not None else str(number),
        )
        for number, line in _lines(lines, _RequestLine, origin=origin)
    ]


def _read(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file. Raises `ConfigError`."""
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; name a file that has a JSON object on each line") from error


def _lines(lines: Iterable[bytes], kind: type[T], *, origin: str) -> Iterator[tuple[int, T]]:
    """Yields the lines that are not blank, each with its number and decoded as `kind`. Raises `ConfigError`."""
    decoder = msgspec.json.Decoder(kind)
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, decoder.decode(line)
            except msgspec.DecodeError as error:
                raise ConfigError(f"{origin}, line {number}: {error}") from error


def _history_message(text: str) -> Message:
    """Returns the message of one text in `history`. A text without "user: " or "assistant: " is a message of the user."""
    role: Role
    for role in ("user", "assistant"):
        if text.startswith(f"{role}: "):
            return Message(role=role, content=text[len(role) + 2 :])
    return Message(role="user", content=text)
