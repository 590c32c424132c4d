"""The words of a request: which messages count and how much, and how text becomes terms. Tool texts take the same road."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import Stemmer

from toolcaddie.core.message import Message
from toolcaddie.core.selection import QueryWords, SelectionQuery
from toolcaddie.selection.stopwords import LANGUAGES, STOP_WORDS, Language

LOOKED_AT = 4_096
"""Characters read at each end of a message. What lies between is not looked at: a pasted log or a hostile megabyte costs
no more than a long letter, and a request stands at the beginning or at the end of what carries it."""

DECAY = 0.8
"""An earlier message counts this much less for each message of the user after it."""
SELF_SUFFICIENT = 10.0
"""A current message of this many content words halves what the earlier ones weigh: it says by itself what it wants."""
UNANSWERED = 0.3
"""Weight of earlier messages without a reply of the assistant since the last of them: then the current message answers no
question, and is more likely to begin a new topic."""
SMALL_TALK = 0.3
"""Weight of a stop word; a content word has 1. Not 0: "where are you from" is made of them alone."""
CALLED_WEIGHT = 0.15
"""Weight of a word in the name of a recently called tool; a word of the current message has 1."""

_CJK = "぀-ヿ㐀-䶿一-鿿豈-﫿"
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IS_CJK = re.compile(rf"[{_CJK}]")
_PAST_LATIN = "\u0250"
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ACCENT = re.compile("[\u0300-\u036f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A word of a query: what to look up, how much it counts, and how it was written."""

    stems: tuple[str, ...]
    word: str
    weight: float
    """Over all messages that say it."""
    nearest: float
    """The weight of the nearest message that says it."""
    content: bool
    """Not a stop word of its message's language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A query as terms, and of each message its weight and which terms it has, by their index."""

    terms: tuple[Term, ...]
    messages: tuple[tuple[float, tuple[int, ...]], ...]


def query_words(query: SelectionQuery, *, window: int, window_user: int) -> QueryWords:
    """The messages a query consists of, newest first, each by itself.

    The current message is the last one of the user and weighs 1. Of the `window` messages before it, of any role, the
    last `window_user` of the user and all of the assistant weigh g * DECAY ** age, where age counts what was said in
    between and g = 10 / (10 + content words of the current message), times `UNANSWERED` where the assistant has not
    spoken last: "yes, do it" leans on what was said before, a full sentence hardly does. Words are never joined across
    messages.
    """
    if query.text is not None:
        return QueryWords(messages=tuple((part, 1.0) for part in _ends(query.text)), principal=query.principal)
    messages = query.messages
    current = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role == "user"), None)
    if current is None:
        return QueryWords(messages=(), called=_called(messages[-window:] if window else ()), principal=query.principal)
    before = messages[max(0, current - window) : current]
    spoken = list(_ends(messages[current].text))
    said, replies = [(part, 1.0) for part in spoken], []
    weight = SELF_SUFFICIENT / (SELF_SUFFICIENT + sum(_content_size(part) for part in spoken))
    earlier = [message for message in reversed(before) if message.role in ("user", "assistant") and message.text]
    if earlier and earlier[0].role == "user":
        weight *= UNANSWERED
    left = window_user
    for message in earlier:
        parts = [(part, weight) for part in _ends(message.text)]
        weight *= DECAY
        if message.role == "assistant":
            replies.extend(parts)
        elif left:
            said.extend(parts)
            left -= 1
    called = _called((*before, *messages[current + 1 :]))
    return QueryWords(messages=tuple(said), replies=tuple(replies), called=called, principal=query.principal)


def read(words: QueryWords, languages: Sequence[Language]) -> Reading:
    """The terms of a query, each once, stemmed as the catalog's `languages` are.

    A word said in several messages weighs the sum; said twice in one message it counts once. Names of tools called lately
    add to the terms and are no message.
    """
    said = [(*_heard(text), weight) for text, weight in (*words.messages, *words.replies)]
    named = [(*_heard(name), CALLED_WEIGHT) for name in words.called]
    spelled = list(dict.fromkeys(word for part, _, _ in (*said, *named) for word in part))
    stems = dict(zip(spelled, stems_of(spelled, languages), strict=True))
    places: dict[tuple[str, ...], int] = {}
    place_of = {word: places.setdefault(stem, len(places)) for word, stem in stems.items()}
    spelling: dict[int, str] = {}
    for word in spelled:
        spelling.setdefault(place_of[word], word)
    weights, nearest, content = [0.0] * len(places), [0.0] * len(places), [False] * len(places)
    messages = []
    for part, language, weight in (*said, *named):
        stop = STOP_WORDS[language or languages[0]]
        members: dict[int, None] = {}
        for word in part:
            place = place_of[word]
            if place in members:
                continue
            members[place] = None
            says = word not in stop
            weights[place] += weight if says else SMALL_TALK * weight
            nearest[place] = max(nearest[place], weight)
            content[place] = content[place] or says
        messages.append((weight, tuple(members)))
    terms = tuple(
        Term(stems=stem, word=spelling[place], weight=weights[place], nearest=nearest[place], content=content[place])
        for stem, place in places.items()
    )
    return Reading(terms=terms, messages=tuple(messages[: len(said)]))


def content_words(text: str, usual: Language) -> list[str]:
    """The words of a text without those that say nothing, in its own language or else the `usual` one."""
    words = split_words(text)
    stop = STOP_WORDS[language_of(words) or usual]
    return [word for word in words if word not in stop]


def split_words(text: str) -> list[str]:
    """Lower-case words without accents; identifiers fall apart at _ - . and humps; runs of Han and kana into pairs."""
    words = _WORD.findall(fold(text if text.islower() else _HUMP.sub(" ", text)))
    if text.isascii() or not any(_IS_CJK.match(word) for word in words):
        return words
    return [part for word in words for part in (_pairs(word) if _IS_CJK.match(word) else (word,))]


def spaced(name: str) -> str:
    """An identifier as words: 'freezeMembership_v2' is 'freeze Membership v2'."""
    return " ".join(_WORD.findall(_HUMP.sub(" ", name)))


def latin_share(text: str) -> float:
    """The part of a text's letters that are Latin; 1 of a text without letters."""
    if text.isascii():
        return 1.0
    letters = [letter for letter in text if letter.isalpha()]
    return sum(letter < _PAST_LATIN for letter in letters) / len(letters) if letters else 1.0


def is_pair(word: str) -> bool:
    """Returns True if a word is a pair cut from a run of Han or kana."""
    return _IS_CJK.match(word) is not None


def fold(text: str) -> str:
    """Lower case without accents: 'Membresía' and 'membresia' are one word to whoever types in a hurry."""
    if text.isascii():
        return text.lower()
    bare = _ACCENT.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", bare).casefold()


def language_of(words: Iterable[str]) -> Language | None:
    """The language whose stop words stand most often among folded words; None: none stands there, or two tie."""
    counts = _stop_words_by_language(words)
    best = max(counts)
    return LANGUAGES[counts.index(best)] if best and counts.count(best) == 1 else None


def is_foreign(words: Iterable[str], languages: Container[str]) -> bool:
    """Returns True if some other language has more stop words among folded words than any of these."""
    counts = dict(zip(LANGUAGES, _stop_words_by_language(words), strict=True))
    own = [count for language, count in counts.items() if language in languages]
    return max(counts.values()) > max(own, default=0)


def _stop_words_by_language(words: Iterable[str]) -> list[int]:
    counts = [0] * len(LANGUAGES)
    for word in words:
        for language in _SAID_IN.get(word, ()):
            counts[language] += 1
    return counts


_SAID_IN = {
    word: tuple(number for number, language in enumerate(LANGUAGES) if word in STOP_WORDS[language])
    for word in frozenset().union(*STOP_WORDS.values())
}
"""The languages, by number, that have a word as a stop word."""


def stems_of(words: Sequence[str], languages: Sequence[Language]) -> list[tuple[str, ...]]:
    """For each word its different stems in these languages."""
    columns = [_stemmer(language).stemWords(words) for language in languages]
    if len(columns) == 1:
        return [(stem,) for stem in columns[0]]
    return [tuple(dict.fromkeys(row)) for row in zip(*columns, strict=True)]


def _ends(text: str) -> Iterator[str]:
    """The text, or its two ends where it is long, as separate parts so that nothing forms across the gap."""
    if len(text) <= 2 * LOOKED_AT:
        yield _encodable(text)
        return
    yield _encodable(text[:LOOKED_AT])
    yield _encodable(text[-LOOKED_AT:])


def _encodable(text: str) -> str:
    """The text without lone surrogates, which JSON can smuggle in and neither stemmer nor automaton takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _content_size(text: str) -> int:
    words, language = _heard(text)
    stop = STOP_WORDS[language or "english"]
    return sum(word not in stop for word in words)


@lru_cache(maxsize=128)
def _heard(text: str) -> tuple[tuple[str, ...], Language | None]:
    """The words of a part of a message and its language; remembered, because it is read again with every further turn."""
    words = tuple(split_words(text))
    return words, language_of(words)


def _called(messages: Sequence[Message]) -> tuple[str, ...]:
    """Names of the tools called in these messages, the latest first, each once."""
    names = (call.name for message in reversed(messages) for call in reversed(message.tool_calls))
    return tuple(dict.fromkeys(_encodable(name[:128]) for name in names))[:8]


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


_local = threading.local()


def _stemmer(language: Language) -> Stemmer.Stemmer:
    """One a thread, because they are not safe to share, and without its cache, which would grow with what people type."""
    stemmers: dict[str, Stemmer.Stemmer] = _local.__dict__.setdefault("stemmers", {})
    if language not in stemmers:
        stemmers[language] = Stemmer.Stemmer(language, 0)
    return stemmers[language]
