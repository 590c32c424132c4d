"""The comparison of an answer's statements with the calls. It is lenient, because a false alarm costs more than a miss:

- A sentence with a speaker ("I deleted", "he borrado") needs a successful call of a tool of that class of actions.
- A sentence without one ("has been deleted") counts only if the request asked for an action, and is also supported by any
  result that says the same, such as the status that a reading call found.
- A tool whose words tell no class supports every claim, and so does one that can do anything, such as a shell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from toolcaddie.control.claims.statements import Statement, statements_of
from toolcaddie.control.claims.support import PastCall, Support
from toolcaddie.control.claims.words import SHORTEST, Words, beginnings_of, words_of_claims
from toolcaddie.core.claims import Action, Claim

_READ = 8_000
"""Characters of a request that are read."""
_CONFIRMATION = 300
"""Characters of a request that are read to see whether it only confirms something."""
_BEFORE_VERBS = frozenset(("and", "then", "to", "please", "also", "y", "e", "und", "et", "bitte"))
"""Words before which a noun of a request is a verb: "and mail it"."""
_WORD = re.compile(r"\w+")
_GIVEN = re.compile(
    r"\b(?:this|these|following|estos?|estas?|dies\w*|folgende\w*|ces?|cette|quest[aeio]|ist[ao]|seguinte)\b[^:\n]{0,40}:",
    re.IGNORECASE,
)
"""The place of a request where a text is given: "shorten this paragraph: ..."."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer is compared with."""

    calls: Sequence[PastCall] = ()
    asked: str = ""
    """The request, with what it confirms."""
    tried: bool = False
    """True if a call failed or was refused: then something was asked for, whatever the words of the request."""
    earlier: Sequence[str] = ()
    """Earlier answers of a conversation from which the calls were left out. What they said is not judged again."""


def unsupported(statements: Sequence[Statement], evidence: Evidence) -> tuple[Claim, ...]:
    """Returns the claims of these statements that no call supports, in order and without repetitions."""
    if not statements:
        return ()
    words = words_of_claims()
    asked = _WORD.findall(evidence.asked[:_READ].lower())
    writes = not words.writing.isdisjoint(asked)
    of_text = not words.texts.isdisjoint(asked)
    is_given = ":" in evidence.asked and _GIVEN.search(evidence.asked[:_READ]) is not None
    rewords = not words.rewording.isdisjoint(asked)
    wanted = _asked_for(asked, words)
    support = Support(evidence.calls, words)
    before = {each.claim.action for answer in evidence.earlier for each in statements_of(answer)}
    claims: dict[Claim, None] = {}
    for statement in statements:
        action = statement.claim.action
        if action == "any" and any(other.claim.action != "any" for other in statements):
            continue  # "Done! I've removed it." is one claim
        about_text = (
            rewords
            or (writes and statement.in_text)
            or (statement.edits and (of_text or statement.names_text))
            or (statement.edits_words and is_given)
        )
        if about_text or action in before or (action == "run" and evidence.calls):
            continue
        if statement.voice != "speaker":
            is_wanted = evidence.tried or (action == "any" and wanted) or _is_near(action, wanted, words)
            if not is_wanted or support.is_reported(action):
                continue
        elif statement.edits_words and not (wanted or evidence.tried):
            continue
        if not support.has(action):
            claims[statement.claim] = None
    return tuple(claims)


def _is_near(action: Action, wanted: frozenset[Action], words: Words) -> bool:
    """Returns True if one of these classes, or a class that can stand for it, is wanted."""
    if action == "any":
        return False
    return (
        action in wanted or not wanted.isdisjoint(words.also[action]) or any(action in words.also[of] for of in wanted)
    )


def is_confirmation(request: str) -> bool:
    """Returns True if a request is so short that it probably confirms what was said before it: "yes, do it"."""
    return len(_WORD.findall(request[:_CONFIRMATION])) <= words_of_claims().confirmations


def _asked_for(tokens: Sequence[str], words: Words) -> frozenset[Action]:
    """Returns the classes of actions that a request asks for by a verb. Returns none if it begins like a question for
    facts, or has such verbs only in forms that say it was done ("was it deleted")."""
    start = next((place for place, token in enumerate(tokens) if token not in words.polite), 0)
    if not words.questions.isdisjoint((*tokens[start : start + 1], "_".join(tokens[start : start + 2]))):
        return frozenset()
    found: set[Action] = set()
    before = ""
    for place, token in enumerate(tokens):
        if token not in words.forms:
            if token[:SHORTEST] in words.asked_beginnings or not token.isascii():
                found.update(beginnings_of(token, words.stems), beginnings_of(token, words.asks))
            if place == start or before in words.conjunctions or before in _BEFORE_VERBS:
                found.update(words.whole.get(token, ()))
        before = token
    return frozenset(found)
