"""How the practice model fills a tool's arguments from a message: by labels, choices, kinds of values, and key phrases.

One rule after the other takes what it recognises; a piece of the message is used for one argument only. What no rule can
fill is left to its default, or reported as missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from toolcaddie.samples.practice.facts import NAME_KINDS, Facts, allot
from toolcaddie.samples.practice.kinds import (
    FROM_WORDS,
    NOTHING,
    PAGING_WORDS,
    TEXT_WORDS,
    TO_WORDS,
    fitted,
    kinds_of,
    shaped,
    takes,
    takes_currency,
    written_day,
)
from toolcaddie.samples.practice.mentions import Mention, currency_codes
from toolcaddie.samples.practice.toolbox import KnownTool, Slot
from toolcaddie.samples.practice.words import STOP_WORDS, VERBS, fold, split_words, stem, stems, stems_of, words_of

_NEGATIONS = words_of("not no without never un inactive except dont don")
_ID_LINKS = words_of("id number no nr")
_TOPIC_WORDS = stems_of("topic subject interest purpose")
_PLACE_WORDS = stems_of("city location place address country region")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The arguments of a call, and the required ones that nothing in the message gives."""

    arguments: dict[str, Any]
    missing: tuple[Slot, ...] = ()


def fill(tool: KnownTool, facts: Facts, *, insist: frozenset[str] = frozenset()) -> Filled:
    """Fill a tool's arguments. `insist`: optional ones to treat as required.

    All slots are tried with the surest rule first, then with the next, so that a guess never takes what another slot has a
    label for; required slots come before optional ones.
    """
    needed = {slot.name for slot in tool.slots if slot.required} | insist
    values: dict[str, Any] = {slot.name: facts.ids[slot.name] for slot in tool.slots if slot.name in facts.ids}
    for rule in _RULES:
        for slot in sorted(tool.slots, key=lambda slot: slot.name not in needed):
            if slot.name not in values and (rule is not _last_resort or slot.name in needed):
                value = fitted(rule(slot, facts, tool), slot)
                if value is not NOTHING:
                    values[slot.name] = value
    return Filled(
        arguments={slot.name: values[slot.name] for slot in tool.slots if slot.name in values},
        missing=tuple(slot for slot in tool.slots if slot.name in needed and slot.name not in values),
    )


# Rule 1: "phone 555 1234", "note: call back", "with the question How are you?"


def _labelled(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    """What stands behind the argument's own name in the message."""
    if slot.type not in ("string", "integer", "number") or slot.choices:
        return NOTHING
    words = slot.parts
    label = r"[ _-]".join(map(re.escape, words[:-1] if slot.is_id and len(words) > 1 else words))
    links = r"id|number|no\.?" if slot.is_id else r"is|to|of|as|number|no\.?|at"
    pattern = rf"\b(?P<with>with (?:the |an? )?)?{label}\b(?: (?:{links}))*\s*(?P<mark>[:=#]\s*)?(?P<value>\S.*)"
    for match in re.finditer(pattern, facts.text, re.IGNORECASE | re.DOTALL):
        if any(one.start <= match.start() < one.end for one in facts.mentions):
            continue  # the word is part of something else: the months of "6 months" are no label
        start = match.start("value")
        behind = next((one for one in facts.mentions if one.start <= start + 1 and start < one.end), None)
        if behind is not None and facts.is_free(*behind.span) and takes(slot, behind):
            facts.take(behind)
            return shaped(behind, slot)
        if (match["mark"] or match["with"]) and slot.is_free_text and not slot.is_id:
            return _rest(match, facts)
    return NOTHING


def _rest(match: re.Match[str], facts: Facts) -> Any:
    """The text behind a label, up to the next label or the end."""
    start = match.start("value")
    value = re.split(r"[;\n]|, (?=\w+ ?[:=])|,? and (?=the \w+ )", match["value"])[0].rstrip()
    if not facts.is_free(start, start + len(value)):
        return NOTHING
    facts.used.append((start, start + len(value)))
    return value.strip("\"'“” ")


# Rule 2: a word of the message is one of the choices


def _chosen(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    if slot.type == "array":
        choices = slot.items.get("enum", ())
        return [choice for choice in choices if _places(facts, choice)] or NOTHING
    if slot.type == "boolean" and not slot.choices:
        return _said_flag(slot, facts)
    labels = {word for other in tool.slots if other.name != slot.name for word in split_words(other.name)}
    said = sorted(
        (place, -len(str(choice)), number)
        for number, choice in enumerate(slot.choices)
        for place in _places(facts, choice)
        if fold(str(choice)) not in labels
    )
    if not said:
        return NOTHING
    place, _, number = _meant(said, slot, facts)
    choice = slot.choices[number]
    if not slot.required and slot.schema.get("default") == choice:
        return NOTHING
    facts.chosen.append(place)
    return choice


def _meant(said: Sequence[tuple[int, int, int]], slot: Slot, facts: Facts) -> tuple[int, int, int]:
    """Of several choices said: what is changed *to*, for an argument called `to` or alone; else the first."""
    if FROM_WORDS.isdisjoint(slot.words):
        for one in said:
            if {"to", "into", "as"} & set(split_words(facts.text[: one[0]])[-1:]):
                return one
        if not TO_WORDS.isdisjoint(slot.words):
            return said[-1]
    return said[0]


def _places(facts: Facts, choice: Any) -> list[int]:
    """Where the text says a choice as a whole, its words in a row; inside a longer name it is no choice."""
    words = [stem(word) for word in split_words(str(choice))]
    if not words or set(words) <= STOP_WORDS:
        return []
    said = [(match.start(), stem(fold(match[0]))) for match in re.finditer(r"[^\W_]+", facts.text)]
    places = [
        said[n][0] for n in range(len(said) - len(words) + 1) if [word for _, word in said[n : n + len(words)]] == words
    ]
    places += [place for place, code in currency_codes(facts.text) if code == choice and place not in places]
    longer = [one.span for one in facts.mentions if one.kind in ("quote", "name") and " " in one.text]
    return [
        place
        for place in places
        if place not in facts.chosen and not any(start <= place < end for start, end in longer)
    ]


def _said_flag(slot: Slot, facts: Facts) -> Any:
    """A flag whose name is said is meant, unless a word before it says no."""
    words = [word for word in slot.words if word not in STOP_WORDS]
    text = stems(facts.text)
    if not words or not all(word in text for word in words):
        return NOTHING
    place = text.index(words[0])
    return _NEGATIONS.isdisjoint(text[max(0, place - 2) : place])


# Rule 3: the slot's name or format says what kind of value it takes


def _by_kind(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    if slot.choices or slot.type not in ("string", "integer", "number"):
        return NOTHING
    if slot.is_id:
        return _given_id(slot, facts)
    if takes_currency(slot):
        return _currency(slot, facts)
    kinds = kinds_of(slot)
    if "date" in kinds:
        return _day(slot, facts)
    free = [one for one in facts.free(*kinds) if one.kind != "period" or one.unit]
    if not free:
        return NOTHING
    facts.take(free[0])
    return shaped(free[0], slot)


def _given_id(slot: Slot, facts: Facts) -> Any:
    """A number or code that stands right behind the thing's name, or behind a #."""
    thing = slot.thing[-1] if slot.thing else "id"
    for mention in facts.free("number", "code"):
        near = facts.before(mention.start, 2)
        linked = near[-2:-1] == [thing] and near[-1] in _ID_LINKS
        marked = facts.text[mention.start : mention.start + 1] == "#"
        if not mention.text.isalpha() and (near[-1:] in ([thing], ["id"]) or linked or marked):
            return facts.take(mention)
    return NOTHING


def _currency(slot: Slot, facts: Facts) -> Any:
    codes = [code for _, code in currency_codes(facts.text)]
    if not codes:
        return NOTHING
    return codes[0] if not FROM_WORDS.isdisjoint(slot.words) or TO_WORDS.isdisjoint(slot.words) else codes[-1]


def _day(slot: Slot, facts: Facts) -> Any:
    starts, ends = not FROM_WORDS.isdisjoint(slot.words), not TO_WORDS.isdisjoint(slot.words)
    dates = facts.free("date")
    if dates:
        chosen = dates[-1] if ends and not starts else dates[0]
        return written_day(facts.take(chosen), chosen.text, slot)
    for mention in (one for one in facts.mentions if one.kind == "period"):
        if "YYYY-MM" in slot.description and "DD" not in slot.description:
            return mention.value[0][:7]
        if starts or ends:  # a period gives both: its first end does not use it up
            return mention.value[1 if ends and not starts else 0]
    return NOTHING


# Rule 4: an object's own fields; a list of names


def _nested(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    if slot.type == "object" and slot.schema.get("properties") and slot.required:
        inner = KnownTool(name=slot.name, description=slot.description, schema=slot.schema)
        return fill(inner, facts).arguments or NOTHING
    if slot.type == "array" and slot.required and slot.items.get("type", "string") == "string":
        return [facts.take(mention) for mention in facts.free(*NAME_KINDS)] or NOTHING
    return NOTHING


# Rule 5: "called X", "about X", "in X", a number beside the slot's word


def _by_phrase(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    if slot.choices or slot.is_id or slot.type not in ("string", "integer", "number"):
        return NOTHING
    if slot.type != "string":
        return _count(slot, facts)
    if slot.is_search or slot.is_naming:
        return _name(slot, facts)
    for pattern in _phrases(slot):
        match = pattern.search(facts.text)
        if match and facts.is_free(*match.span("value")):
            facts.used.append(match.span("value"))
            return match["value"].strip(" .\"'")
    return NOTHING


_SAYING = re.compile(
    r"(?::|\b(?:saying|that says|says|say|that)\b)\s+[\"“']?(?P<value>[^\"”]{2,}?)[\s.\"”']*$", re.IGNORECASE
)
_BEHIND_COLON = re.compile(r": +(?P<value>\S.*?)[\s.]*$")
_BECAUSE = re.compile(r"\b(?:because(?: of)?|due to|reason(?: is)?:?|since)\s+(?P<value>[^.,;]{2,})", re.IGNORECASE)
_ABOUT = re.compile(
    r"\b(?:about|regarding|concerning|interested in|on the subject of)\s+(?P<value>[^.,;]{2,})", re.IGNORECASE
)
_LOCATED = re.compile(r"\b(?:in|at|located in)\s+(?:the )?(?P<value>[A-Z][\w'-]*(?: [A-Z][\w'-]*)*)")


def _phrases(slot: Slot) -> list[re.Pattern[str]]:
    """The key phrases that introduce a slot's value, the surest first."""
    words = set(slot.words)
    if "reason" in words:
        return [_BECAUSE]
    found = [_SAYING] if words & TEXT_WORDS else []
    found += [_ABOUT] if words & (TEXT_WORDS | _TOPIC_WORDS) else []
    return found + ([_LOCATED] if words & _PLACE_WORDS else [])


def _name(slot: Slot, facts: Facts) -> Any:
    found = allot((slot,), facts).get(slot.name)
    return NOTHING if found is None else str(facts.take(found))


def _count(slot: Slot, facts: Facts) -> Any:
    """A number beside one of the slot's words ("50 points", "capacity 20"), or the only one when its word is there at all."""
    words = set(slot.words)
    free = facts.free("number", "percent")
    if words & PAGING_WORDS:
        tops = [one for one in free if {"top", "first", "last", "latest", "only"} & set(facts.before(one.start, 1))]
        return facts.take(tops[0]) if tops and "limit" in words else NOTHING
    beside = [one for one in free if words & {*facts.before(one.start, 3), *facts.after(one.end, 2)}]
    if not beside and len(free) == 1 and not words.isdisjoint(stems(facts.text)):
        beside = free
    return facts.take(beside[0]) if beside else NOTHING


# Rule 6, for what is required: any number, any name, the words that are left


def _last_resort(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    if slot.is_id or slot.choices or slot.format or slot.type in ("boolean", "array", "object"):
        return slot.schema.get("default", NOTHING)
    if slot.type in ("integer", "number"):
        free = facts.free("number", "money", "duration", "percent")
        return shaped(_taken(free[0], facts), slot) if free else NOTHING
    if kinds_of(slot):
        return NOTHING
    named = facts.free("quote", "name") if slot.is_naming else facts.free("quote")
    if named:
        return facts.take(named[0])
    behind = None if slot.is_naming else _BEHIND_COLON.search(facts.text)
    return behind["value"] if behind and facts.is_free(*behind.span("value")) else salient(facts, tool) or NOTHING


def _taken(mention: Mention, facts: Facts) -> Mention:
    facts.take(mention)
    return mention


def salient(facts: Facts, tool: KnownTool | None = None) -> str:
    """The words of the message that nothing has used, without its verb, the tool's own words and small words at the ends."""
    own = set(tool.name_stems) if tool else set()
    pieces = re.finditer(r"[^\s,;:.!?\"“”]+", facts.text)
    kept = [match[0] for match in pieces if facts.is_free(match.start(), match.end())]
    while kept and _is_small(kept[0], own):
        kept.pop(0)
    while kept and _is_small(kept[-1], own):
        kept.pop()
    return " ".join(kept)


def _is_small(word: str, own: set[str]) -> bool:
    folded = re.sub(r"['’]s?$", "", fold(word))
    return folded in STOP_WORDS or stem(folded) in own or stem(folded) in VERBS


_RULES: tuple[Callable[[Slot, Facts, KnownTool], Any], ...] = (
    _labelled,
    _chosen,
    _by_kind,
    _nested,
    _by_phrase,
    _last_resort,
)
