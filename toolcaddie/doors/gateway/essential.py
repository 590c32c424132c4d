"""The tools of a request that its client cannot do without: they are sent whatever they score.

Four things make a tool essential: the client pins it (`x-toolcaddie-pin: lookup_policy, crm_*`), it is the output tool or the
hand-off of a known kind of client (`essential.toml`), a tool must be called and this one is named like a type, or the client's
own instructions name it. What `tool_choice` names is not looked at here: the runtime itself sends that.
"""

from __future__ import annotations

import re
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from toolcaddie.errors import RequestError
from toolcaddie.message import Message
from toolcaddie.tool_types import Tool

HEADER = "x-toolcaddie-pin"

_MOST_PATTERNS = 128
_MOST_OF_A_ROW = 32
"""A pattern that fits more tools is how a client names its tools, and says nothing of any one."""
_MOST_NAMED = 16
"""Instructions that name more tools list what there is, and depend on none."""
_MOST_TYPES = 8
_MOST_READ = 256 * 1024
"""Characters of instructions that are read."""
_LISTS, _TEXTS = 256, 8
_TYPE = re.compile(r"(?:[A-Z][a-z0-9]+)+")
_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}\*?|\*")
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_QUOTED = re.compile(r"[`'\"]([A-Za-z0-9_-]{1,64})(?:\(\))?[`'\"]|\b([A-Za-z0-9_-]{1,64}) tool\b")
_IDENTIFIER = re.compile(r".*(?:[_0-9-]|[a-z][A-Z])")
"""Names that nobody writes by chance: `lookup_policy`, `readFile`, but not `search`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """Essential tools with their reasons, and the client's pins that fit no tool."""

    tools: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is read from a client's tools once. They hold their list, so that its identity stays its own."""

    tools: Sequence[Tool]
    names: frozenset[str]
    identifiers: frozenset[str]
    recognised: Mapping[str, str]
    types: Mapping[str, str]
    named: OrderedDict[str, Mapping[str, str]] = field(default_factory=OrderedDict)
    """By the text of the instructions: clients send the same ones again."""


class Essential:
    """Finds them. A client sends the same list of tools with every request, so what a list says is kept by its identity."""

    def __init__(self) -> None:
        self._lists: OrderedDict[int, _Known] = OrderedDict()

    def of(
        self,
        header: bytes | None,
        tools: Sequence[Tool],
        tool_choice: Any,
        messages: Sequence[Message],
        visible: Callable[[], Iterable[str]],
    ) -> Pins:
        """The essential tools of a request. `visible` gives the names of all tools that the client may use, ours included;
        only a pin that none of the client's own tools fits needs them. Raises `RequestError` where the header is wrong."""
        pins = Pins() if header is None else _pinned(read_pins(header), tools, visible)
        if not tools:
            return pins
        known = self._known(tools)
        types = known.types if tool_choice == "required" else {}
        found = {**_named(known, messages), **types, **known.recognised, **pins.tools}
        return Pins(tools=found, unknown=pins.unknown)

    def _known(self, tools: Sequence[Tool]) -> _Known:
        key = id(tools)
        if key in self._lists:
            self._lists.move_to_end(key)
            return self._lists[key]
        names = frozenset(tool.name for tool in tools)
        known = self._lists[key] = _Known(
            tools=tools,
            names=names,
            identifiers=frozenset(name for name in names if _IDENTIFIER.match(name)),
            recognised=recognised(tools),
            types=_types(names),
        )
        if len(self._lists) > _LISTS:
            self._lists.popitem(last=False)
        return known


def read_pins(header: bytes) -> tuple[str, ...]:
    """The names of the header, each with a `*` at its end where it stands for all that begin so."""
    pins = tuple(dict.fromkeys(pin for part in header.decode("latin-1").split(",") if (pin := part.strip())))
    if len(pins) > _MOST_PATTERNS:
        raise RequestError(f"'{HEADER}' holds {len(pins)} names; at most {_MOST_PATTERNS} are read", param=HEADER)
    for pin in pins:
        if not _PATTERN.fullmatch(pin):
            raise RequestError(
                f"'{HEADER}' holds {pin[:80]!r}, which is no name of a tool; write names between commas, with a * at the end of "
                "one that stands for all tools that begin so",
                param=HEADER,
            )
    return pins


def recognised(tools: Sequence[Tool]) -> Mapping[str, str]:
    """Output tools and hand-offs among a client's tools, each with the reason."""
    found: dict[str, str] = {}
    for row in _rows():
        fitting = [tool.name for tool in tools if row.fits(tool)]
        if len(fitting) <= _MOST_OF_A_ROW:
            found = {**dict.fromkeys(fitting, row.reason), **found}
    return found


def _types(names: Collection[str]) -> Mapping[str, str]:
    """Tools named like a type among others that are not: that of an answer, where a client that wants one of this type makes
    the model call a tool (LangChain's `ToolStrategy`)."""
    found = sorted(name for name in names if _TYPE.fullmatch(name))
    if not found or len(found) > _MOST_TYPES or 2 * len(found) > len(names):
        return {}
    return dict.fromkeys(found, "a tool must be called, and this one is named like the type of an answer")


def _pinned(pins: Sequence[str], tools: Sequence[Tool], visible: Callable[[], Iterable[str]]) -> Pins:
    reason = f"by the client ({HEADER})"
    own = frozenset(tool.name for tool in tools)
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


def _named(known: _Known, messages: Sequence[Message]) -> Mapping[str, str]:
    """Tools that the client's instructions name. Where they name many, they list what there is."""
    text = "\n".join(message.text for message in messages if message.role in ("system", "developer"))[:_MOST_READ]
    if not text:
        return {}
    if text not in known.named:
        if len(known.named) >= _TEXTS:
            known.named.popitem(last=False)
        known.named[text] = _named_in(text, known)
    return known.named[text]


def _named_in(text: str, known: _Known) -> Mapping[str, str]:
    words = known.identifiers.intersection(_WORD.findall(text))
    quoted = known.names.intersection(word for pair in _QUOTED.findall(text) for word in pair)
    names = words | quoted
    return dict.fromkeys(sorted(names), "the instructions name it") if len(names) <= _MOST_NAMED else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row of essential.toml."""

    name: re.Pattern[str]
    description: re.Pattern[str] | None
    reason: str

    def fits(self, tool: Tool) -> bool:
        if not self.name.fullmatch(tool.name):
            return False
        return self.description is None or self.description.fullmatch(tool.description[:2000]) is not None


@cache
def _rows() -> tuple[_Row, ...]:
    text = files(__package__).joinpath("essential.toml").read_text(encoding="utf-8")
    return tuple(
        _Row(
            name=_pattern(row["name"]),
            description=_pattern(row["description"]) if "description" in row else None,
            reason=f"{_A[row['kind']]} of {row['client']}",
        )
        for row in tomllib.loads(text)["tool"]
    )


_A = {"output": "an output tool", "hand-off": "a hand-off"}


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)
