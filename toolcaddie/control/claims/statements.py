"""The statements of an answer: sentences which say that something was done, before they are compared with the calls.

Questions, negations, conditions, offers, quotations and code are left out. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from toolcaddie.control.claims.sentence import Reading, Voice
from toolcaddie.control.claims.words import Words, beginnings_of, words_of_claims
from toolcaddie.core.claims import Claim

_TEXT = 10_000
"""Characters at the beginning, and at the end, of an answer that are read."""
_SENTENCE = 300
_MOST_CLAIMS = 20
"""The largest number of claims of one answer."""
_MOST_TOKENS = 120
"""Tokens of a sentence that are read. A longer one is a list or a table, not a statement."""
_LONG = 300
"""Characters from which an answer may contain the text that it talks about."""
_TOKEN = re.compile(r"\w+|[,;:()—–]")
_SIGNS = ".,;:!?()[]*_'’\"-–—…/"
_QUOTED = re.compile(
    r'```.*?```|`[^`\n]*`|"[^"\n]*"|“[^“”\n]*”|„[^„“”\n]*[“”]|«[^«»\n]*»|^[ \t]*>[^\n]*', re.MULTILINE | re.DOTALL
)
_QUOTE_SIGN = re.compile('[`"“„«>]')


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of an answer which says that something was done, before it is compared with the calls."""

    claim: Claim
    voice: Voice
    edits_words: bool = False
    """True if its verb is also said of texts: "I've removed the second paragraph"."""
    edits: bool = False
    """True if it may be about a text in the answer itself."""
    names_text: bool = False
    """True if it names such a text."""
    in_text: bool = False
    """True if the answer is long enough to be a text that the request asked for, such as a letter."""


def statements_of(text: str) -> tuple[Statement, ...]:
    """Returns what an answer says was done. Questions, negations, conditions, offers, quotations and code are left out."""
    words = words_of_claims()
    if len(text) > 2 * _TEXT:
        text = f"{text[:_TEXT]}\n{text[-_TEXT:]}"
    triggers = words.triggers.intersection(_split(text.lower()))
    if not triggers:
        return ()
    in_text, has_code = len(text) > _LONG or "\n" in text.strip(), "```" in text
    found: list[Statement] = []
    for sentence in _sentences(text):
        lowered = sentence.lower()
        for trigger in triggers:
            if trigger in lowered:
                found += _statements(sentence, lowered.strip(), words, in_text=in_text, has_code=has_code)
                break
        if len(found) >= _MOST_CLAIMS:
            break
    return tuple(found[:_MOST_CLAIMS])


def _split(text: str) -> list[str]:
    """Returns the words of a text. Replacing and splitting takes half as long as a regular expression."""
    for sign in _SIGNS:
        text = text.replace(sign, " ")
    return text.split()


def _sentences(text: str) -> list[str]:
    """Returns the sentences of a text, without quotations and code."""
    if _QUOTE_SIGN.search(text):
        text = _QUOTED.sub("…", text)
    for end in ". ", "! ", "? ", "… ":
        text = text.replace(end, f"{end}\n")
    return text.split("\n")


def _statements(sentence: str, lowered: str, words: Words, *, in_text: bool, has_code: bool) -> Iterable[Statement]:
    """Returns what a sentence says was done."""
    if lowered.endswith("?") or lowered.startswith("¿"):
        return
    tokens = _TOKEN.findall(lowered)
    if len(tokens) > _MOST_TOKENS:
        return
    shown = " ".join(sentence.split())[:_SENTENCE]
    opens = in_text or lowered.endswith(":")
    names_text = has_code or lowered.endswith(":") or not words.texts.isdisjoint(tokens)
    of_itself = not words.itself.isdisjoint(tokens)
    for action, (voice, form) in Reading(tokens, words, in_text=in_text).statements().items():
        edits = action == "any" or any(beginnings_of(form, words.edits))
        if edits and of_itself:
            continue
        claim = Claim(text=shown, action=action)
        yield Statement(
            claim=claim, voice=voice, edits_words=edits, edits=edits and opens, names_text=names_text, in_text=in_text
        )
