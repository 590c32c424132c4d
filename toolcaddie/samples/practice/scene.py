"""A request as the practice model reads it: what is wished for, what has been done about it, what was said before."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import msgspec

from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, LIST_TOOLS, META_TOOLS, SEARCH_TOOLS
from toolcaddie.core.schema import canonical_json
from toolcaddie.samples.practice.answer import is_question
from toolcaddie.samples.practice.facts import Facts, allot
from toolcaddie.samples.practice.mentions import KNOWN_CURRENCIES, Mention, currency_codes, find_mentions
from toolcaddie.samples.practice.rows import decode, is_error
from toolcaddie.samples.practice.toolbox import KnownTool, Slot, Toolbox, as_tool, offered_tools
from toolcaddie.samples.practice.words import CALLED_OFF, Wish, is_wish, read_wish, stem, stems
from toolcaddie.util.replacing import replace

LONGEST = 2_000
"""Characters of a message that are read: what the rules cannot find there they would not find behind it."""

_TODAY = re.compile(r"\b(?:today(?:'s date)?|date|current date)(?: is|:) *(\d{4})-(\d{2})-(\d{2})", re.IGNORECASE)
_NEXT = re.compile(r"\bnext\b", re.IGNORECASE)
_POINTING = re.compile(
    r"\b(?:it|him|her|them|his|their|one|he|she|they|same|(?:that|this)(?! (?:day|week|month|year|morning|evening)))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A call of this conversation and what came back, `execute_tool` taken off."""

    name: str
    arguments: Mapping[str, Any]
    content: str

    @property
    def failed(self) -> bool:
        return is_error(self.content)

    @property
    def key(self) -> bytes:
        return call_key(self.name, self.arguments)


def call_key(name: str, arguments: Mapping[str, Any]) -> bytes:
    """Equal for calls that are the same."""
    return canonical_json([name, dict(arguments)])


@dataclass(frozen=True, kw_only=True)
class Scene:
    text: str
    """What the user wants; an answer to a question of ours stands behind the wish it belongs to."""
    before: str
    """What the same user said earlier."""
    trail: tuple[Done, ...]
    """What was done about it so far."""
    history: tuple[Done, ...]
    """What was done for earlier wishes."""
    box: Toolbox
    today: date
    called_off: bool = False
    """The user answered our question by wanting nothing any more."""

    @cached_property
    def wish(self) -> Wish:
        wish = read_wish(self.text, self.before, verbs=self.box.leading)
        return replace(wish, content=(*wish.content, *self._implied()))

    def _implied(self) -> tuple[str, ...]:
        """Stems that are meant without being said: two currencies are about a conversion."""
        currencies = {code for _, code in currency_codes(self.text)}
        return tuple(map(stem, ("convert", "currency"))) if len(currencies & KNOWN_CURRENCIES) > 1 else ()

    @cached_property
    def mentions(self) -> tuple[Mention, ...]:
        return find_mentions(self.text, today=self.today, known=self.box.names, common=self.box.knows)

    @cached_property
    def earlier_mentions(self) -> tuple[Mention, ...]:
        return find_mentions(self.before, today=self.today, known=self.box.names, common=self.box.knows)

    @cached_property
    def naming_stems(self) -> frozenset[str]:
        """Stems that belong to a name or an ordinal in the message and say nothing about a tool."""
        kinds = ("name", "email", "ordinal")
        return frozenset(word for one in self.mentions if one.kind in kinds for word in stems(one.text))

    @property
    def ordinal(self) -> int | None:
        """Which one of several is meant, if the message says: 0 is the first, -1 the last."""
        return next((one.value for one in self.mentions if one.kind == "ordinal"), None)

    @property
    def place(self) -> int | None:
        """Which one of several that fit alike: the ordinal, or the first for "the next one"."""
        return 0 if self.ordinal is None and _NEXT.search(self.text) else self.ordinal

    @property
    def points_back(self) -> bool:
        """The message means something that was mentioned before: "the first one", "it", "her"."""
        named = any(one.kind in ("name", "quote", "email") for one in self.mentions)
        return not named and (self.ordinal is not None or bool(_POINTING.search(self.text)))

    @property
    def names_one(self) -> bool:
        """The message names or points at something or somebody."""
        return bool(self.naming_stems) or self.points_back

    @property
    def names_something(self) -> bool:
        kinds = {"name", "quote", "email", "code", "number", "phone"}
        return self.points_back or any(one.kind in kinds for one in self.mentions)

    def is_named(self, slot: Slot) -> bool:
        """Whether the message has a name right beside the word for what the slot identifies: "the Rivers project"."""
        facts = self.facts()
        name = allot((slot,), facts).get(slot.name)
        if name is None:
            return False
        near = {*facts.before(name.start, 2), *facts.after(name.end, 2)}
        return not near.isdisjoint(slot.thing)

    def facts(self) -> Facts:
        return Facts(text=self.text, mentions=self.mentions, today=self.today)

    @property
    def real_trail(self) -> list[Done]:
        """What was done so far, without looking for tools."""
        return [done for done in self.trail if done.name not in META_TOOLS]

    @property
    def real_history(self) -> list[Done]:
        return [done for done in self.history if done.name not in META_TOOLS]

    def tool_of(self, done: Done) -> KnownTool:
        """The tool that was called, or what its name alone tells."""
        return self.box.get(done.name) or KnownTool(name=done.name, offered=False)

    def has_done(self, name: str, arguments: Mapping[str, Any]) -> bool:
        key = call_key(name, arguments)
        return any(done.key == key for done in self.trail)

    def calls_of(self, name: str) -> list[Done]:
        return [done for done in self.trail if done.name == name]


def read_scene(request: ModelRequest, *, today: date, only: frozenset[str] | None = None) -> Scene:
    """`only`: the tools that the request's choice leaves; None: all it has."""
    messages = request.messages
    asked = [index for index, message in enumerate(messages) if message.role == "user"]
    start = asked[-1] if asked else len(messages)
    history, trail = _done(messages[:start]), _done(messages[start:])
    offered = [tool for tool in offered_tools(request.tools) if only is None or tool.name in only]
    texts, called_off = _wishes(messages)
    return Scene(
        text=texts[-1] if texts else "",
        before=texts[-2] if len(texts) > 1 else "",
        trail=trail,
        history=history,
        box=Toolbox.of(offered, tuple(_found((*history, *trail))) if _may_execute(offered) else ()),
        today=_told_day(messages) or today,
        called_off=called_off,
    )


def _may_execute(offered: Sequence[KnownTool]) -> bool:
    return any(tool.name == EXECUTE_TOOL for tool in offered)


def _wishes(messages: Sequence[Message]) -> tuple[list[str], bool]:
    """The last two wishes, and whether the last one was called off.

    An answer to a question of ours joins the wish that the question is about, unless it is a wish of its own.
    """
    texts: list[str] = []
    asked = called_off = False
    for message in messages:
        if message.role == "user":
            text = message.text[:LONGEST]
            called_off = asked and bool(CALLED_OFF.match(text))
            joins = asked and texts and not called_off and not is_wish(text)
            texts[-1:] = [f"{texts[-1]}\n{text}"] if joins else [*texts[-1:], text]
            asked = False
        elif message.role == "assistant" and message.text:
            asked = is_question(message.text)
    return texts, called_off


def _told_day(messages: Sequence[Message]) -> date | None:
    """The day a system prompt says it is."""
    for message in messages:
        match = _TODAY.search(message.text) if message.role in ("system", "developer") else None
        if match:
            with contextlib.suppress(ValueError):  # a day that no calendar has tells nothing
                return date(int(match[1]), int(match[2]), int(match[3]))
    return None


def _done(messages: Sequence[Message]) -> tuple[Done, ...]:
    calls = {call.id: call for message in messages for call in message.tool_calls}
    found = []
    for message in messages:
        call = calls.get(message.tool_call_id or "") if message.role == "tool" else None
        if call is not None:
            found.append(_unwrapped(call.name, _arguments(call.arguments), message.text))
    return tuple(found)


def _unwrapped(name: str, arguments: Mapping[str, Any], content: str) -> Done:
    if name == EXECUTE_TOOL and isinstance(arguments.get("tool_name"), str):
        inner = arguments.get("arguments")
        name, arguments = arguments["tool_name"], inner if isinstance(inner, Mapping) else {}
    return Done(name=name, arguments=arguments, content=content)


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}


def _found(done: Iterable[Done]) -> Iterable[KnownTool]:
    """Tools that answers of the meta tools tell of."""
    for one in done:
        value = decode(one.content)
        if one.name in (SEARCH_TOOLS, LIST_TOOLS) and isinstance(value, Mapping | list):
            hits = value.get("tools", ()) if isinstance(value, Mapping) else value
            yield from (as_tool(hit, offered=False) for hit in hits if _is_tool(hit))
        elif one.name == GET_TOOL_SCHEMA and _is_tool(value):
            yield as_tool({"parameters": {"type": "object"}, **value}, offered=False)


def _is_tool(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("name"), str) and value["name"] not in META_TOOLS
