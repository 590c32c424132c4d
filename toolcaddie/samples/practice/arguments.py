"""Fills the arguments of a tool from a message: by labels, choices, kinds of values, and key phrases. Used by the practice model,
which follows rules instead of a language model.

A slot is one argument of a tool; a mention is a name, date or other value in the message. The rules apply one after the other,
and a piece of the message is used for one argument only. The last rule guesses, for required arguments only. If no rule finds a
value, a required argument is reported as missing and an optional one is omitted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from toolcaddie.core.schema import argument_errors
from toolcaddie.samples.practice.english import ENGLISH, STOPS, VERBS, listed, stem, stems, words
from toolcaddie.samples.practice.mentions import Kind, Mention, currencies, number_of
from toolcaddie.samples.practice.tools import KnownTool, Slot

NOTHING = object()
"""Marker for "no value"; None would be a value."""

NAME_KINDS: tuple[Kind, ...] = ("quote", "name", "code", "email")
"""Kinds of mention that may be a name of a thing or person."""

_NUMBERS = ("integer", "number")
_PAGING_WORDS, _FROM_WORDS, _TO_WORDS = listed("paging"), listed("from"), listed("to")
_DAYS_IN = {stem(unit): days for unit, days in ENGLISH["units"].items()}
_KINDS = {
    of_type: [(frozenset(stems(names)), tuple(kinds)) for names, kinds in table.items()]
    for of_type, table in ENGLISH["kinds"].items()
}
"""Stems in an argument's name, and the kinds of mention that such an argument takes, the likeliest first."""
_PHRASES = [
    (frozenset(stems(phrase["names"])), re.compile(phrase["pattern"], re.IGNORECASE)) for phrase in ENGLISH["phrases"]
]
"""Stems in an argument's name, and the phrases that introduce a value for it."""


@dataclass(kw_only=True)
class Facts:
    """A message with its mentions (names, dates and other values), from which arguments are filled. Each piece that an argument
    takes is added to `used_spans`, so that no piece is used twice."""

    text: str
    mentions: tuple[Mention, ...]
    today: date
    ids: dict[str, Any] = field(default_factory=dict)
    """Identifiers that did not come from the message, by argument."""
    used_spans: list[tuple[int, int]] = field(default_factory=list)

    def free(self, *kinds: Kind) -> list[Mention]:
        """Returns the unused mentions of these kinds, in the order of the text."""
        return [
            mention for mention in self.mentions if mention.kind in kinds and self.is_free(mention.start, mention.end)
        ]

    def is_free(self, start: int, end: int) -> bool:
        return all(end <= first or last <= start for first, last in self.used_spans)

    def take(self, mention: Mention) -> Any:
        self.used_spans.append((mention.start, mention.end))
        return mention.value

    def take_text(self, match: re.Match[str] | None) -> Any:
        """Returns the `value` of a match, if it is unused."""
        if match is None or not self.is_free(*match.span("value")):
            return NOTHING
        self.used_spans.append(match.span("value"))
        return match["value"].strip(" .\"'“”")

    def before(self, position: int, count: int) -> list[str]:
        """Returns the stems of the last words before a place."""
        return stems(self.text[max(0, position - 60) : position])[-count:]

    def after(self, position: int, count: int) -> list[str]:
        """Returns the stems of the next words after a place."""
        return stems(self.text[position : position + 60])[:count]

    def is_beside(self, mention: Mention, thing: Sequence[str] | frozenset[str]) -> bool:
        """Returns True if one of these stems is right before or after a mention, as in "the Rivers project"."""
        return not {*self.before(mention.start, 2), *self.after(mention.end, 1)}.isdisjoint(thing)


def names_by_slot(slots: Sequence[Slot], facts: Facts) -> dict[str, Mention]:
    """Assigns the names in the message to slots (arguments): the best pair first, until names or slots run out."""
    pairs = [(slot.name, name, _belonging(name, slot, facts)) for slot in slots for name in facts.free(*NAME_KINDS)]
    names: dict[str, Mention] = {}
    for slot_name, name, _ in sorted(pairs, key=lambda pair: -pair[2]):
        if slot_name not in names and name not in names.values():
            names[slot_name] = name
    return names


def _belonging(name: Mention, slot: Slot, facts: Facts) -> float:
    """Returns how well a name fits a slot. A name fits better if the slot's word stands next to it, if the slot takes a title and
    "called" stands before the name, or if the slot takes a person and "for" stands before the name or an 's after it."""
    cue = {*facts.before(name.start, 1), *stems(facts.text[name.start : name.start + 6])}
    is_title = not cue.isdisjoint(stems("called named titled name title"))
    is_person = not cue.isdisjoint(("for", "to", "of", "from", "with", "by")) or facts.text[name.end :][1:2] == "s"
    score = (3 if facts.is_beside(name, stems(slot.thing) if slot.is_id else slot.words) else 0) - (
        name.kind == "email"
    ) / 3
    return score + (is_person - is_title if slot.is_id else 2 * is_title + (name.kind == "quote") / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The arguments of a call, and the required ones that the message does not contain."""

    arguments: dict[str, Any]
    missing: tuple[Slot, ...] = ()


def filled(tool: KnownTool, facts: Facts, *, insist: frozenset[str] = frozenset()) -> Filled:
    """Returns a tool's arguments. `insist`: names of optional arguments to treat as required.

    The surest rule comes first, and each rule is applied to all slots before the next one, so that a guess never takes a value
    that belongs to the label of another slot. Required slots come before optional ones.
    """
    needed = {slot.name for slot in tool.slots if slot.required} | insist
    values: dict[str, Any] = {slot.name: facts.ids[slot.name] for slot in tool.slots if slot.name in facts.ids}
    slots = sorted(tool.slots, key=lambda slot: slot.name not in needed)
    for rule in (_labelled, _choice_in, _by_kind, _by_phrase, _left_over):
        for slot in slots:
            if slot.name in values or (rule is _left_over and slot.name not in needed):
                continue
            count = len(facts.used_spans)
            values[slot.name] = value_for_slot(rule(slot, facts, tool), slot)
            if values[slot.name] is NOTHING:
                del values[slot.name], facts.used_spans[count:]
    return Filled(
        arguments={slot.name: values[slot.name] for slot in tool.slots if slot.name in values},
        missing=tuple(slot for slot in tool.slots if slot.name in needed and slot.name not in values),
    )


def id_in_message(slot: Slot, facts: Facts) -> Any:
    """Returns the identifier that the message contains: "order 17"."""
    tool = KnownTool(name="")
    value = _labelled(slot, facts, tool)
    return value_for_slot(_by_kind(slot, facts, tool) if value is NOTHING else value, slot)


# Rule 1: "phone 555 1234", "note: call back"


def _labelled(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    """Returns the piece of the message after the argument's own name, such as the number in "phone 555 1234"."""
    if slot.type not in ("string", *_NUMBERS) or slot.choices:
        return NOTHING
    label = r"[ _-]".join(map(re.escape, slot.parts[:-1] if slot.is_id and slot.parts[1:] else slot.parts))
    links = r"id|number|no\.?|nr" if slot.is_id else r"number|no\.?|is|to|of|as|at"
    pattern = rf"\b{label}\b(?: (?:{links}))*\s*(?P<mark>[:=]\s*)?(?P<value>[^\s;][^;\n]*)"
    for match in re.finditer(pattern, facts.text, re.IGNORECASE):
        if any(mention.start <= match.start() < mention.end for mention in facts.mentions):
            continue  # the word is part of something else: the months of "6 months" are no label
        start = match.start("value")
        for mention in facts.free(*(_id_kinds(slot) if slot.is_id else _kinds_behind_label(slot))):
            if mention.start <= start + 1 and start < mention.end:
                facts.take(mention)
                return _shaped(mention, slot)
        if match["mark"] and slot.is_free_text and not slot.is_id:
            return facts.take_text(match)
    return NOTHING


def _id_kinds(slot: Slot) -> tuple[Kind, ...]:
    return ("number", "code", "phone") if slot.type == "string" else ("number",)


def _kinds_behind_label(slot: Slot) -> tuple[Kind, ...]:
    """Returns the kinds of mention that may follow the argument's own name in the message."""
    if slot.type in _NUMBERS:
        return "number", "money", "percent", "duration"
    return kinds_of(slot) or ("quote", "name", "code", "number", "phone")


# Rule 2: a word of the message is one of the choices


def _choice_in(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    """Returns the choice that the message names, or True or False for a flag. A choice that is also the name of another argument
    does not count, and an optional argument does not get its default."""
    if slot.type == "boolean" and not slot.choices:
        return _flag(slot, facts)
    labels = {word for other in tool.slots if other.name != slot.name for word in other.parts}
    choices = [choice for choice in slot.choices if str(choice).lower() not in labels]
    places = sorted((place, number) for number, candidate in enumerate(choices) for place in _places(facts, candidate))
    if not places:
        return NOTHING
    changed = [place for place in places if {"to", "into", "as"}.intersection(facts.before(place[0], 1))]
    choice = choices[(changed or places)[0][1]]  # of several choices, the one after "to": the new value
    return NOTHING if not slot.required and slot.schema.get("default") == choice else choice


def _places(facts: Facts, choice: Any) -> list[int]:
    """Returns the positions in the text at which the words of a choice follow each other. Words inside a longer name do not
    count."""
    choice_stems = stems(str(choice))
    if not choice_stems or set(choice_stems) <= STOPS:
        return []
    spoken = [(match.start(), stem(match[0].lower())) for match in re.finditer(r"[^\W_]+", facts.text)]
    places = {
        at
        for n, (at, _) in enumerate(spoken)
        if [word for _, word in spoken[n : n + len(choice_stems)]] == choice_stems
    }
    places |= {place for place, code in currencies(facts.text) if code == choice}
    longer = [mention for mention in facts.mentions if mention.kind in ("quote", "name") and " " in mention.text]
    return [place for place in places if not any(mention.start <= place < mention.end for mention in longer)]


def _flag(slot: Slot, facts: Facts) -> Any:
    """Returns True for a flag whose name is in the text, False if one of the two words before it negates it, and NOTHING if the
    name is not in the text."""
    name_stems, spoken = [stem(word) for word in slot.parts if word not in STOPS], stems(facts.text)
    if not name_stems or not set(name_stems) <= set(spoken):
        return NOTHING
    place = spoken.index(name_stems[0])
    return {"not", "no", "without", "never", "except"}.isdisjoint(spoken[max(0, place - 2) : place])


# Rule 3: the slot's name or format determines the kind of value


def kinds_of(slot: Slot) -> tuple[Kind, ...]:
    """Returns the kinds of mention that a slot takes, the likeliest first. Empty: the slot's name does not tell."""
    hints = slot.words.union(stems(slot.format))
    hints |= {word for word, shape in (("date", "YYYY-MM"), ("time", "HH:MM")) if shape in slot.description}
    table = _KINDS["number" if slot.type in _NUMBERS else "text"]
    return next((kinds for names, kinds in table if not hints.isdisjoint(names)), ())


def _by_kind(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    """Returns the first unused mention of the kinds that the slot takes. An argument for an end, such as `to_date`, gets the last
    date or currency instead of the first."""
    if slot.choices or slot.type not in ("string", *_NUMBERS):
        return NOTHING
    if slot.is_id:
        return _number_behind(slot.thing or "id", facts)
    last = slot.words.isdisjoint(_FROM_WORDS) and not slot.words.isdisjoint(_TO_WORDS)
    if slot.type == "string" and "currenc" in slot.words:
        codes = [code for _, code in currencies(facts.text)]
        return codes[-1 if last else 0] if codes else NOTHING
    kinds = kinds_of(slot)
    if "date" in kinds:
        return _day(slot, facts, -1 if last else 0)
    free = [mention for mention in facts.free(*kinds) if mention.kind != "period" or mention.unit]
    if not free:
        return NOTHING
    facts.take(free[0])
    return _shaped(free[0], slot)


def _number_behind(thing: str, facts: Facts) -> Any:
    """Returns a number or code that is right after the thing's name, or after a #."""
    for mention in facts.free("number", "code"):
        near = [word for word in facts.before(mention.start, 2) if word not in ("id", "number", "no", "nr")]
        if not mention.text.isalpha() and (near[-1:] == stems(thing) or facts.text[mention.start] == "#"):
            return facts.take(mention)
    return NOTHING


def _day(slot: Slot, facts: Facts, end: int) -> Any:
    """Returns a date of the message, or one end of its period, in the form that the slot takes. `end`: 0 for the first date, -1
    for the last."""
    by_month = "YYYY-MM" in slot.description and "DD" not in slot.description
    if dates := facts.free("date"):
        value, word = facts.take(dates[end]), dates[end].text.lower()
        if word.isalpha() and re.search(rf"\b{word}\b", f"{slot.description} {slot.schema.get('pattern', '')}".lower()):
            return word  # the tool accepts relative days such as "today" and knows best which date that is
        return value[:7] if by_month else f"{value}T00:00:00" if slot.format == "date-time" else value
    period = next((mention for mention in facts.mentions if mention.kind == "period"), None)
    # A period has two ends: using one does not use it up.
    if period and not slot.words.isdisjoint(_FROM_WORDS | _TO_WORDS):
        return period.value[end]
    return NOTHING


def _shaped(mention: Mention, slot: Slot) -> Any:
    """Returns the mention's value in the unit and form of the slot: "two weeks" is 14 for a slot that takes days."""
    unit = next((_DAYS_IN[word] for word in slot.words if word in _DAYS_IN), 0)
    if slot.type in _NUMBERS and mention.kind == "period":
        first, last = map(date.fromisoformat, mention.value)
        return round((last - first).days / (unit or 1))
    if slot.type in _NUMBERS and mention.kind == "duration":
        spoken = _DAYS_IN[stem(mention.unit)]
        return round(mention.value * spoken / (unit or spoken))
    return mention.text if slot.type == "string" and mention.kind in ("number", "money", "phone") else mention.value


# Rule 4: "called X", "about X", "in X", a number beside the slot's word

_BEHIND_COLON = re.compile(r": +(?P<value>\S.*?)[\s.]*$")


def _by_phrase(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    """Returns a number next to the slot's word, a name for a slot that takes one, or the text after a phrase such as "about"."""
    if slot.choices or slot.is_id:
        return NOTHING
    if slot.type in _NUMBERS:
        return _count(slot, facts)
    if slot.is_search or slot.is_naming:
        name = names_by_slot((slot,), facts).get(slot.name)
        return NOTHING if name is None else str(facts.take(name))
    values = (facts.take_text(phrase.search(facts.text)) for names, phrase in _PHRASES if slot.words & names)
    return next((value for value in values if value is not NOTHING), NOTHING)


def _count(slot: Slot, facts: Facts) -> Any:
    """Returns a number next to one of the slot's words ("50 points", "capacity 20"), or the only number of the text if one of
    these words occurs anywhere. A limit takes only the number after a word such as "first" or "top"."""
    free = facts.free("number", "percent")
    if slot.words & _PAGING_WORDS:
        free = [
            mention
            for mention in free
            if {"top", "first", "last", "latest", "onli"}.intersection(facts.before(mention.start, 1))
        ]
        return facts.take(free[0]) if free and "limit" in slot.words else NOTHING
    beside = [
        mention for mention in free if slot.words & {*facts.before(mention.start, 3), *facts.after(mention.end, 2)}
    ]
    if not beside and len(free) == 1 and not slot.words.isdisjoint(stems(facts.text)):
        beside = free
    return facts.take(beside[0]) if beside else NOTHING


# Rule 5, for required slots: any number, any name, the unused words


def _left_over(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    """Returns a guess for a required slot: any unused number for a number, a name or the unused words for a text, or the default
    for a slot that takes neither."""
    if slot.is_id or slot.choices or slot.format or slot.type not in ("string", *_NUMBERS):
        return slot.schema.get("default", NOTHING)
    if slot.type in _NUMBERS:
        free = facts.free("number", "money", "duration", "percent")
        return _shaped(free[0], slot) if free and facts.take(free[0]) is not None else NOTHING
    if kinds_of(slot):
        return NOTHING
    mentions = facts.free("quote", "name") if slot.is_naming else facts.free("quote")
    if mentions:
        return facts.take(mentions[0])
    behind = NOTHING if slot.is_naming else facts.take_text(_BEHIND_COLON.search(facts.text))
    return behind if behind is not NOTHING else salient_text(facts, tool.name_stems) or NOTHING


def salient_text(facts: Facts, own: Sequence[str] = ()) -> str:
    """Returns the unused words of the message. Verbs, stop words and the tool's `own` words are removed at both ends."""
    pieces = [match[0] for match in re.finditer(r"[^\s,;:.!?\"“”]+", facts.text) if facts.is_free(*match.span())]
    small = [
        all(word in STOPS or stem(word) in VERBS or stem(word) in own for word in words(piece)) for piece in pieces
    ]
    return " ".join(pieces[small.index(False) : len(small) - small[::-1].index(False)]) if not all(small) else ""


# Types and limits


def value_for_slot(value: Any, slot: Slot) -> Any:
    """Returns the value in the slot's type and within its limits, or NOTHING if that is impossible."""
    if value is NOTHING or slot.choices:
        return value if value in slot.choices else NOTHING
    if slot.type in _NUMBERS and isinstance(value, str):
        value = number_of(value) if re.fullmatch(r"-?[\d,]*\.?\d+", value := value.strip(" #")) else NOTHING
    if slot.type == "string":
        most = slot.schema.get("maxLength")
        value = str(value).strip()[: most if isinstance(most, int) else None]
    limits = {"type": slot.type} | {key: slot.schema[key] for key in _LIMITS if key in slot.schema}
    try:
        return (
            NOTHING
            if value in (NOTHING, "") or argument_errors({"properties": {"value": limits}}, {"value": value})
            else value
        )
    except ValueError:  # an invalid schema: its limits are ignored
        return value


_LIMITS = ("pattern", "minLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
