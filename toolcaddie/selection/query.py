"""Reads the words of a request: weighs its messages, and turns their text into terms (words with their stems). The texts of tools
are split and stemmed in the same way.

A content word is a word that is not a stop word; stop words ("please", "the") say little about the tool that is needed.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import lru_cache

import msgspec
import Stemmer

from toolcaddie.core.message import Message
from toolcaddie.core.selection import QueryWords, SelectionQuery
from toolcaddie.selection.stopwords import LANGUAGES, STOP_WORDS, Language

LOOKED_AT = 4_096
"""The number of characters that are read at each end of a message. The text between is skipped, so that a pasted log or a hostile
megabyte takes no more time than a long letter: people write their request at the beginning or at the end of a message."""

DECAY = 0.8
"""Factor on the weight of an earlier message for each earlier message between it and the current one."""
SELF_SUFFICIENT = 10.0
"""The number of content words of a current message that halves the weight of earlier messages: a long message can be understood
without them."""
UNANSWERED = 0.3
"""Factor on the weight of earlier messages if the last of them is the user's. The current message then answers no question of the
assistant, and more likely begins a new topic."""
SMALL_TALK = 0.3
"""Weight of a stop word; a content word has 1. It is not 0, because "where are you from" consists of stop words alone."""
CALLED_WEIGHT = 0.15
"""Weight of a word in the name of a recently called tool; a word of the current message has 1."""

_CJK = "぀-ヿ㐀-䶿一-鿿豈-﫿"
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IS_CJK = re.compile(rf"[{_CJK}]")
_PAST_LATIN = "\u0250"
"""The first character after the Latin alphabets in Unicode."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Finds the places before inner capitals of an identifier, as in `freezeMembership`."""
_ACCENT = re.compile("[\u0300-\u036f]")


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """A word of a query: its stems, its spelling and its weight."""

    stems: tuple[str, ...]
    """The different stems of the word in the languages of the catalog."""
    word: str
    weight: float
    """The sum of the weights of all messages that contain the word."""
    nearest: float
    """The highest weight of a message that contains the word, usually that of the latest one."""
    content: bool
    """True unless the word is a stop word in the language of each message that contains it."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of a query, each once, and its messages."""

    terms: tuple[Term, ...]
    messages: tuple[tuple[float, tuple[int, ...]], ...]
    """The weight of each message, and the indexes of its terms."""


def query_words(query: SelectionQuery, *, window: int, window_user: int) -> QueryWords:
    """Returns the messages of a query with their weights, the newest first.

    The current message is the last message of the user and has weight 1. Of the `window` messages before it, the last
    `window_user` messages of the user and all of the assistant count with a weight of g * DECAY ** age. `age` is the number of
    messages in between, and g is 10 / (10 + content words of the current message), times `UNANSWERED` if the assistant did not
    speak last. So earlier messages count for "yes, do it", and hardly count for a full sentence.
    """
    if query.text is not None:
        return QueryWords(messages=tuple((part, 1.0) for part in _ends(query.text)), principal=query.principal)
    messages = query.messages
    current = next((i for i in range(len(messages) - 1, -1, -1) if messages[i].role == "user"), None)
    if current is None:
        return QueryWords(messages=(), called=_called(messages[-window:] if window else ()), principal=query.principal)
    before = messages[max(0, current - window) : current]
    current_parts = list(_ends(messages[current].text))
    own, replies = [(part, 1.0) for part in current_parts], []
    weight = SELF_SUFFICIENT / (SELF_SUFFICIENT + sum(_content_size(part) for part in current_parts))
    earlier = [message for message in reversed(before) if message.role in ("user", "assistant") and message.text]
    if earlier and earlier[0].role == "user":
        weight *= UNANSWERED
    own_left = window_user
    for message in earlier:
        parts = [(part, weight) for part in _ends(message.text)]
        weight *= DECAY
        if message.role == "assistant":
            replies.extend(parts)
        elif own_left:
            own.extend(parts)
            own_left -= 1
    called = _called((*before, *messages[current + 1 :]))
    return QueryWords(messages=tuple(own), replies=tuple(replies), called=called, principal=query.principal)


def read(words: QueryWords, languages: Sequence[Language]) -> Reading:
    """Returns the terms of a query, each once, stemmed in the `languages` of the catalog.

    The weights of a word in several messages add up; a word that occurs twice in one message counts once. Words in the names of
    recently called tools are terms too, but these names are not among the messages of the result.
    """
    texts = [(*_words_and_language(text), weight) for text, weight in words.texts]
    called = [(*_words_and_language(name), CALLED_WEIGHT) for name in words.called]
    spelled = list(dict.fromkeys(word for part, _, _ in (*texts, *called) for word in part))
    number_of: dict[tuple[str, ...], int] = {}
    spelling: list[str] = []
    place_of: dict[str, int] = {}
    for word, stem in zip(spelled, stems_of(spelled, languages), strict=True):
        place = place_of[word] = number_of.setdefault(stem, len(spelling))
        if place == len(spelling):
            spelling.append(word)
    weights, nearest, content = [0.0] * len(spelling), [0.0] * len(spelling), [False] * len(spelling)
    messages: list[tuple[float, tuple[int, ...]]] = []
    for part, language, weight in (*texts, *called):
        stop = STOP_WORDS[language or languages[0]]
        members: dict[int, None] = {}
        for word in part:
            place = place_of[word]
            if place in members:
                continue
            members[place] = None
            if weight > nearest[place]:
                nearest[place] = weight
            if word in stop:
                weights[place] += SMALL_TALK * weight
            else:
                weights[place] += weight
                content[place] = True
        messages.append((weight, tuple(members)))
    columns = zip(number_of, spelling, weights, nearest, content, strict=True)
    terms = [
        Term(stems=stem, word=word, weight=weight, nearest=near, content=is_content)
        for stem, word, weight, near, is_content in columns
    ]
    return Reading(terms=tuple(terms), messages=tuple(messages[: len(texts)]))


def content_words(text: str, usual: Language) -> list[str]:
    """Returns the words of a text without the stop words of its language, or of the language `usual` if its own is unclear."""
    words = split_words(text)
    stop = STOP_WORDS[language_of(words) or usual]
    return [word for word in words if word not in stop]


def split_words(text: str) -> list[str]:
    """Returns the words of a text, in lower case and without accents.

    Identifiers are split at `_`, `-`, `.` and before inner capitals. A run of Han or kana, which has no spaces, is split into
    overlapping pairs of characters.
    """
    words = _WORD.findall(fold(text if text.islower() else _HUMP.sub(" ", text)))
    if text.isascii() or not any(_IS_CJK.match(word) for word in words):
        return words
    return [part for word in words for part in (_pairs(word) if _IS_CJK.match(word) else (word,))]


def spaced(name: str) -> str:
    """Returns the words of an identifier: 'freeze Membership v2' for 'freezeMembership_v2'."""
    return " ".join(_WORD.findall(_HUMP.sub(" ", name)))


def latin_share(text: str) -> float:
    """Returns the share of Latin letters among the letters of a text; 1 for a text without letters."""
    if text.isascii():
        return 1.0
    letters = [letter for letter in text if letter.isalpha()]
    return sum(letter < _PAST_LATIN for letter in letters) / len(letters) if letters else 1.0


def is_pair(word: str) -> bool:
    """Returns True if a word is a pair of Han or kana characters, as `split_words` makes them."""
    return _IS_CJK.match(word) is not None


def fold(text: str) -> str:
    """Returns the text in lower case and without accents, because 'Membresía' is often typed as 'membresia'."""
    if text.isascii():
        return text.lower()
    bare = _ACCENT.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", bare).casefold()


def language_of(words: Iterable[str]) -> Language | None:
    """Returns the language with the most stop words among these folded words (see `fold`); None if there are none or two
    languages tie."""
    counts = _stop_words_by_language(words)
    best = max(counts)
    return LANGUAGES[counts.index(best)] if best and counts.count(best) == 1 else None


def is_foreign(words: Iterable[str], languages: Container[str]) -> bool:
    """Returns True if more of the (folded) words are stop words of some other language than of any in `languages`."""
    counts = dict(zip(LANGUAGES, _stop_words_by_language(words), strict=True))
    own = [count for language, count in counts.items() if language in languages]
    return max(counts.values()) > max(own, default=0)


def _stop_words_by_language(words: Iterable[str]) -> list[int]:
    counts = [0] * len(LANGUAGES)
    for word in words:
        for language in _LANGUAGES_OF.get(word, ()):
            counts[language] += 1
    return counts


_LANGUAGES_OF = {
    word: tuple(number for number, language in enumerate(LANGUAGES) if word in STOP_WORDS[language])
    for word in frozenset().union(*STOP_WORDS.values())
}
"""For each stop word, the numbers of the languages that have it as a stop word."""


def stems_of(words: Sequence[str], languages: Sequence[Language]) -> list[tuple[str, ...]]:
    """Returns the different stems of each word in these languages."""
    columns = [_stemmer(language).stemWords(words) for language in languages]
    if len(columns) == 1:
        return [(stem,) for stem in columns[0]]
    return [tuple(dict.fromkeys(row)) for row in zip(*columns, strict=True)]


def stems_in(words: Sequence[str], stemmer: str) -> list[str]:
    """Returns the stem of each word by the Snowball stemmer of this name, "turkish" for example."""
    stems: list[str] = _stemmer(stemmer).stemWords(words)
    return stems


def _ends(text: str) -> Iterator[str]:
    """Yields the text, or its two ends if it is long. The ends are separate parts, so that no phrase matches across the gap."""
    if len(text) <= 2 * LOOKED_AT:
        yield _encodable(text)
        return
    yield _encodable(text[:LOOKED_AT])
    yield _encodable(text[-LOOKED_AT:])


def _encodable(text: str) -> str:
    """Returns the text without lone surrogates, which JSON allows, but the stemmer and the automaton of keywords refuse."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _content_size(text: str) -> int:
    words, language = _words_and_language(text)
    stop = STOP_WORDS[language or "english"]
    return sum(word not in stop for word in words)


@lru_cache(maxsize=128)
def _words_and_language(text: str) -> tuple[tuple[str, ...], Language | None]:
    """Returns the words and the language of a part of a message. The result is cached, because every later turn reads the message
    again."""
    words = tuple(split_words(text))
    return words, language_of(words)


def _called(messages: Sequence[Message]) -> tuple[str, ...]:
    """Returns the names of the tools called in these messages, the latest first, each once."""
    names = (call.name for message in reversed(messages) for call in reversed(message.tool_calls))
    return tuple(dict.fromkeys(_encodable(name[:128]) for name in names))[:8]


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


_local = threading.local()


def _stemmer(language: str) -> Stemmer.Stemmer:
    """Returns this thread's stemmer of a language, because stemmers are not thread-safe. The stemmer's own cache is off, because
    it would grow without limit."""
    stemmers: dict[str, Stemmer.Stemmer] = _local.__dict__.setdefault("stemmers", {})
    if language not in stemmers:
        stemmers[language] = Stemmer.Stemmer(language, 0)
    return stemmers[language]
