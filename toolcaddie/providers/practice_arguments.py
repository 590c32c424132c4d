"""How the practice model fills a tool's arguments from a message: by labels, choices, kinds of values, and key phrases.

One rule after the other takes what it recognises; a piece of the message is used for one argument only. What no rule can
fill is left to its default, or reported as missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from toolcaddie.providers.practice_mentions import Kind, Mention, currency_codes, number
from toolcaddie.providers.practice_toolbox import NAMING_WORDS, KnownTool, Slot
from toolcaddie.providers.practice_words import READ, STOP_WORDS, VERBS, fold, split_words, stem, stems, words_of

NOTHING = object()
"""No rule found a value; None would be a value."""

_MONEY_WORDS = frozenset(map(stem, words_of("amount price cost fee total budget rate charge pay wage bonus sum")))
_PERSON_CUES = words_of("for to of from with by about")
_TITLE_CUES = words_of("called named titled name title labelled")
_FROM_WORDS = words_of("from start since after begin min")
_TO_WORDS = words_of("to end until till before due expiry max")
_DATE_WORDS = words_of("date day on at when due since until deadline birthday")
_TEXT_WORDS = frozenset(
    map(
        stem, words_of("text note content message body comment description remark reason details summary feedback memo")
    )
)
_ID_LINKS = words_of("id number no nr")
_PAGING = words_of("limit top size offset page skip cursor per")
_UNITS_IN_DAYS = {"minute": 1 / 1440, "hour": 1 / 24, "day": 1, "week": 7, "month": 30, "year": 365}
_NEGATIONS = words_of("not no without never un inactive except dont don")


@dataclass(kw_only=True)
class Facts:
    """What a message offers for filling; `used` grows while arguments are filled from it."""

    text: str
    mentions: tuple[Mention, ...]
    today: date
    ids: Mapping[str, Any] = field(default_factory=dict)
    """Identifiers found elsewhere, by argument."""
    used: list[tuple[int, int]] = field(default_factory=list)

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
        return stems(self.text[position : position + 60])[:count]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The arguments of a call, and the required ones that nothing in the message gives."""

    arguments: dict[str, Any]
    missing: tuple[Slot, ...] = ()


def fill(tool: KnownTool, facts: Facts, *, insist: frozenset[str] = frozenset()) -> Filled:
    """Fill a tool's arguments. `insist`: optional ones to treat as required.

    All slots are tried with the surest rule first, then with the next, so that a guess never takes what another slot
    has a label for.
    """
    values: dict[str, Any] = {slot.name: facts.ids[slot.name] for slot in tool.slots if slot.name in facts.ids}
    for rule in (_labelled, _chosen, _by_kind, _nested, _by_phrase):
        for slot in sorted(tool.slots, key=lambda slot: not slot.required):
            if slot.name not in values:
                value = fitted(rule(slot, facts, tool), slot)
                if value is not NOTHING:
                    values[slot.name] = value
    for slot in tool.slots:
        if (slot.required or slot.name in insist) and slot.name not in values:
            value = fitted(_last_resort(slot, facts, tool), slot)
            if value is not NOTHING:
                values[slot.name] = value
    missing = [slot for slot in tool.slots if (slot.required or slot.name in insist) and slot.name not in values]
    return Filled(
        arguments={slot.name: values[slot.name] for slot in tool.slots if slot.name in values}, missing=tuple(missing)
    )


def fitted(value: Any, slot: Slot) -> Any:
    """The value in the slot's type, or NOTHING where it cannot be: a provider's schema check must not fail on us."""
    if value is NOTHING:
        return value
    if slot.choices:
        return value if value in slot.choices or slot.type == "array" else NOTHING
    match slot.type:
        case "integer":
            return _whole(value)
        case "number":
            return _numeric(value)
        case "string":
            return _text(value, slot)
        case "boolean":
            return value if isinstance(value, bool) else NOTHING
        case "array":
            return value if isinstance(value, list) else [value]
        case "object":
            return value if isinstance(value, Mapping) else NOTHING
    return value


def _whole(value: Any) -> Any:
    value = _numeric(value)
    return int(value) if value is not NOTHING and float(value).is_integer() else NOTHING


def _numeric(value: Any) -> Any:
    if isinstance(value, bool):
        return NOTHING
    if isinstance(value, int | float):
        return value
    text = str(value).strip().lstrip("#")
    return number(text) if re.fullmatch(r"-?[\d,]*\.?\d+", text) else NOTHING


def _text(value: Any, slot: Slot) -> Any:
    text = str(value).strip()
    pattern = slot.schema.get("pattern")
    if not text or (isinstance(pattern, str) and not _matches(pattern, text)):
        return NOTHING
    return text[: slot.schema.get("maxLength") or None]


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:  # a dialect of patterns that is not ours to judge
        return True


# Rule 1: "phone 555 1234", "stage to Won", "note: call back"


def _labelled(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    """What stands behind the argument's own name in the message."""
    if slot.type not in ("string", "integer", "number") or slot.choices:
        return NOTHING
    label = r"[ _-]".join(re.escape(word) for word in _label_words(slot))
    links = r"id|number|no\.?" if slot.is_id else r"is|to|of|as|number|no\.?|at"
    sure = re.compile(
        rf"\b{label}\b(?: (?:{links}))*\s*(?P<mark>[:=#]\s*)?(?P<value>\S.*)",
        re.IGNORECASE | re.DOTALL,
    )
    match = sure.search(facts.text)
    if match is None:
        return NOTHING
    start = match.start("value")
    mention = next((one for one in facts.mentions if one.start <= start + 1 and start < one.end), None)
    if mention is not None and facts.is_free(*mention.span) and _kind_fits(mention, slot):
        return _shaped(facts.take(mention), mention, slot)
    if match["mark"] and slot.type == "string" and not slot.is_id and facts.is_free(start, len(facts.text)):
        value = re.split(r"[;\n]|, (?=\w+ ?[:=])", match["value"])[0].strip(" .\"'")
        facts.used.append((start, start + len(value)))
        return value
    return NOTHING


def _label_words(slot: Slot) -> list[str]:
    words = split_words(slot.name)
    return words[:-1] if slot.is_id and len(words) > 1 else words


def _kind_fits(mention: Mention, slot: Slot) -> bool:
    if slot.is_id:
        return mention.kind in ("number", "code") or (slot.type == "string" and mention.kind == "phone")
    if slot.type in ("integer", "number"):
        return mention.kind in ("number", "money", "percent", "duration") or (
            mention.kind == "phone" and slot.type == "number"
        )
    wanted = _kinds_of(slot)
    return mention.kind in wanted if wanted else mention.kind in ("quote", "name", "code", "number", "phone")


# Rule 2: a word of the message is one of the choices


def _chosen(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    if slot.type == "array":
        items = slot.schema.get("items") or {}
        return [choice for choice in items.get("enum", ()) if _places(facts, choice)] or NOTHING
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
    choice = slot.choices[_meant(said, slot, facts)[2]]
    return NOTHING if not slot.required and slot.schema.get("default") == choice else choice


def _meant(said: Sequence[tuple[int, int, int]], slot: Slot, facts: Facts) -> tuple[int, int, int]:
    """Of several choices said: what is changed *to*, for an argument called `to` or alone; else the first."""
    words = set(slot.words)
    if not words & {"from", "source", "old"}:
        for one in said:
            if {"to", "into", "as"} & set(split_words(facts.text[: one[0]])[-1:]):
                return one
        if words & {"to", "target", "new"}:
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
    named = [one for one in facts.mentions if one.kind in ("quote", "name") and " " in one.text]
    return [place for place in places if not any(one.start <= place < one.end for one in named)]


def _said_flag(slot: Slot, facts: Facts) -> Any:
    words = [word for word in slot.words if word not in STOP_WORDS]
    text = stems(facts.text)
    if not words or not all(word in text for word in words):
        return NOTHING
    place = text.index(words[0])
    return not _NEGATIONS.intersection(text[max(0, place - 2) : place])


# Rule 3: the slot's name or format says what kind of value it takes


def _by_kind(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    if slot.choices or slot.type in ("boolean", "object", "array"):
        return NOTHING
    if slot.is_id:
        return _given_id(slot, facts)
    words = set(slot.words)
    if slot.type == "string" and "currency" in words | set(stems(slot.description)) and not words & _TEXT_WORDS:
        return _currency(slot, facts)
    kinds = _kinds_of(slot)
    free = facts.free(*kinds) if kinds else []
    if "date" in kinds:
        return _day(slot, facts, free)
    free = [mention for mention in free if mention.kind != "period" or mention.unit]
    return _shaped(facts.take(free[0]), free[0], slot) if free else NOTHING


def _given_id(slot: Slot, facts: Facts) -> Any:
    """A number or code that stands right behind the thing's name, or the only one when the identifier is bare."""
    thing = slot.thing[-1] if slot.thing else "id"
    for mention in facts.free("number", "code"):
        near = facts.before(mention.start, 2)
        if mention.text.isalpha():
            continue
        if (
            near[-1:] in ([thing], ["id"])
            or (near[-2:-1] == [thing] and near[-1] in _ID_LINKS)
            or facts.text[mention.start : mention.start + 1] == "#"
        ):
            return facts.take(mention)
    return NOTHING


def _kinds_of(slot: Slot) -> tuple[Kind, ...]:
    """Kinds of mention that a slot takes by its name and format, the likeliest first; empty: no saying."""
    words = set(slot.words)
    if slot.type in ("integer", "number"):
        return _number_kinds(words)
    if "email" in words or slot.format == "email":
        return ("email",)
    if words & {"phone", "mobile", "telephone", "tel", "whatsapp"}:
        return ("phone",)
    if words & {"url", "link", "website"} or slot.format == "uri":
        return ("url",)
    if slot.format in ("date", "date-time") or words & _DATE_WORDS or "YYYY-MM" in slot.description:
        return ("date", "period")
    if words & {"time", "hour", "clock"} or slot.format == "time" or "HH:MM" in slot.description:
        return ("time",)
    if words & {"code", "coupon", "voucher", "sku"}:
        return ("code", "quote")
    return ()


def _number_kinds(words: set[str]) -> tuple[Kind, ...]:
    if words & _PAGING:
        return ()
    if words & {"percent", "percentage", "discount"}:
        return ("percent",)
    if words & set(_UNITS_IN_DAYS) or "duration" in words:
        return ("duration", "period")
    if words & _MONEY_WORDS:
        return ("money",)
    return ()


def _shaped(value: Any, mention: Mention, slot: Slot) -> Any:
    """The mention's value as the slot counts: two weeks as 14 where it wants days."""
    if mention.kind == "period" and slot.type in ("integer", "number"):
        first, last = (date.fromisoformat(day) for day in value)
        return round((last - first).days / _UNITS_IN_DAYS[_unit(slot, "day")])
    if mention.kind == "duration" and slot.type in ("integer", "number"):
        return round(value * _UNITS_IN_DAYS[mention.unit] / _UNITS_IN_DAYS[_unit(slot, mention.unit)])
    if slot.type == "string" and mention.kind in ("number", "money", "phone"):
        return mention.text
    return value


def _unit(slot: Slot, otherwise: str) -> str:
    return next((unit for unit in _UNITS_IN_DAYS if unit in slot.words), otherwise)


def _day(slot: Slot, facts: Facts, free: list[Mention]) -> Any:
    words = set(slot.words)
    starts, ends = bool(words & _FROM_WORDS), bool(words & _TO_WORDS - {"due"})
    dates = [mention for mention in free if mention.kind == "date"]
    if dates and ends and not starts and len(dates) > 1:
        dates = dates[1:]
    if dates:
        return _written_day(facts.take(dates[0]), dates[0], slot)
    for mention in (one for one in facts.mentions if one.kind == "period"):
        if "YYYY-MM" in slot.description and "DD" not in slot.description:
            return mention.value[0][:7]
        if starts or ends:  # both ends of one period: it is not used up by the first
            return mention.value[1 if ends and not starts else 0]
    return NOTHING


def _written_day(value: str, mention: Mention, slot: Slot) -> str:
    """The date, or the word the user used where the slot takes such words: its owner knows best which day it is."""
    word = mention.text.lower()
    accepts = f"{slot.description} {slot.schema.get('pattern', '')}".lower()
    if word.isalpha() and re.search(rf"\b{word}\b", accepts):
        return word
    if "YYYY-MM" in slot.description and "DD" not in slot.description:
        return value[:7]
    time = "T00:00:00" if slot.format == "date-time" else ""
    return value + time


def _currency(slot: Slot, facts: Facts) -> Any:
    codes = currency_codes(facts.text)
    if not codes:
        return NOTHING
    target = bool({"to", "target", "into"} & set(slot.words))
    return codes[-1][1] if (target and len(codes) > 1) or not {"from", "to", "base"} & set(slot.words) else codes[0][1]


# Rule 4: an object's own fields, or a list of words


def _nested(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    if slot.type == "object" and slot.schema.get("properties") and slot.required:
        inner = KnownTool(name=slot.name, description=slot.description, schema=slot.schema)
        return fill(inner, facts).arguments or NOTHING
    return NOTHING


# Rule 5: "called X", "about X", "from X", a free name


def _by_phrase(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    if slot.choices or slot.is_id or slot.type not in ("string", "integer", "number"):
        return NOTHING
    if slot.type != "string":
        return _count(slot, facts)
    words = set(slot.words)
    if slot.is_search:
        return _name(slot, facts) if slot.required or not _READS_ALL.search(facts.text) else NOTHING
    if slot.is_naming:
        return _name(slot, facts)
    for pattern in _phrases(words):
        match = pattern.search(facts.text)
        if match and facts.is_free(*match.span("value")):
            facts.used.append(match.span("value"))
            return match["value"].strip(" .\"'")
    return NOTHING


_READS_ALL = re.compile(r"\b(?:all|every|everyone|everybody) \w+\W*$", re.IGNORECASE)
_SAYING = re.compile(
    r"(?::|\b(?:saying|that says|says|say|that)\b)\s+[\"“']?(?P<value>[^\"”]{2,}?)[\"”']?\W*$", re.IGNORECASE
)
_BECAUSE = re.compile(r"\b(?:because(?: of)?|due to|reason(?: is)?:?|since)\s+(?P<value>[^.,;]{2,})", re.IGNORECASE)
_ABOUT = re.compile(
    r"\b(?:about|regarding|concerning|interested in|on the subject of)\s+(?P<value>[^.,;]{2,})", re.IGNORECASE
)
_LOCATED = re.compile(r"\b(?:in|at|located in)\s+(?:the )?(?P<value>[A-Z][\w'-]*(?: [A-Z][\w'-]*)*)")


def _phrases(words: set[str]) -> list[re.Pattern[str]]:
    """The key phrases that introduce a slot's value, the surest first."""
    found = []
    if "reason" in words:
        found.append(_BECAUSE)
    if words & _TEXT_WORDS:
        found.append(_SAYING)
    if words & (_TEXT_WORDS | {"topic", "subject", "interest", "purpose"}) and "reason" not in words:
        found.append(_ABOUT)
    if words & {"city", "location", "place", "address", "country", "region"}:
        found.append(_LOCATED)
    return found


def _name(slot: Slot, facts: Facts) -> Any:
    found = allot((slot,), facts).get(slot.name)
    return NOTHING if found is None else str(facts.take(found))


def allot(slots: Sequence[Slot], facts: Facts) -> dict[str, Mention]:
    """Which name of the message belongs to which slot, by slot name: the best pair first, until names or slots run out."""
    free = facts.free("quote", "name", "code", "email")
    pairs = [
        (_belonging(mention, slot, facts), -order, -place, slot, mention)
        for order, slot in enumerate(slots)
        for place, mention in enumerate(free)
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
    score = 3.0 if near & thing else 0.0
    cue = (split_words(facts.text[: mention.start]) or [""])[-1]
    if slot.is_id:
        score += 1.0 if cue in _PERSON_CUES else -1.0 if cue in _TITLE_CUES else 0.0
        score += 0.5 if facts.text[mention.end : mention.end + 2] in ("'s", "’s") else 0.0
        return score - (0.3 if mention.kind == "email" else 0.0)
    score += 2.0 if cue in _TITLE_CUES else 0.0
    return score + (0.5 if mention.kind == "quote" else -0.3 if mention.kind == "email" else 0.0)


def _count(slot: Slot, facts: Facts) -> Any:
    """A number that stands next to one of the slot's words: "50 points", "capacity 20"; of paging: "top 5"."""
    words = set(slot.words)
    if words & _PAGING:
        match = re.search(r"\b(?:top|first|last|latest|only) (\d+)\b", facts.text, re.IGNORECASE)
        return int(match[1]) if match and "limit" in words else NOTHING
    free = facts.free("number", "percent")
    for mention in free:
        if words & {*facts.before(mention.start, 3), *facts.after(mention.end, 2)}:
            return facts.take(mention)
    is_spoken_of = not words.isdisjoint(stems(facts.text))
    return facts.take(free[0]) if len(free) == 1 and is_spoken_of else NOTHING


# What a required slot gets when no rule found anything


def _last_resort(slot: Slot, facts: Facts, tool: KnownTool) -> Any:
    if slot.is_id or slot.choices or slot.format or slot.type in ("boolean", "array", "object"):
        return slot.schema.get("default", NOTHING)
    if slot.type in ("integer", "number"):
        free = facts.free("number", "money", "duration", "percent")
        return _shaped(facts.take(free[0]), free[0], slot) if free else NOTHING
    if _kinds_of(slot):
        return NOTHING
    quotes = facts.free("quote", "name") if set(slot.words) & NAMING_WORDS else facts.free("quote")
    if quotes:
        return facts.take(quotes[0])
    return salient(facts, tool) or NOTHING


def salient(facts: Facts, tool: KnownTool | None = None) -> str:
    """The words of the message that nothing has used, without its verb, the tool's own words and small words at the ends."""
    own = set(tool.name_stems) if tool else set()
    kept = [
        match[0] for match in re.finditer(r"[^\s,;:.!?\"“”]+", facts.text) if facts.is_free(match.start(), match.end())
    ]
    while kept and _is_small(kept[0], own):
        kept.pop(0)
    while kept and _is_small(kept[-1], own):
        kept.pop()
    return " ".join(kept)


def _is_small(word: str, own: set[str]) -> bool:
    folded = re.sub(r"['’]s?$", "", fold(word))
    return folded in STOP_WORDS or stem(folded) in own or READ in VERBS.get(stem(folded), ()) or stem(folded) in VERBS


Rule = Callable[[Slot, Facts, KnownTool], Any]
