"""The words with which claims are recognized: `words.toml`, prepared for look-ups."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import cast

from toolcaddie.core.claims import Action

_LANGUAGES = ("en", "es", "pt", "de", "fr", "it", "es_i", "pt_i")
"""Keys of the forms in `words.toml`."""
_ENDINGS = {
    "en": re.compile(r"e?d$"),
    "es": re.compile(r"[aií]do$"),
    "pt": re.compile(r"[aií]do$"),
    "fr": re.compile(r"é$"),
    "it": re.compile(r"[aiu]to$"),
}
"""Endings of participles."""
SHORTEST, _LONGEST = 3, 16
"""The lengths of beginnings of words."""
_DERIVED = 5
"""The smallest length of a beginning that is made from a participle. Shorter ones fit too many words: "mark", market."""
_PLAIN = str.maketrans("áàâãäéèêëíìîïóòôõöúùûüçñ", "aaaaaeeeeiiiiooooouuuucn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """`words.toml`, prepared for look-ups."""

    forms: Mapping[str, tuple[tuple[Action, str], ...]]
    """A word that says something was done -> its classes and languages; `es_i` is a form that has its speaker in it."""
    stems: Beginnings
    """Beginning of a word -> its classes; `asks` and `nouns` too."""
    asks: Beginnings
    nouns: Beginnings
    whole: Beginnings
    """Word -> its classes."""
    also: Mapping[Action, frozenset[Action]]
    triggers: frozenset[str]
    """Words without which a text has no claim."""
    done: frozenset[str]
    fillers: frozenset[str]
    general: frozenset[str]
    reading: frozenset[str]
    strong: Mapping[str, frozenset[str]]
    weak: Mapping[str, frozenset[str]]
    adverbs: frozenset[str]
    now: frozenset[str]
    already: frozenset[str]
    neutral: frozenset[str]
    rewording: frozenset[str]
    verbs: frozenset[str]
    """Auxiliary verbs of all languages."""
    conjunctions: frozenset[str]
    but: frozenset[str]
    hedges: Mapping[str, frozenset[str]]
    """Language -> words that make a statement no statement, such as negations."""
    reported: frozenset[str]
    past: frozenset[str]
    by: frozenset[str]
    that: frozenset[str]
    nothing: frozenset[str]
    acting: frozenset[str]
    refusals: frozenset[str]
    relative: frozenset[str]
    before: frozenset[str]
    itself: frozenset[str]
    polite: frozenset[str]
    start: frozenset[str]
    questions: frozenset[str]
    texts: frozenset[str]
    writing: frozenset[str]
    edits: Beginnings
    """Beginnings of verbs that are also said of texts."""
    confirmations: int
    asked_beginnings: frozenset[str]
    """The first characters of all `stems` and `asks`. Most words of a request have none of these."""


@cache
def words_of_claims() -> Words:
    raw = tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))
    table = cast("Mapping[Action, Mapping[str, str]]", raw["action"])
    forms: dict[str, list[tuple[Action, str]]] = {}
    for action, row in table.items():
        for language in _LANGUAGES:
            for word in row.get(language, "").split():
                for form in _inflected(word, language):
                    forms.setdefault(form, []).append((action, language))
    words, done = raw["words"], _set(raw["done"]["words"])
    stems = _by_word({action: _set(row["stems"]) | _derived(row) for action, row in table.items()})
    asks = _by_word({action: _set(row.get("asks", "")) for action, row in table.items()})
    return Words(
        forms={form: tuple(of) for form, of in forms.items()},
        stems=stems,
        asks=asks,
        asked_beginnings=stems.shortest | asks.shortest,
        nouns=_by_word({action: _set(row["nouns"]) for action, row in table.items()}),
        whole=_by_word({action: _set(row["words"]) for action, row in table.items()}),
        also={action: frozenset(cast("Iterable[Action]", row["also"])) for action, row in table.items()},
        triggers=frozenset((*forms, *done)),
        done=done,
        fillers=_set(raw["done"]["fillers"]),
        general=_set(raw["tools"]["general"]),
        reading=_set(raw["tools"]["reading"]),
        strong={language: _set(of) for language, of in raw["strong"].items()},
        weak={language: _set(of) for language, of in raw["weak"].items()},
        adverbs=_set(words["adverbs"]),
        now=_set(words["now"]),
        already=_set(words["already"]),
        neutral=_set(words["neutral"]),
        rewording=_set(words["rewording"]),
        verbs=frozenset().union(*map(_set, raw["weak"].values()), *map(_set, raw["strong"].values())),
        conjunctions=_set(words["and"]),
        but=_set(words["but"]),
        hedges={
            language: _set(words["hedges"]) - _set(raw["unhedged"].get(language[:2], "")) for language in _LANGUAGES
        },
        reported=_set(words["reported"]),
        past=_set(words["past"]),
        by=_set(words["by"]),
        that=_set(words["that"]),
        nothing=_set(words["nothing"]),
        acting=_set(raw["tools"]["acting"]),
        refusals=_set(words["refusals"]),
        relative=_set(words["relative"]),
        before=_set(words["before"]),
        itself=_set(words["self"]),
        polite=_set(words["polite"]),
        start=_set(words["start"]),
        questions=_set(words["questions"]),
        texts=_set(words["texts"]),
        writing=_set(words["writing"]),
        edits=_by_word({"change": _set(words["edits"])}),
        confirmations=words["confirmations"],
    )


class Beginnings(dict[str, frozenset[Action]]):
    """Beginnings of words with their classes, or whole words."""

    def __init__(self, items: Mapping[str, frozenset[Action]]) -> None:
        super().__init__(items)
        self.shortest = frozenset(word[:SHORTEST] for word in items)
        """The first characters of each of them. Most words begin with none of these, and are not looked up."""


def _by_word(table: Mapping[Action, frozenset[str]]) -> Beginnings:
    """Returns the classes of each word."""
    words = frozenset[str]().union(*table.values())
    return Beginnings({word: frozenset(action for action, of in table.items() if word in of) for word in words})


def _derived(row: Mapping[str, str]) -> frozenset[str]:
    """Returns beginnings of words that the participles of a class have in common with the other forms of their verbs."""
    stems = (
        ending.sub("", word).translate(_PLAIN)
        for language, ending in _ENDINGS.items()
        for word in row.get(language, "").split()
        if ending.search(word)
    )
    return frozenset(stem for stem in stems if len(stem) >= _DERIVED)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _inflected(word: str, language: str) -> tuple[str, ...]:
    """Returns a participle with its endings for gender and number."""
    if language in ("es", "pt") and word.endswith("o"):
        return tuple(word[:-1] + ending for ending in ("o", "a", "os", "as"))
    if language == "it" and word.endswith("o"):
        return tuple(word[:-1] + ending for ending in ("o", "a", "i", "e"))
    if language == "fr":
        return tuple(word + ending for ending in ("", "e", "s", "es"))
    return (word,)


def beginnings_of(word: str, beginnings: Beginnings) -> Iterable[Action]:
    """Returns the classes whose beginnings a word has. Without accents, because tools are often named without them."""
    if not word.isascii():
        word = word.translate(_PLAIN)
    if word[:SHORTEST] not in beginnings.shortest:
        return ()
    found: list[Action] = []
    for length in range(SHORTEST, min(len(word), _LONGEST) + 1):
        if (actions := beginnings.get(word[:length])) is not None:
            found += actions
    return found
