"""What the successful calls of a run support: classes of actions that their tools may do, or that their texts mention."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from toolcaddie.control.claims.words import Words, beginnings_of
from toolcaddie.core.claims import Action

_EVIDENCE = 8_000
"""Characters of arguments and of a result that are read."""
_DESCRIPTION = 300
_WORD = re.compile(r"\w+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A successful call of this run, or of an earlier turn of the conversation."""

    tool: str
    """Empty: a call that could have done anything."""
    description: str = ""
    read_only: bool | None = None
    """None: unspecified; then the tool's name decides."""
    arguments: str = ""
    result: str = ""


class Support:
    """What the successful calls support. The texts of a call are read once, when a claim first needs them."""

    def __init__(self, calls: Sequence[PastCall], words: Words) -> None:
        self._words = words
        self._calls = calls
        self._acting = [place for place, call in enumerate(calls) if not _only_reads(call, words)]
        self._mentioned: dict[int, frozenset[Action]] = {}

    def has(self, action: Action) -> bool:
        """Returns True if a call could have done such an action."""
        if action == "any" or not self._acting:
            return bool(self._acting)
        able = self._able
        if "any" in able or action in able or not able.isdisjoint(self._words.also[action]):
            return True
        return any(action in self._mentions(place) for place in self._acting)

    @cached_property
    def _able(self) -> frozenset[Action]:
        """The classes of actions that the called tools may do."""
        return frozenset[Action]().union(*(_classes(self._calls[place], self._words) for place in self._acting))

    def is_reported(self, action: Action) -> bool:
        """Returns True if a call, also one that only reads, returned a text that says the same."""
        return any(action in self._mentions(place) for place in range(len(self._calls)))

    def _mentions(self, place: int) -> frozenset[Action]:
        if place not in self._mentioned:
            self._mentioned[place] = _mentioned(self._calls[place], self._words)
        return self._mentioned[place]


def _only_reads(call: PastCall, words: Words) -> bool:
    if call.read_only is not None or not call.tool:
        return bool(call.read_only)
    name = _name_words(call.tool)
    return bool(name) and name[0] in words.reading and words.acting.isdisjoint(name)


def _name_words(name: str) -> list[str]:
    return [part for part in re.split(r"[\W_]+", _CAMEL.sub(" ", name).lower()) if part]


def _classes(call: PastCall, words: Words) -> frozenset[Action]:
    """Returns the classes of actions that a tool may do; `any`: its words do not tell."""
    name = _name_words(call.tool)
    if not words.general.isdisjoint(name):
        return frozenset(("any",))
    described = _WORD.findall(call.description[:_DESCRIPTION].lower())
    found: set[Action] = set()
    for word in (*name, *described):
        found.update(beginnings_of(word, words.stems), words.whole.get(word, ()))
    for word in name:
        found.update(beginnings_of(word, words.nouns))
    return frozenset(found or ("any",))


def _mentioned(call: PastCall, words: Words) -> frozenset[Action]:
    """Returns the classes of actions of which the arguments or the result of a call have a word."""
    text = f"{call.arguments[:_EVIDENCE]} {call.result[:_EVIDENCE]}".lower().replace("_", " ")
    found: set[Action] = set()
    for token in set(_WORD.findall(text)) - words.neutral:
        found.update(action for action, _ in words.forms.get(token, ()))
        found.update(beginnings_of(token, words.stems))
    return frozenset(found)
