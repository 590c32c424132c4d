"""How the practice model reads English: words, stems, families of verbs, and whether somebody asks or orders.

General English only. Nothing here knows any catalog: what a tool is about is read from its own definition.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IRREGULAR = {
    "came": "come", "paid": "pay", "sold": "sell", "bought": "buy", "made": "make", "sent": "send", "went": "go",
    "gave": "give", "took": "take", "spent": "spend", "ran": "run", "held": "hold", "kept": "keep", "left": "leave",
    "people": "person", "children": "child", "men": "man", "women": "woman",
}  # fmt: skip


def words_of(text: str) -> frozenset[str]:
    """A set of words, written as one text."""
    return frozenset(text.split())


STOP_WORDS = words_of(
    "a an the this that these those my our your his her its their me us you him them it i we he she they one "
    "ones of to for in on at by with from into as about and or but so if then than is are was were be been am "
    "do does did has have had can could would should will shall may might must please just now there here up "
    "out off over not no who what which when where why how much many any some all every each also only today's "
    "want need like let lets hi hello hey thanks thank good morning afternoon evening bye ok okay yes are're "
    "i'm i'd we're it's what's who's tell me give know help currently number right really called named titled very too "
    "kindly s t re ll "
    "ve d m"
)

SMALL_TALK = re.compile(
    r"^\W*(hi|hello|hey|good (morning|afternoon|evening)|thanks?( you)?( (so|very) much)?|how are you|how do you do|"
    r"bye|goodbye|ok(ay)?|who are you|what are you|what can you do|help|nice|great|cool|there|doing|today|\W)+$",
    re.IGNORECASE,
)

CALLED_OFF = re.compile(
    r"^\W*(?:no|nope|none|nothing|never ?mind|stop|forget(?: about)?(?: it| that)?|cancel(?: it| that)?)\W*$",
    re.IGNORECASE,
)
"""Instead of an answer to a question: let it be."""

READ, CREATE, UPDATE, DELETE = "read", "create", "update", "delete"

_FAMILIES: dict[str, str] = {
    READ: "get list show find view see display fetch give search look lookup read tell browse retrieve query check pull compare",
    CREATE: "add create new make register record log enter open issue generate insert write submit start set set-up put "
    "save hire",
    UPDATE: "update change set edit modify adjust rename move mark switch correct alter transfer put advance shift",
    DELETE: "delete remove erase drop discard clear",
    "cancel": "cancel void revoke withdraw call-off",
    "hold": "freeze pause suspend hold halt",
    "resume": "resume unfreeze unpause reactivate restore continue restart lift",
    "book": "book reserve schedule arrange appoint",
    "send": "send email notify message remind mail deliver",
    "assign": "assign allocate attach allot",
    "approve": "approve accept confirm authorize",
    "reject": "reject deny decline refuse",
    "complete": "complete finish close resolve end done achieve",
    "pay": "pay settle disburse",
    "renew": "renew extend prolong",
    "convert": "convert exchange turn translate",
    "validate": "validate verify check test valid",
    "redeem": "redeem claim spend use apply",
    "enroll": "enroll enrol join subscribe sign-up register",
    "enter": "check-in admit mark",
    "go": "navigate go open take bring visit switch",
    "count": "count calculate compute total sum",
}

VERBS: dict[str, frozenset[str]] = {}
"""Stem of a verb -> the families it belongs to. A verb may be in several: one can `register` a person or for an event."""


def fold(text: str) -> str:
    """Lower case without accents, so that José and jose are one."""
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))


def split_words(text: str) -> list[str]:
    """The folded words of a text or identifier; a possessive loses its ending."""
    return [re.sub(r"['’]s?$", "", word) for word in _WORD.findall(fold(_CAMEL.sub(" ", text).replace("_", " ")))]


def stem(word: str) -> str:
    """A light English stem: plural, -ing, -ed and a last silent e are cut. `word` is folded already."""
    word = _IRREGULAR.get(word, word)
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes", "zzes")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending, least in (("ing", 6), ("ed", 5)):
        if len(word) >= least and word.endswith(ending):
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def stems_of(text: str) -> frozenset[str]:
    """Like `words_of`, of the words' stems."""
    return frozenset(stem(word) for word in text.split())


def stems(text: str) -> list[str]:
    return [stem(word) for word in split_words(text)]


_PHRASES = {
    re.compile(rf"\b{phrase.replace('-', '[ -]+')}\b", re.IGNORECASE): phrase.replace("-", "")
    for family in _FAMILIES.values()
    for phrase in family.split()
    if "-" in phrase
}
for _family, _members in _FAMILIES.items():
    for _member in _members.split():
        _key = stem(_member.replace("-", ""))
        VERBS[_key] = VERBS.get(_key, frozenset()) | {_family}

_POLITE = re.compile(
    r"^\W*(?:(?:hi|hello|hey|ok|okay|please|kindly|now|then|and|also|so)\b\W*"
    r"|(?:can|could|would|will) you\b\W*|(?:i|we)(?:'d| would| want| need|'ll| have)?(?: like)? to\b\W*"
    r"|i(?:'d| would)? (?:want|need|like)(?: you)? to\b\W*|let(?:'s| us)\b\W*|go ahead and\b\W*|help me(?: to)?\b\W*)+",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^\W*(?:who|what|which|when|where|why|how|is|are|was|were|do|does|did|has|have|any|whose|what's|who's|how's)\b",
    re.IGNORECASE,
)
_FIGURES = re.compile(
    r"\b(?:how (?:many|much)|number of|count|total|average|statistics?|stats|figures|overview|summary|dashboard|report|"
    r"analytics|breakdown|doing|performance|perform(?:ed|ing)?)\b",
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

Mood = Literal["asks", "orders", "states"]
_RANK: dict[Mood, int] = {"orders": 0, "asks": 1, "states": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the user wants, read word by word."""

    text: str
    mood: Mood
    """A question or a wish to see something; an order to do something; a fact that something shall be done about."""
    verb: str
    """Stem of the verb of an order; empty for the others."""
    families: frozenset[str]
    """Of that verb; of a question, to read."""
    content: tuple[str, ...]
    """Stems that carry meaning, in order, each once."""
    figures: bool
    """Asks for numbers: how many, totals, statistics."""
    background: tuple[str, ...] = ()
    """Stems of what was said before: they count a little."""


def read_wish(text: str, background: str = "", *, verbs: Container[str] = ()) -> Wish:
    """Read a user's message. `background`: what the same user said before it; `verbs`: stems that begin tools' names."""
    core = joined(text)
    mood, verb = _mood_of_all(core, verbs)
    return Wish(
        text=text,
        mood=mood,
        verb=verb,
        families=frozenset({READ}) if mood == "asks" else VERBS.get(verb, frozenset()),
        content=content_stems(core),
        figures=bool(_FIGURES.search(core)),
        background=content_stems(background),
    )


def _mood_of_all(text: str, verbs: Container[str]) -> tuple[Mood, str]:
    """An order in any sentence makes it an order, else a question a question; sentences of mere politeness do not count."""
    sentences = [sentence for sentence in _SENTENCE_END.split(text) if content_stems(sentence)]
    moods = [_mood(_POLITE.sub("", sentence), verbs) for sentence in sentences]
    return min(moods, key=lambda mood: _RANK[mood[0]], default=("asks", ""))


def _mood(core: str, verbs: Container[str]) -> tuple[Mood, str]:
    first = next(iter(stems(core)), "")
    if _QUESTION.match(core) or _only_reads(first):
        return "asks", ""
    if first in VERBS or first in verbs:
        return "orders", first
    late = [stem(fold(match[1] or match[2])) for match in _LATE_ORDER.finditer(core)]
    for verb in late:
        if verb in VERBS and not _only_reads(verb):
            return "orders", verb
    return ("states" if _STATEMENT.match(core) else "asks"), ""


def is_wish(text: str) -> bool:
    """Whether a text asks for something by itself, and is no mere answer: a question, or a verb with more than a name."""
    core = _POLITE.sub("", joined(text))
    words = stems(core)
    return bool(_QUESTION.match(core)) or (len(words) > 2 and words[0] in VERBS)


def _only_reads(verb: str) -> bool:
    return VERBS.get(verb, frozenset()) == frozenset({READ})


def joined(text: str) -> str:
    """The text with verbs of two words made one, also in an identifier: "check in" and `check_in` are both `checkin`."""
    text = text.replace("_", " ")
    for phrase, whole in _PHRASES.items():
        text = phrase.sub(whole, text)
    return text


def content_stems(text: str) -> tuple[str, ...]:
    """Stems of the words that carry meaning, in order, each once."""
    words = (word for word in split_words(text) if word not in STOP_WORDS and len(word) > 1 and not word.isdigit())
    return tuple(dict.fromkeys(map(stem, words)))
