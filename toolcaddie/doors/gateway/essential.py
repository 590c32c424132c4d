"""Finds the essential tools of a request to the gateway. The client depends on them, so they are sent to the model even if the
selection of tools gives them a low score.

A tool is essential for one of five reasons:

    pinned       the client names it in a header, `x-toolcaddie-pin: lookup_policy, crm_*`, or the settings name it
    own          it belongs to the client itself, beside large groups of tools of MCP servers
    framework    it is the output tool of a client framework, by which the model gives its final answer, a hand-off to another
                 agent, or a control tool of the client's loop; `essential.toml` has their names
    required     a tool must be called, and this is probably the output tool
    mentioned    the client's own instructions mention it

The tool of `tool_choice` is sent by the runtime and needs no entry here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

import msgspec

from toolcaddie.core.errors import ConfigError, RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.tool import Tool
from toolcaddie.doors.gateway.own_tools import own_tools
from toolcaddie.util.bounded import Bounded

PIN_HEADER = "x-toolcaddie-pin"
_BY_CLIENT, _BY_SETTINGS = f"by the client ({PIN_HEADER})", "by the settings (gateway.pinned)"

_MOST_PATTERNS = 128
"""The largest number of names in the header."""
_MOST_OF_A_ROW = 32
"""The largest number of tools that a row of `essential.toml` may fit. If it fits more tools, its pattern describes the client's
naming style and does not single out a tool, so the row is ignored."""
_MOST_MENTIONED = 16
"""The largest number of tools that instructions may mention. If they mention more, they merely list the tools, and none of these
is essential."""
_MOST_TYPES = 8
"""The largest number of tools that may be named like types. If there are more, such a name does not single out a tool."""
_MOST_CHARACTERS = 64 * 1024
"""The largest number of characters of instructions that are read."""
_TEXTS = 8
"""The number of instructions whose mentioned tools are cached."""
_TYPE = re.compile(r"(?:[A-Z][a-z0-9]+)+")
"""Names like those of types: `WeatherReport`."""
_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}\*?|\*")
"""A name in the header, with or without a star at its end."""
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_QUOTED = re.compile(r"[`'\"]([A-Za-z0-9_-]{1,64})(?:\(\))?[`'\"]")
"""A name in quotes or backticks, with or without parentheses: `search()`."""
_IDENTIFIER = re.compile(r".*(?:[_0-9-]|[a-z][A-Z])")
"""Names that do not occur by chance in a text: `lookup_policy`, `readFile`, but not `search`."""


class Pins(msgspec.Struct, frozen=True, kw_only=True):
    """The essential tools of a request, each with the reason, and the pins (names in the header) that fit no tool."""

    tools: Mapping[str, str] = msgspec.field(default_factory=dict)
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """Facts about a client's tools, computed once per list, because the client sends the same list with every request."""

    names: frozenset[str] = frozenset()
    identifiers: frozenset[str] = frozenset()
    """Names that do not occur by chance in a text."""
    framework_tools: Mapping[str, str] = field(default_factory=dict)
    """Output tools, hand-offs, control tools and the client's own tools, each with the reason."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """Tools that probably give the answer if a tool must be called, each with the reason."""
    _tools_by_text: Bounded[tuple[int, int], Mapping[str, str]] = field(default_factory=lambda: Bounded(_TEXTS))
    """Cache of the mentioned tools, by length and hash of the instructions: most requests repeat the same instructions."""

    @classmethod
    def of(cls, tools: Sequence[Tool]) -> ToolFacts:
        """Returns the facts about these tools."""
        names = frozenset(tool.name for tool in tools)
        return cls(
            names=names,
            identifiers=frozenset(name for name in names if _IDENTIFIER.match(name)),
            framework_tools={
                **dict.fromkeys(
                    own_tools([tool.name for tool in tools]), "a tool of the client itself, beside large groups"
                ),
                **_framework_tools(tools),
            },
            answers=_answers(tools),
        )

    def tools_in(self, text: str) -> Mapping[str, str]:
        """Returns the tools that instructions mention, with the reason; none if the instructions mention too many tools."""
        key = len(text), hash(text)
        tools = self._tools_by_text.get(key)
        if tools is None:
            tools = dict.fromkeys(self._mentioned(text), "the instructions name it")
            self._tools_by_text.put(key, tools)
        return tools

    def _mentioned(self, text: str) -> Sequence[str]:
        """Returns the names that are quoted, stand before the word "tool", or are identifiers."""
        words = _WORD.findall(text)
        before_tool = (word for word, following in pairwise(words) if following == "tool")
        names = self.names.intersection((*_QUOTED.findall(text), *before_tool)) | self.identifiers.intersection(words)
        return sorted(names) if len(names) <= _MOST_MENTIONED else ()


NO_FACTS = ToolFacts()


def pins_of(
    header: bytes | None,
    facts: ToolFacts,
    tool_choice: Any,
    messages: Sequence[Message],
    visible: Callable[[], Iterable[str]],
    pinned: Sequence[str] = (),
) -> Pins:
    """Returns the essential tools of a request. Raises `RequestError` if the header is wrong.

    `pinned`: the names and patterns of the settings; those that fit no tool are no error.

    `header`: the value of `x-toolcaddie-pin`, if the client sent it. `facts`: facts about the client's own tools.
    `visible` returns the names of all tools that the client may use, including those of the catalog. It is called only if a pin
    is not the name of one of the client's own tools.
    """
    pins = Pins() if header is None else _pins_that_fit(read_pins(header), facts.names, visible, _BY_CLIENT)
    if pinned:
        by_settings = _pins_that_fit(pinned, facts.names, visible, _BY_SETTINGS)
        pins = Pins(tools={**by_settings.tools, **pins.tools}, unknown=pins.unknown)
    if not facts.names:
        return pins
    text = "\n".join(message.text for message in messages if message.role in ("system", "developer"))[:_MOST_CHARACTERS]
    mentioned = facts.tools_in(text) if text else {}
    answers = facts.answers if tool_choice == "required" else {}
    return Pins(tools={**mentioned, **answers, **facts.framework_tools, **pins.tools}, unknown=pins.unknown)


def read_pins(header: bytes) -> tuple[str, ...]:
    """Returns the names in the header; a `*` at the end of a name stands for any ending. Raises `RequestError`."""
    pins = tuple(dict.fromkeys(pin for part in header.decode("latin-1").split(",") if (pin := part.strip())))
    if len(pins) > _MOST_PATTERNS:
        raise RequestError(
            f"'{PIN_HEADER}' holds {len(pins)} names; at most {_MOST_PATTERNS} are allowed", param=PIN_HEADER
        )
    for pin in pins:
        if not _PATTERN.fullmatch(pin):
            raise RequestError(
                f"'{PIN_HEADER}' holds {pin[:80]!r}, which is not the name of a tool; separate names by commas, and write "
                "a * at the end of a name to pin all tools whose names begin with it",
                param=PIN_HEADER,
            )
    return pins


def _framework_tools(tools: Sequence[Tool]) -> Mapping[str, str]:
    """Returns the output tools and hand-offs among a client's tools, as the rows of `essential.toml` describe them, each with the
    reason."""
    reasons: dict[str, str] = {}
    by_name = {tool.name: tool for tool in tools}
    for row in _rows():
        if len(row.name) == 1:
            possible: Iterable[Tool] = filter(None, (by_name.get(row.name[0]),))
        else:
            possible = tools
        fitting = [tool.name for tool in possible if row.fits(tool)]
        if len(fitting) <= _MOST_OF_A_ROW:
            reasons = {**dict.fromkeys(fitting, row.reason), **reasons}
    return reasons


def _answers(tools: Sequence[Tool]) -> Mapping[str, str]:
    """Returns the tools that probably give the answer if the client's `tool_choice` requires a call, each with the reason.

    They are the last tool of the list, because Pydantic AI and LangChain put their output tool there under any name, and the
    tools named like types, provided that they are few and most tools have other names.
    """
    typed = sorted(tool.name for tool in tools if _TYPE.fullmatch(tool.name))
    few = len(typed) <= _MOST_TYPES and 2 * len(typed) <= len(tools)
    reasons = {tool.name: "a tool must be called, and this is the last of the list" for tool in tools[-1:]}
    return reasons | dict.fromkeys(typed if few else (), "a tool must be called, and this one is named like a type")


def checked_pins(pins: Sequence[str]) -> tuple[str, ...]:
    """Returns the pins of the settings. Raises `ConfigError` for one that cannot be a name or pattern."""
    for pin in pins:
        if not _PATTERN.fullmatch(pin):
            raise ConfigError(f"gateway.pinned holds {pin[:80]!r}; give names of tools, with a * only at the end")
    return tuple(pins)


def _pins_that_fit(pins: Sequence[str], own: frozenset[str], visible: Callable[[], Iterable[str]], reason: str) -> Pins:
    """Returns the tools that the pins name, and the pins that fit no tool. `own`: names of the client's own tools; `visible`: as
    in `pins_of`."""
    names = own if all(pin in own for pin in pins) else own.union(visible())
    reasons: dict[str, str] = {}
    unknown = []
    for pin in pins:
        beginning = pin.removesuffix("*")
        fitting = [pin] if pin in names else sorted(n for n in names if pin != beginning and n.startswith(beginning))
        reasons |= dict.fromkeys(fitting, reason)
        if not fitting:
            unknown.append(pin)
    return Pins(tools=reasons, unknown=tuple(unknown))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row of essential.toml. `name` and `description` are patterns, split at their stars."""

    name: Sequence[str]
    description: Sequence[str]
    reason: str

    def fits(self, tool: Tool) -> bool:
        return _fits(tool.name, self.name) and _fits(tool.description, self.description)


@cache
def _rows() -> tuple[_Row, ...]:
    """Returns the rows of `essential.toml`."""
    text = files(__package__).joinpath("essential.toml").read_text(encoding="utf-8")
    return tuple(
        _Row(
            name=row["name"].split("*"),
            description=row.get("description", "*").split("*"),
            reason=f"{_KIND_WORDS[row['kind']]} of {row['client']}",
        )
        for row in tomllib.loads(text)["tool"]
    )


_KIND_WORDS = {"output": "an output tool", "hand-off": "a hand-off", "control": "a control tool of the loop"}


def _fits(text: str, parts: Sequence[str]) -> bool:
    """Returns True if the text contains the parts in this order, the first at its beginning and the last at its end."""
    if len(parts) == 1:
        return text == parts[0]
    first, *middle, last = parts
    if not text.startswith(first):
        return False
    at = len(first)
    for part in middle:
        place = text.find(part, at)
        if place < 0:
            return False
        at = place + len(part)
    return len(text) >= at + len(last) and text.endswith(last)
