"""How the practice model chooses a tool: by the words a wish shares with it, and by whether it could be carried out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcaddie.samples.practice.arguments import fill
from toolcaddie.samples.practice.facts import NAME_KINDS
from toolcaddie.samples.practice.mentions import Mention
from toolcaddie.samples.practice.scene import Scene
from toolcaddie.samples.practice.toolbox import KnownTool
from toolcaddie.samples.practice.words import CREATE, READ, UPDATE, VERBS, stems_of

_FIGURES = stems_of("stats statistics count total summary overview dashboard report analytics metrics")
_CHECKED = 8
"""How many of the best are looked at closely: filling arguments costs more than comparing words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A tool, how well it fits a wish, and which words of the wish it is about (`hits`)."""

    tool: KnownTool
    score: float
    hits: frozenset[str]
    named: frozenset[str]
    """Words of its name that the wish has."""
    verb_fits: bool


def ranked(scene: Scene) -> list[Choice]:
    """The tools that share a word with the wish, best first; ties keep the order offered."""
    choices = [choice for tool in scene.box.tools if (choice := _by_words(tool, scene)).score > 0]
    choices.sort(key=lambda choice: -choice.score)
    best = [_weighed(choice, _completeness(choice.tool, scene)) for choice in choices[:_CHECKED]]
    return sorted(best, key=lambda choice: -choice.score) + choices[_CHECKED:]


def fits(choice: Choice, scene: Scene) -> bool:
    """Whether a tool is about what is wished for, and not merely the least bad."""
    if not choice.verb_fits:
        return False
    objects = choice.hits - {scene.wish.verb}
    takes_the_name = scene.names_one and any(slot.is_id or slot.is_search for slot in choice.tool.slots)
    if not objects:
        return takes_the_name and (scene.points_back or scene.wish.verb in choice.tool.name_stems)
    return bool(choice.named - {scene.wish.verb}) or len(objects) > 1 or takes_the_name


def _by_words(tool: KnownTool, scene: Scene) -> Choice:
    """Shared words, the rarer the better, times what speaks for or against the tool beside them."""
    wish, score = scene.wish, 0.0
    hits, named = set(), set()
    for words, share in ((wish.content, 1.0), (wish.background, 0.2)):
        for word in words:
            if word in scene.naming_stems or READ in VERBS.get(word, ()):
                continue
            met, weight = _closest(word, tool, scene)
            told = 0.4 if word == wish.verb else 1.0  # the verb has a factor of its own
            score += share * told * weight * scene.box.rarity(word)
            if weight and share == 1.0:
                hits.add(word)
                named |= {met} & set(tool.name_stems)
    score += 2.0 * len([slot for slot in tool.slots if len(slot.words) > 1 and set(slot.words) <= set(wish.content)])
    fitting = _verb_fits(tool, scene)
    choice = Choice(tool=tool, score=score, hits=frozenset(hits), named=frozenset(named), verb_fits=fitting)
    factors = (
        _name_factor(choice),
        _wish_factor(choice, scene),
        _verb_factor(choice, scene),
        _figures_factor(tool, scene),
        _place_factor(tool, scene),
    )
    return _weighed(choice, math.prod(factors))


def _weighed(choice: Choice, factor: float) -> Choice:
    return Choice(
        tool=choice.tool, score=choice.score * factor, hits=choice.hits, named=choice.named, verb_fits=choice.verb_fits
    )


def _closest(word: str, tool: KnownTool, scene: Scene) -> tuple[str, float]:
    """The tool's word that this one meets, and its weight: the same stem, one that begins alike, or one of its topic."""
    akin = [(0.7 * weight, other) for other, weight in tool.weights.items() if _akin(word, other)]
    weight, met = max([(tool.weights.get(word, 0.0), word), *akin])
    if weight:
        return met, weight
    return "", 0.5 if any(word in scene.box.topics[noun] for noun in tool.nouns) else 0.0


def _akin(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= 4 and len(long) - len(short) <= 5 and long.startswith(short)


def _name_factor(choice: Choice) -> float:
    """The more of a tool's name the wish has, the more it is about this tool and not about a wider or narrower one."""
    return 0.5 + 0.5 * len(choice.named & set(choice.tool.topic)) / len(choice.tool.topic)


def _wish_factor(choice: Choice, scene: Scene) -> float:
    """The more of the wish a tool speaks of, the better."""
    words = [word for word in scene.wish.content if word not in scene.naming_stems and READ not in VERBS.get(word, ())]
    whole = sum(map(scene.box.rarity, words))
    return 0.5 + 0.5 * sum(map(scene.box.rarity, choice.hits)) / whole if whole else 1.0


def _verb_fits(tool: KnownTool, scene: Scene) -> bool:
    wish = scene.wish
    if wish.mood == "asks":
        return not tool.changes
    if wish.mood == "states":
        return bool(tool.families & {CREATE, UPDATE})
    if tool.reads and READ not in wish.families:
        return False
    return wish.verb in (*tool.name_stems, tool.opening) or bool(wish.families & tool.does)


def _verb_factor(choice: Choice, scene: Scene) -> float:
    wish, tool = scene.wish, choice.tool
    if choice.verb_fits:
        if wish.mood != "orders":
            return 1.0
        if wish.verb in (*tool.name_stems, tool.opening):
            return 1.7
        return 1.5 if wish.families & tool.families else 1.25
    return 0.3 if wish.mood == "asks" or tool.reads else 0.5


def _figures_factor(tool: KnownTool, scene: Scene) -> float:
    has_figures = not _FIGURES.isdisjoint(tool.name_stems)
    if has_figures and not scene.wish.figures and _FIGURES.isdisjoint(scene.wish.content):
        return 0.7
    return 1.35 if has_figures and scene.wish.figures else 1.0


def _place_factor(tool: KnownTool, scene: Scene) -> float:
    """Whether what the message names has a place in the tool: one thing's identifier, or words to search for."""
    ids = [slot for slot in tool.required if slot.is_id]
    if ids:
        if not scene.names_something:
            return 0.5
        return 1.5 if any(scene.is_named(slot) for slot in ids) else 1.2 if scene.naming_stems else 1.15
    has_place = any(slot.is_id or slot.is_search or slot.is_free_text for slot in tool.slots)
    return 0.6 if scene.naming_stems and not has_place else 1.0


def _completeness(tool: KnownTool, scene: Scene) -> float:
    """A tool whose required values the message has not got, or that has no use for those it has, is hardly what it asks for.

    Identifiers can be looked up, by names.
    """
    facts = scene.facts()
    filled = fill(tool, facts)
    missing = [slot for slot in filled.missing if not slot.is_id]
    has_ids = any(slot.is_id for slot in tool.slots)
    used = [
        one
        for one in facts.mentions
        if not facts.is_free(*one.span) or (has_ids and one.kind in NAME_KINDS) or _bounds(one, filled.arguments)
    ]
    said = len(facts.mentions)
    return float(0.75 ** len(missing)) * (0.7 + 0.3 * (len(used) / said if said else 1.0))


def _bounds(mention: Mention, arguments: Mapping[str, Any]) -> bool:
    """Whether the arguments hold an end of a period: "this week" is never used up, because it gives both ends."""
    return mention.kind == "period" and any(end in arguments.values() for end in mention.value)
