"""English for the practice model, which follows rules instead of a language model: words, families of verbs with similar meanings
(`create`, `add`), and the mood of a message, which asks, orders or states something.

The words come from english.toml and are general English, without words of any catalog. The topic of a tool is read from the
tool's own definition.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from toolcaddie.selection.query import split_words, stems_of
from toolcaddie.selection.stopwords import STOP_WORDS

STOPS = STOP_WORDS["english"]
READ, CREATE, UPDATE = "read", "create", "update"
ANSWERING = frozenset({READ, "validate", "count", "convert"})
"""Families of verbs that change nothing."""

ENGLISH: dict[str, Any] = tomllib.loads(files(__package__).joinpath("english.toml").read_text(encoding="utf-8"))


def pattern(name: str, section: str = "patterns", **parts: str) -> re.Pattern[str]:
    """Returns a compiled pattern of english.toml. Each `<<name>>` in it is replaced by the value of that name in `[parts]` or
    `parts`."""
    text = "".join(ENGLISH[section][name])
    for part, value in (*ENGLISH["parts"].items(), *parts.items()):
        text = text.replace(f"<<{part}>>", value)
    return re.compile(text, re.IGNORECASE)


def words(text: str) -> list[str]:
    """Returns the folded words of a text or identifier; two-word verbs are one: "check in" and `check_in` are `checkin`."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # JSON may hold unpaired surrogates, which the stemmer refuses
    return split_words(_PHRASE.sub(r"\1\2", text))


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    return stems_of([word], ["english"])[0][0]


def stems(text: str) -> list[str]:
    return [stem(word) for word in words(text)]


def listed(name: str) -> frozenset[str]:
    """Returns the words and stems of a list in english.toml."""
    return frozenset((*words(ENGLISH["words"][name]), *stems(ENGLISH["words"][name])))


_PHRASE = pattern("two_words")

VERBS: dict[str, frozenset[str]] = {
    stem(verb): frozenset(family for family, members in ENGLISH["verbs"].items() if verb in members.split())
    for members in ENGLISH["verbs"].values()
    for verb in members.split()
}
"""Families of each verb, by the verb's stem. A verb may be in several: one can `register` a person, or register for an event."""


def families_of(verbs: Iterable[str]) -> frozenset[str]:
    return frozenset[str]().union(*(VERBS.get(verb, ()) for verb in verbs))


SMALL_TALK = pattern("small_talk")
CALLED_OFF = pattern("called_off")
"""Texts with which a user cancels a request instead of answering the model's question."""
FIGURES = pattern("figures")
"""Texts that ask for numbers."""
_POLITE, _QUESTION, _STATEMENT = pattern("polite"), pattern("question"), pattern("statement")
_LATE_ORDER = pattern("late_order")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")

Mood = Literal["orders", "asks", "states"]
_MOODS: tuple[Mood, ...] = ("orders", "asks", "states")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The intent of a message. `mood`: it asks (a question, or a wish to see something), orders, or states a fact that calls for
    an action."""

    mood: Mood
    verb: str = ""
    """Stem of the verb of an order; empty for other moods."""

    @property
    def families(self) -> frozenset[str]:
        return frozenset({READ}) if self.mood == "asks" else families_of([self.verb])


def wish_of(text: str, *, verbs: Container[str] = ()) -> Wish:
    """Returns the intent of a message. If any sentence is an order, the message is one. `verbs`: stems with which names of tools
    begin."""
    sentences = [
        sentence for sentence in _SENTENCE_END.split(_PHRASE.sub(r"\1\2", text)) if set(words(sentence)) - STOPS
    ]
    wishes = [_sentence_wish(_POLITE.sub("", sentence), verbs) for sentence in sentences]
    return min(wishes, key=lambda wish: _MOODS.index(wish.mood), default=Wish(mood="asks"))


def _sentence_wish(core: str, verbs: Container[str]) -> Wish:
    """Returns the intent of one sentence, from which polite words at the beginning were removed."""
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
    """Returns True if a text is a new request and not only the answer to a question: it is a question itself, or begins with a
    verb and has at least two more words."""
    core = _POLITE.sub("", text)
    first, *other_stems = stems(core) or [""]
    return bool(_QUESTION.match(core)) or (len(other_stems) > 1 and first in VERBS)


def _only_reads(verb: str) -> bool:
    return VERBS.get(verb) == frozenset({READ})
