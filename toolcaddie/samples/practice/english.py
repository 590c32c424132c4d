"""English for the practice model: families of verbs, and the mood of a message: it asks, orders or states.

General English only. Nothing here knows any catalog: what a tool is about is read from its own definition.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from toolcaddie.selection.query import split_words, stems_of
from toolcaddie.selection.stopwords import STOP_WORDS

STOPS = STOP_WORDS["english"]

READ, CREATE, UPDATE = "read", "create", "update"

_FAMILIES = {
    READ: "get list show find view see display fetch give search look lookup read tell browse retrieve query check pull compare",
    CREATE: "add create new make register record log enter open issue generate insert write submit start set setup put save "
    "hire",
    UPDATE: "update change set edit modify adjust rename move mark switch correct alter transfer put advance shift",
    "delete": "delete remove erase drop discard clear",
    "cancel": "cancel void revoke withdraw calloff",
    "hold": "freeze pause suspend hold halt",
    "resume": "resume unfreeze unpause reactivate restore continue restart lift",
    "book": "book reserve schedule arrange appoint",
    "send": "send email notify message remind mail deliver",
    "assign": "assign allocate attach allot put",
    "approve": "approve accept confirm authorize",
    "reject": "reject deny decline refuse",
    "complete": "complete finish close resolve end done achieve",
    "pay": "pay settle disburse",
    "renew": "renew extend prolong",
    "convert": "convert exchange turn translate",
    "validate": "validate verify check test",
    "redeem": "redeem claim spend use apply",
    "enroll": "enroll enrol join subscribe signup register add enter",
    "arrive": "checkin admit mark",
    "go": "navigate go open take bring visit switch",
    "count": "count calculate compute total sum",
}
ANSWERING = frozenset({READ, "validate", "count", "convert"})
"""Families of verbs that change nothing."""


def words(text: str) -> list[str]:
    """Returns the folded words of a text or identifier; two-word verbs are one: "check in" and `check_in` are `checkin`."""
    if not text.isascii():
        text = text.encode(
            "utf-8", "replace"
        ).decode()  # JSON can smuggle in halves of characters, which no stemmer takes
    return split_words(_PHRASE.sub(r"\1\2", text))


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    return stems_of([word], ["english"])[0][0]


def stems(text: str) -> list[str]:
    return [stem(word) for word in words(text)]


_PHRASE = re.compile(r"\b(check|sign|set|call)[ _-]+(in|out|up|off)(?![^\W_])", re.IGNORECASE)

VERBS: dict[str, frozenset[str]] = {
    stem(verb): frozenset(family for family, members in _FAMILIES.items() if verb in members.split())
    for members in _FAMILIES.values()
    for verb in members.split()
}
"""Families of a verb, by its stem. A verb may have several: one can `register` a person or for an event."""


def families_of(verbs: Iterable[str]) -> frozenset[str]:
    return frozenset[str]().union(*(VERBS.get(verb, ()) for verb in verbs))


SMALL_TALK = re.compile(
    r"^\W*(hi|hello|hey|good (morning|afternoon|evening)|thanks?( you)?( (so|very) much)?|a lot|how are you|how do you do|"
    r"bye|goodbye|ok(ay)?|who are you|what are you|what can you do|help|nice|great|cool|there|doing|today|\W)+$",
    re.IGNORECASE,
)
CALLED_OFF = re.compile(
    r"^\W*(?:no|nope|none|nothing|never ?mind|stop|forget(?: about)?(?: it| that)?|cancel(?: it| that)?)\W*$",
    re.IGNORECASE,
)
"""Texts that cancel instead of answering a question."""

FIGURES = re.compile(
    r"\b(?:how (?:many|much)|number of|count|total|average|statistics?|stats|figures|overview|summary|dashboard|report|"
    r"analytics|breakdown|doing|performance|perform(?:ed|ing)?)\b",
    re.IGNORECASE,
)
"""Texts that ask for numbers."""

_POLITE = re.compile(
    r"^\W*(?:(?:hi|hello|hey|ok|okay|please|kindly|now|then|and|also|so)\b\W*"
    r"|(?:can|could|would|will) you\b\W*|(?:i|we)(?:'d| would| want| need|'ll| have)?(?: like| want| need)? to\b\W*"
    r"|let(?:'s| us)\b\W*|go ahead and\b\W*|help me(?: to)?\b\W*)+",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^\W*(?:who|what|which|when|where|why|how|is|are|was|were|do|does|did|has|have|any|whose|what's|who's|how's)\b",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"^\W*(?:(?:we|i|he|she|they|it|there)\b(?!.*\b(?:need|want|like|looking)\b)"
    r"|(?-i:[A-Z]\w+(?: [A-Z]\w+)*) (?:has|have|had|is|was|will|\w+ed)\b)",
    re.IGNORECASE,
)
_LATE_ORDER = re.compile(
    r"\b(?:please|wants? to|needs? to|would like to|asked to|wishes to) (\w+)|[,;.] (?:and |so |then |please )*(\w+)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")

Mood = Literal["orders", "asks", "states"]
_MOODS: tuple[Mood, ...] = ("orders", "asks", "states")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The intent of a message: a question or a wish to see something; an order; a fact that calls for an action."""

    mood: Mood
    verb: str = ""
    """Stem of the verb of an order; empty for the others."""

    @property
    def families(self) -> frozenset[str]:
        return frozenset({READ}) if self.mood == "asks" else families_of([self.verb])


def wish_of(text: str, *, verbs: Container[str] = ()) -> Wish:
    """Reads a message. An order in any sentence makes it an order. `verbs`: stems that begin tools' names."""
    sentences = [
        sentence for sentence in _SENTENCE_END.split(_PHRASE.sub(r"\1\2", text)) if set(words(sentence)) - STOPS
    ]
    wishes = [_sentence_wish(_POLITE.sub("", sentence), verbs) for sentence in sentences]
    return min(wishes, key=lambda wish: _MOODS.index(wish.mood), default=Wish(mood="asks"))


def _sentence_wish(core: str, verbs: Container[str]) -> Wish:
    first = next(iter(stems(core)), "")
    if _QUESTION.match(core) or _only_reads(first):
        return Wish(mood="asks")
    if first in VERBS or first in verbs:
        return Wish(mood="orders", verb=first)
    for match in _LATE_ORDER.finditer(core):
        verb = stem((match[1] or match[2]).lower())
        if verb in VERBS and not _only_reads(verb):
            return Wish(mood="orders", verb=verb)
    return Wish(mood="states" if _STATEMENT.match(core) else "asks")


def is_wish(text: str) -> bool:
    """Returns True if a text is a wish, not just an answer: a question, or a verb with more than a name."""
    core = _POLITE.sub("", text)
    first, *other_stems = stems(core) or [""]
    return bool(_QUESTION.match(core)) or (len(other_stems) > 1 and first in VERBS)


def _only_reads(verb: str) -> bool:
    return VERBS.get(verb) == frozenset({READ})
