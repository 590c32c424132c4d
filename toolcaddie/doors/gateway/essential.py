"""The tools of a request that its client cannot do without: they are sent whatever they score.

Four things make a tool essential: the client pins it (`x-toolcaddie-pin: lookup_policy, crm_*`), it is the output tool or the
hand-off of a known kind of client (`essential.toml`), a tool must be called and this one looks like that of an answer, or the
client's own instructions name it. What `tool_choice` names is not looked at here: the runtime itself sends that.
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

from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.tool import Tool

PIN_HEADER = "x-toolcaddie-pin"

_MOST_PATTERNS = 128
_MOST_OF_A_ROW = 32
"""A pattern that fits more tools is how a client names its tools, and says nothing of any one."""
_MOST_NAMED = 16
"""Instructions that name more tools list what there is, and depend on none."""
_MOST_TYPES = 8
_MOST_READ = 64 * 1024
"""Characters of instructions that are read."""
_TEXTS = 8
_TYPE = re.compile(r"(?:[A-Z][a-z0-9]+)+")
_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}\*?|\*")
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_QUOTED = re.compile(r"[`'\"]([A-Za-z0-9_-]{1,64})(?:\(\))?[`'\"]")
_IDENTIFIER = re.compile(r".*(?:[_0-9-]|[a-z][A-Z])")
"""Names that nobody writes by chance: `lookup_policy`, `readFile`, but not `search`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """Essential tools with their reasons, and the client's pins that fit no tool."""

    tools: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTools:
    """What is read of a client's tools once, because it sends the same list with every request."""

    names: frozenset[str] = frozenset()
    identifiers: frozenset[str] = frozenset()
    recognised: Mapping[str, str] = field(default_factory=dict)
    """Output tools and hand-offs, each with the reason."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """What is probably the tool of an answer where one must be called, each with the reason."""
    _named: dict[tuple[int, int], Mapping[str, str]] = field(default_factory=dict)
    """By length and hash of the instructions, which are the same in most requests: the tools they name."""

    @classmethod
    def of(cls, tools: Sequence[Tool]) -> KnownTools:
        names = frozenset(tool.name for tool in tools)
        return cls(
            names=names,
            identifiers=frozenset(name for name in names if _IDENTIFIER.match(name)),
            recognised=_recognised(tools),
            answers=_answers(tools),
        )

    def named_in(self, text: str) -> Mapping[str, str]:
        """The tools that instructions name. Where they name many, they list what there is."""
        key = len(text), hash(text)
        if key not in self._named:
            if len(self._named) >= _TEXTS:
                del self._named[next(iter(self._named))]
            words = _WORD.findall(text)
            before_tool = (word for word, following in pairwise(words) if following == "tool")
            meant = self.names.intersection((*_QUOTED.findall(text), *before_tool)) | self.identifiers.intersection(
                words
            )
            names = sorted(meant) if len(meant) <= _MOST_NAMED else ()
            self._named[key] = dict.fromkeys(names, "the instructions name it")
        return self._named[key]


NO_TOOLS = KnownTools()


def pins_of(
    header: bytes | None,
    known: KnownTools,
    tool_choice: Any,
    messages: Sequence[Message],
    visible: Callable[[], Iterable[str]],
) -> Pins:
    """The essential tools of a request. `visible` gives the names of all tools that the client may use, ours included; only a pin
    that none of the client's own tools fits needs them. Raises `RequestError` where the header is wrong."""
    pins = Pins() if header is None else _pinned(read_pins(header), known.names, visible)
    if not known.names:
        return pins
    text = "\n".join(message.text for message in messages if message.role in ("system", "developer"))[:_MOST_READ]
    named = known.named_in(text) if text else {}
    answers = known.answers if tool_choice == "required" else {}
    return Pins(tools={**named, **answers, **known.recognised, **pins.tools}, unknown=pins.unknown)


def read_pins(header: bytes) -> tuple[str, ...]:
    """The names of the header, each with a `*` at its end where it stands for all that begin so."""
    pins = tuple(dict.fromkeys(pin for part in header.decode("latin-1").split(",") if (pin := part.strip())))
    if len(pins) > _MOST_PATTERNS:
        raise RequestError(
            f"'{PIN_HEADER}' holds {len(pins)} names; at most {_MOST_PATTERNS} are read", param=PIN_HEADER
        )
    for pin in pins:
        if not _PATTERN.fullmatch(pin):
            raise RequestError(
                f"'{PIN_HEADER}' holds {pin[:80]!r}, which is no name of a tool; write names between commas, with a * at "
                "the end of one that stands for all tools that begin so",
                param=PIN_HEADER,
            )
    return pins


def _recognised(tools: Sequence[Tool]) -> Mapping[str, str]:
    """Output tools and hand-offs among a client's tools, each with the reason."""
    found: dict[str, str] = {}
    by_name = {tool.name: tool for tool in tools}
    for row in _rows():
        if len(row.name) == 1:
            possible: Iterable[Tool] = filter(None, (by_name.get(row.name[0]),))
        else:
            possible = tools
        fitting = [tool.name for tool in possible if row.fits(tool)]
        if len(fitting) <= _MOST_OF_A_ROW:
            found = {**dict.fromkeys(fitting, row.reason), **found}
    return found


def _answers(tools: Sequence[Tool]) -> Mapping[str, str]:
    """Tools that are probably there to give the answer with, where a client makes the model call one: the last of the list, where
    Pydantic AI and LangChain put theirs whatever its name, and those named like a type among others that are not."""
    typed = sorted(tool.name for tool in tools if _TYPE.fullmatch(tool.name))
    few = len(typed) <= _MOST_TYPES and 2 * len(typed) <= len(tools)
    found = {tool.name: "a tool must be called, and this is the last of the list" for tool in tools[-1:]}
    return found | dict.fromkeys(typed if few else (), "a tool must be called, and this one is named like a type")


def _pinned(pins: Sequence[str], own: frozenset[str], visible: Callable[[], Iterable[str]]) -> Pins:
    reason = f"by the client ({PIN_HEADER})"
    names = own if all(pin in own for pin in pins) else own.union(visible())
    found: dict[str, str] = {}
    unknown = []
    for pin in pins:
        beginning = pin.removesuffix("*")
        fitting = [pin] if pin in names else sorted(n for n in names if pin != beginning and n.startswith(beginning))
        found |= dict.fromkeys(fitting, reason)
        if not fitting:
            unknown.append(pin)
    return Pins(tools=found, unknown=tuple(unknown))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row of essential.toml; a pattern is its parts between the stars."""

    name: Sequence[str]
    description: Sequence[str]
    reason: str

    def fits(self, tool: Tool) -> bool:
        return _fits(tool.name, self.name) and _fits(tool.description, self.description)


@cache
def _rows() -> tuple[_Row, ...]:
    text = files(__package__).joinpath("essential.toml").read_text(encoding="utf-8")
    return tuple(
        _Row(
            name=row["name"].split("*"),
            description=row.get("description", "*").split("*"),
            reason=f"{_A[row['kind']]} of {row['client']}",
        )
        for row in tomllib.loads(text)["tool"]
    )


_A = {"output": "an output tool", "hand-off": "a hand-off"}


def _fits(text: str, parts: Sequence[str]) -> bool:
    """Whether the parts stand in the text in this order, the first at its beginning and the last at its end."""
    if len(parts) == 1:
        return text == parts[0]
    first, *middle, last = parts
    if not text.startswith(first):
        return False
    at = len(first)
    for part in middle:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) >= at + len(last) and text.endswith(last)
