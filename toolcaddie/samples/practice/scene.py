"""A request as the practice model, which follows rules instead of a language model, reads it: the wish (what the user wants now),
the calls made for it so far (the trail), and the conversation before."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from toolcaddie.core.message import Message, ModelRequest
from toolcaddie.core.meta_names import EXECUTE_TOOL, GET_TOOL_SCHEMA, LIST_TOOLS, META_TOOLS, SEARCH_TOOLS
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.samples.practice.answer import is_question
from toolcaddie.samples.practice.arguments import Facts, names_by_slot
from toolcaddie.samples.practice.english import CALLED_OFF, Wish, is_wish, pattern, stems, wish_of
from toolcaddie.samples.practice.mentions import Mention, mentions_of
from toolcaddie.samples.practice.rows import decoded, is_error
from toolcaddie.samples.practice.tools import KnownTool, Slot, Toolbox, is_tool, toolbox_of

LONGEST = 2_000
"""The number of characters of a message that are read; the rules seldom find anything after them."""

_TODAY, _POINTING = pattern("today"), pattern("pointing")


@dataclass(frozen=True, kw_only=True)
class PastCall:
    """A call of this conversation and its result. A call through `execute_tool` is stored as a call of the inner tool."""

    name: str
    arguments: Mapping[str, Any]
    content: str

    @property
    def failed(self) -> bool:
        return is_error(self.content)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A request with everything that the rules need to know about it."""

    text: str
    """The text of the wish. If the practice model asked about the wish, the user's answer is appended."""
    before: str
    """The text of the wish before this one; empty: there is none."""
    trail: tuple[PastCall, ...]
    """Calls for this wish so far."""
    history: tuple[PastCall, ...]
    """Calls for earlier wishes."""
    box: Toolbox
    today: date
    called_off: bool = False
    """True if the user cancelled the wish when the practice model asked about it."""

    @cached_property
    def wish(self) -> Wish:
        return wish_of(self.text, verbs=self.box.verbs)

    @cached_property
    def mentions(self) -> tuple[Mention, ...]:
        return self._mentions_of(self.text)

    @cached_property
    def earlier_mentions(self) -> tuple[Mention, ...]:
        return self._mentions_of(self.before)

    def _mentions_of(self, text: str) -> tuple[Mention, ...]:
        return mentions_of(text, today=self.today, name_stems=self.box.name_stems, tool_stems=self.box.stems)

    @cached_property
    def ranking(self) -> list[tuple[KnownTool, float]]:
        """The tools that match the words of the wish without names, because names say nothing about a tool."""
        topic = list(self.text)
        for mention in self.mentions:
            if mention.kind in ("name", "email", "ordinal"):
                topic[mention.start : mention.end] = " " * (mention.end - mention.start)
        messages = [Message(role="user", content=text) for text in (self.before, "".join(topic)) if text]
        return self.box.ranked(SelectionQuery(messages=messages), 12)

    @property
    def ordinal(self) -> int | None:
        """The place in a list that the message refers to ("the first one"), or None: 0 is the first, -1 the last."""
        return next((mention.value for mention in self.mentions if mention.kind == "ordinal"), None)

    @property
    def is_named(self) -> bool:
        return any(mention.kind in ("name", "quote", "email") for mention in self.mentions)

    @property
    def points_back(self) -> bool:
        """True if the message refers to something mentioned before: "the first one", "it", "her"."""
        return not self.is_named and (self.ordinal is not None or bool(_POINTING.search(self.text)))

    def names(self, slot: Slot) -> bool:
        """Returns True if the message has a name next to the word for the slot's thing: "the Rivers project"."""
        name = names_by_slot((slot,), self.facts()).get(slot.name)
        return name is not None and self.facts().is_beside(name, stems(slot.thing))

    def facts(self) -> Facts:
        return Facts(text=self.text, mentions=self.mentions, today=self.today)

    @property
    def tool_calls(self) -> list[PastCall]:
        """Calls for this wish so far, without those of meta tools."""
        return [past_call for past_call in self.trail if past_call.name not in META_TOOLS]

    def tool_of(self, past_call: PastCall) -> KnownTool:
        """Returns the tool that was called. If the request does not show the tool, the result has only its name."""
        return self.box.tools.get(past_call.name) or KnownTool(name=past_call.name, offered=False)

    def has_called(self, name: str, arguments: Mapping[str, Any]) -> bool:
        return any(past_call.arguments == arguments for past_call in self.calls_of(name))

    def calls_of(self, name: str) -> list[PastCall]:
        return [past_call for past_call in self.trail if past_call.name == name]


def scene_of(request: ModelRequest, *, today: date, only: frozenset[str] | None = None) -> Scene:
    """Reads a request. `only`: the tools that its tool choice allows; None: all."""
    messages = request.messages
    spoken = [index for index, message in enumerate(messages) if message.role == "user"]
    start = spoken[-1] if spoken else len(messages)
    history, trail = _past_calls(messages[:start]), _past_calls(messages[start:])
    box = toolbox_of(request.tools, only=only)
    if EXECUTE_TOOL in box.meta:
        box = toolbox_of(request.tools, _shown_tools((*history, *trail)), only=only)
    texts, called_off = _wishes(messages)
    return Scene(
        text=texts[-1] if texts else "",
        before=texts[-2] if len(texts) > 1 else "",
        trail=trail,
        history=history,
        box=box,
        today=_prompted_day(messages) or today,
        called_off=called_off,
    )


def _wishes(messages: Sequence[Message]) -> tuple[list[str], bool]:
    """Returns the last two wishes, and True if the last one was cancelled.

    The answer to a question of the practice model is appended to the wish that the question is about, unless it is a new wish.
    """
    texts: list[str] = []
    questioned = called_off = False
    for message in messages:
        if message.role == "user":
            text = message.text[:LONGEST]
            called_off = questioned and bool(CALLED_OFF.match(text))
            joins = questioned and texts and not called_off and not is_wish(text)
            texts[-1:] = [f"{texts[-1]}\n{text}"] if joins else [*texts[-1:], text]
            questioned = False
        elif message.role == "assistant" and message.text:
            questioned = is_question(message.text)
    return texts, called_off


def _prompted_day(messages: Sequence[Message]) -> date | None:
    """Returns the date that a system prompt states."""
    for message in messages:
        match = _TODAY.search(message.text) if message.role in ("system", "developer") else None
        with contextlib.suppress(ValueError):  # ignores an impossible date
            if match:
                return date.fromisoformat(match[1])
    return None


def _past_calls(messages: Sequence[Message]) -> tuple[PastCall, ...]:
    """Returns the calls that have a result among these messages, in the order of the results."""
    calls = {call.id: call for message in messages for call in message.tool_calls}
    results = [(calls.get(message.tool_call_id or ""), message) for message in messages if message.role == "tool"]
    return tuple(
        _unwrapped(call.name, _mapping(decoded(call.arguments)), message.text) for call, message in results if call
    )


def _unwrapped(name: str, arguments: Mapping[str, Any], content: str) -> PastCall:
    """Returns a call with its result. For a call of `execute_tool` it is the call of the tool named in its arguments."""
    if name == EXECUTE_TOOL and isinstance(arguments.get("tool_name"), str):
        name, arguments = arguments["tool_name"], _mapping(arguments.get("arguments"))
    return PastCall(name=name, arguments=arguments, content=content)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _shown_tools(trail: Iterable[PastCall]) -> Iterator[Mapping[str, Any]]:
    """Yields the definitions of tools in the results of meta tools."""
    for past_call in trail:
        value = decoded(past_call.content)
        if past_call.name in (SEARCH_TOOLS, LIST_TOOLS):
            listed = value.get("tools") if isinstance(value, Mapping) else value
            yield from (body for body in listed if is_tool(body)) if isinstance(listed, list) else ()
        elif past_call.name == GET_TOOL_SCHEMA and is_tool(value):
            yield {"parameters": {"type": "object"}, **value}
