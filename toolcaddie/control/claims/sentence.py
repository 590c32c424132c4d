"""The reading of one sentence: which words of it say that something was done, and who says to have done it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from toolcaddie.control.claims.words import Words
from toolcaddie.core.claims import Action

_SHORT = 5
"""Tokens of a sentence such as "Client deleted", which has no verb."""
_REACH = 14
"""Tokens between a German auxiliary verb and its participle, or between two verbs of one speaker."""
_YEAR = re.compile(r"(?:1[0-9]|20)\d\d")

Voice = Literal["speaker", "passive", "bare"]
"""`speaker`: the assistant did it. `passive`: it was done. `bare`: "Done.", "Deleted.", "Done: client deleted"."""


class Reading:
    """Reads one sentence, a list of lowercase words and separators."""

    def __init__(self, tokens: Sequence[str], words: Words, *, in_text: bool) -> None:
        self._tokens = tokens
        self._in_text = in_text
        self._words = words
        self._said_by_speaker = False
        """True after a verb whose speaker is the assistant: "I created it *and sent* it"."""
        self._opening = self._after_opening()
        """Index of the first token after "Done:" or the like; 0: the sentence does not begin so."""

    def statements(self) -> Mapping[Action, tuple[Voice, str]]:
        """Returns the classes of what the sentence says was done, each with the voice and the word of its first mention."""
        found: dict[Action, tuple[Voice, str]] = {}
        forms = self._words.forms
        for index, token in enumerate(self._tokens):
            if token in forms:
                for action, language in forms[token]:
                    voice = self._voice(index, language)
                    if voice == "speaker":
                        self._said_by_speaker = True
                    if voice is not None:
                        found.setdefault(action, (voice, token))
        if not found and self._opening and self._opening >= len(self._tokens):
            return {"any": ("bare", "")}
        return found

    def _voice(self, index: int, language: str) -> Voice | None:
        """Returns who says the word at `index`; None: the sentence does not say that it was done."""
        tokens, words = self._tokens, self._words
        begin = self._clause(index)
        clause = tokens[begin:index]
        if not words.hedges[language].isdisjoint(clause) or self._is_followed(index, words.that):
            return None
        if not words.nothing.isdisjoint(tokens[index + 1 : index + 4]):
            return None
        if self._is_speaker(index, begin, language):
            return "speaker"
        if tokens[index] in words.refusals or not words.relative.isdisjoint(clause):
            return None
        if language.endswith("_i") or not words.reported.isdisjoint(tokens) or self._is_followed(index, words.by):
            return None
        if self._is_passive(index, begin, language):
            return "passive"
        return "bare" if self._is_bare(index) else None

    def _clause(self, index: int) -> int:
        """Returns the index at which the clause of a word begins."""
        for place in range(index - 1, -1, -1):
            token = self._tokens[place]
            if (not token[0].isalnum()) or token in self._words.but:
                return place + 1
        return 0

    def _is_followed(self, index: int, by: frozenset[str]) -> bool:
        return not by.isdisjoint(self._tokens[index + 1 : index + 2])

    def _before(self, index: int, begin: int) -> tuple[int, bool]:
        """Returns the index of the last token before `index` that is no adverb (`begin` - 1: there is none), and whether there is
        an adverb such as "now" in between."""
        has_now, place = False, index - 1
        while place >= begin and (self._tokens[place] in self._words.adverbs or self._tokens[place].endswith("ly")):
            has_now = has_now or self._tokens[place] in self._words.now
            place -= 1
        return place, has_now

    def _is_speaker(self, index: int, begin: int, language: str) -> bool:
        tokens, words = self._tokens, self._words
        if not words.before.isdisjoint(tokens) or (tokens[index] == "ordered" and "by" in tokens[index:]):
            return False
        if language.endswith("_i"):
            return True
        place, _ = self._before(index, begin)
        previous = tokens[place] if place >= 0 else ""
        speakers = words.strong.get(language, frozenset())
        if place >= begin and previous in speakers and language != "de":
            return previous != "we" or place < index - 1  # "we updated our terms" tells of other times
        joined = previous in words.conjunctions or not previous[:1].isalnum()
        if joined and place >= 0 and (self._said_by_speaker or tokens[place - 1 : place] == ["ahead"]):
            return True
        if language != "de":
            return False
        return any(
            tokens[at] in speakers and not {"ich", "wir"}.isdisjoint(tokens[max(0, at - 1) : at + 3])
            for at in range(max(0, index - _REACH), index)
        )

    def _is_passive(self, index: int, begin: int, language: str) -> bool:
        tokens, words = self._tokens, self._words
        if not words.already.isdisjoint(tokens):
            return False
        is_past = not words.past.isdisjoint(tokens) or any(map(_YEAR.fullmatch, tokens))
        place, has_now = self._before(index, begin)
        auxiliaries = {tokens[at] for at in (index - 1, place) if at >= begin}
        if language == "de":
            auxiliaries = {*tokens[max(begin, index - _REACH) : index], *tokens[index + 1 : index + 3]}
            has_now = not words.now.isdisjoint(tokens)
            if not {"ich", "wir"}.isdisjoint(auxiliaries):
                return False
        if language == "es" and auxiliaries & {"ha", "han"} and "se" in tokens[begin:index]:
            return True
        weak, nothing = words.weak, frozenset[str]()
        if not weak.get(language, nothing).isdisjoint(auxiliaries):
            return not (is_past and language in ("fr", "it", "de"))  # their perfect tense also tells of other times
        if has_now and not weak.get(f"{language}_now", nothing).isdisjoint(auxiliaries):
            return True
        return not is_past and not weak.get(f"{language}_past", nothing).isdisjoint(auxiliaries)

    def _is_bare(self, index: int) -> bool:
        tokens, words = self._tokens, self._words
        if self._opening:
            return index >= self._opening
        is_short = not self._in_text and len(tokens) <= _SHORT and all(token[0].isalnum() for token in tokens)
        if is_short and set(tokens[index + 1 :]) <= words.adverbs and words.verbs.isdisjoint(tokens):
            return True
        if any(token[0].isalnum() and token not in words.adverbs | words.fillers for token in tokens[:index]):
            return False
        return index + 1 == len(tokens) or tokens[index + 1] in words.start or not tokens[index + 1][0].isalpha()

    def _after_opening(self) -> int:
        """Returns the index behind "Done", "All done:", "Listo," or the like; 0: the sentence does not begin so."""
        place, is_done = 0, False
        for token in self._tokens:
            if token in self._words.done:
                is_done = True
            elif token not in self._words.fillers and (token[0].isalnum() or not place):
                break
            place += 1
        return place if is_done and (place == len(self._tokens) or not self._tokens[place - 1][0].isalnum()) else 0
