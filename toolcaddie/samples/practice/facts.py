"""What a message gives for filling arguments, what has been used of it, and whose each name is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from toolcaddie.samples.practice.mentions import Kind, Mention
from toolcaddie.samples.practice.toolbox import NAMING_WORDS, Slot
from toolcaddie.samples.practice.words import split_words, stems, words_of

NAME_KINDS: tuple[Kind, ...] = ("quote", "name", "code", "email")
"""Kinds of mention that may be what something or somebody is called."""

_PERSON_CUES = words_of("for to of from with by about")
_TITLE_CUES = words_of("called named titled name title labelled")


@dataclass(kw_only=True)
class Facts:
    """A message and its mentions; `used` grows while arguments are filled, so that no piece is used for two of them."""

    text: str
    mentions: tuple[Mention, ...]
    today: date
    ids: Mapping[str, Any] = field(default_factory=dict)
    """Identifiers found elsewhere, by argument."""
    used: list[tuple[int, int]] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    """Where the text says a choice that was taken; the words there may still be part of a value."""

    def free(self, *kinds: Kind) -> list[Mention]:
        """Mentions of these kinds that nothing has used, in the order of the text."""
        return [mention for mention in self.mentions if mention.kind in kinds and self.is_free(*mention.span)]

    def is_free(self, start: int, end: int) -> bool:
        return all(end <= first or last <= start for first, last in self.used)

    def take(self, mention: Mention) -> Any:
        self.used.append(mention.span)
        return mention.value

    def before(self, position: int, count: int = 3) -> list[str]:
        """Stems of the last words before a place."""
        return stems(self.text[max(0, position - 60) : position])[-count:]

    def after(self, position: int, count: int = 2) -> list[str]:
        """Stems of the next words behind a place."""
        return stems(self.text[position : position + 60])[:count]


def allot(slots: Sequence[Slot], facts: Facts) -> dict[str, Mention]:
    """Which name of the message belongs to which slot, by slot name: the best pair first, until names or slots run out."""
    pairs = [
        (_belonging(mention, slot, facts), -order, -place, slot, mention)
        for order, slot in enumerate(slots)
        for place, mention in enumerate(facts.free(*NAME_KINDS))
    ]
    found: dict[str, Mention] = {}
    for _, _, _, slot, mention in sorted(pairs, key=lambda pair: pair[:3], reverse=True):
        if slot.name not in found and mention not in found.values():
            found[slot.name] = mention
    return found


def _belonging(mention: Mention, slot: Slot, facts: Facts) -> float:
    """How much speaks for it: the slot's word beside the name, "called" before a title, "for" or an 's at a person."""
    near = {*facts.before(mention.start, 2), *facts.after(mention.end, 1)}
    thing = set(slot.thing) if slot.is_id else set(slot.words) - NAMING_WORDS
    cue = (split_words(facts.text[: mention.start]) or [""])[-1]
    score = (3.0 if near & thing else 0.0) - (0.3 if mention.kind == "email" else 0.0)
    if slot.is_id:
        possessive = facts.text[mention.end : mention.end + 2] in ("'s", "’s")
        return score + (1.0 if cue in _PERSON_CUES else -1.0 if cue in _TITLE_CUES else 0.0) + 0.5 * possessive
    return score + (2.0 if cue in _TITLE_CUES else 0.0) + (0.5 if mention.kind == "quote" else 0.0)
