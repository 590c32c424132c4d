"""Finds mentions in a user's message: names, dates, amounts and the like, each with its position in the text and a plain value.

The practice model, a model without a network for tests and demonstrations, fills arguments of tools with them. The patterns and
their named groups are in `english.toml`.
"""

from __future__ import annotations

import calendar
import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any, Literal

from toolcaddie.samples.practice.english import ENGLISH, STOPS, VERBS, listed, pattern, stem, stems, words

Kind = Literal[
    "quote", "email", "url", "date", "period", "time", "duration", "money", "percent", "phone", "ordinal", "code",
    "number", "name",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A piece of the message from `start` to `end`.

    `value`: a date or time as ISO text, a period as a pair of dates, a number for numbers, amounts, durations and ordinals
    (0 is the first, -1 the last), otherwise the text itself. `unit`: of a duration or counted period, such as "day".
    """

    kind: Kind
    text: str
    start: int
    end: int
    value: Any
    unit: str = ""


def mentions_of(
    text: str, *, today: date, name_stems: frozenset[str], tool_stems: frozenset[str]
) -> tuple[Mention, ...]:
    """Returns all mentions in the order of the text. They do not overlap.

    `name_stems`: stems of words in the names of the offered tools. Such a word is not a name, even if it is capitalised.
    `tool_stems`: stems of all words in the definitions of these tools. Such a word is not a name unless it is capitalised.
    """
    mentions: list[Mention] = []
    for kind, finder, value_of in _FINDERS:
        for match in finder.finditer(text):
            if _is_free(match.start(), match.end(), mentions):
                with contextlib.suppress(ValueError, OverflowError):  # an impossible day is not a date
                    mentions.append(_mention(kind, match, value_of(match, today)))
    for start, end in [*_capitalised(text, name_stems)] or [*_uncommon(text, tool_stems)]:
        if _is_free(start, end, mentions):
            mentions.append(Mention(kind="name", text=text[start:end], start=start, end=end, value=text[start:end]))
    return tuple(sorted(mentions, key=lambda mention: mention.start))


def _is_free(start: int, end: int, mentions: list[Mention]) -> bool:
    return all(end <= mention.start or mention.end <= start for mention in mentions)


def _mention(kind: Kind, match: re.Match[str], value: Any) -> Mention:
    """Returns the mention of a match. The groups of its pattern may name the text, the unit and the count."""
    parts = match.groupdict()
    text = (parts.get("text") or match[0]).strip(" #")
    unit = _unit(parts["unit"]) if parts.get("unit") and parts.get("count") else ""
    return Mention(kind=kind, text=text, start=match.start(), end=match.end(), value=value, unit=unit)


# Functions that return the value of a match. `today` is the current day. They raise ValueError for an impossible value.

_NUMBER_NAMES = words(ENGLISH["words"]["numbers"])
_ORDINALS, _CURRENCIES = ENGLISH["ordinals"], ENGLISH["currencies"]
_MONTHS = {
    name.lower(): number for names in (calendar.month_name, calendar.month_abbr) for number, name in enumerate(names)
}
del _MONTHS[""]
_DAYS = [name.lower() for name in calendar.day_name]


def _text(match: re.Match[str], today: date) -> str:
    return (match.groupdict().get("text") or match[0]).strip()


def _number(match: re.Match[str], today: date) -> int | float:
    return number_of(match["n"] or match["n2"])


def number_of(text: str) -> int | float:
    """Returns a number from a word or digits with thousands separators; a whole one as int."""
    if text.lower() in _NUMBER_NAMES:
        return _NUMBER_NAMES.index(text.lower())
    value = float(text.replace(",", ""))
    return int(value) if value.is_integer() else value


def _count(match: re.Match[str], today: date) -> int:
    return int(number_of(match["count"])) if (match["count"] or "a").lower() not in ("a", "an") else 1


def _ordinal(match: re.Match[str], today: date) -> int:
    return int(_ORDINALS[match[0].lower()])


def _unit(text: str) -> str:
    unit = text.lower().rstrip("s")
    return {"min": "minute", "hr": "hour"}.get(unit, unit)


def _date(match: re.Match[str], today: date) -> str:
    """Returns the date of "tomorrow", "next Friday", "in two weeks", "3 May", "2026-05-03" or "5/3/2026" as YYYY-MM-DD. In the
    last form the month comes first only if the second number is above 12; otherwise the day does."""
    parts = match.groupdict()
    if parts["near"]:
        return str(today + timedelta(days={"tomorrow": 1, "yesterday": -1}.get(parts["near"].lower(), 0)))
    if parts["weekday"]:
        return str(_weekday(today, _DAYS.index(parts["weekday"].lower()), (parts["which"] or "").lower()))
    if parts["count"]:
        return str(_moved(today, _count(match, today), _unit(parts["unit"])))
    if parts["month"] or parts["month2"]:
        month = _MONTHS[(parts["month"] or parts["month2"]).lower()]
        return str(date(int(parts["year"] or today.year), month, int(parts["day"] or parts["day2"])))
    if parts["iso"]:
        return str(date(*map(int, re.split("[-/]", parts["iso"]))))
    first, second, year = map(int, re.split("[/.]", parts["slashed"]))
    return str(date(year, first, second) if second > 12 else date(year, second, first))


def _weekday(today: date, weekday: int, direction: str) -> date:
    """Returns the date of a weekday (0: Monday). `direction`: "last" for the one before today, "next" for the one after today;
    otherwise today counts too."""
    ahead = (weekday - today.weekday()) % 7
    if direction == "last":
        return today - timedelta(days=7 - ahead)
    return today + timedelta(days=ahead or (7 if direction == "next" else 0))


def _moved(day: date, count: int, unit: str) -> date:
    """Returns the day after so many days, weeks, months or years; the day of the month is limited to the month's end."""
    if unit in ("day", "week"):
        return day + timedelta(days=count * (7 if unit == "week" else 1))
    year, month = divmod(day.year * 12 + day.month - 1 + count * (12 if unit == "year" else 1), 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _period(match: re.Match[str], today: date) -> tuple[str, str]:
    """Returns the first and the last day of a month ("in May"), of a number of units ("the last 10 days"), or of the week, month
    or year before, after or around today ("this week")."""
    if match["month"]:
        first = date(int(match["year"] or today.year), _MONTHS[match["month"].lower()], 1)
        return str(first), str(_moved(first, 1, "month") - timedelta(days=1))
    direction, unit = match["which"].lower(), _unit(match["unit"])
    if match["count"] or unit == "day":
        ahead = direction in ("next", "coming")
        other = _moved(today, _count(match, today) if ahead else -_count(match, today), unit)
        return (str(today), str(other)) if ahead else (str(other), str(today))
    near = _moved(today, {"next": 1, "coming": 1, "this": 0, "current": 0}.get(direction, -1), unit)
    first = near - timedelta(days=near.weekday()) if unit == "week" else near.replace(day=1)
    first = first.replace(month=1) if unit == "year" else first
    return str(first), str(_moved(first, 1, unit) - timedelta(days=1))


def _time(match: re.Match[str], today: date) -> str:
    hour, minute = int(match["hour"] or match["hour24"]), int(match["minute"] or match["minute24"] or 0)
    if match["half"]:
        hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
    return time(hour, minute).strftime("%H:%M")


_PARTS = {
    "months": "|".join(sorted(_MONTHS, key=len, reverse=True)),
    "days": "|".join(_DAYS),
    "numbers": "|".join(_NUMBER_NAMES),
    "ordinals": "|".join(_ORDINALS),
    "coins": "|".join(name for name in _CURRENCIES if name.isalpha()),
    "codes": "|".join(sorted(set(_CURRENCIES.values()))),
}
_CURRENCY = pattern("currency", **_PARTS)


def currencies(text: str) -> list[tuple[int, str]]:
    """Returns the places of currencies in the text, by code, sign or word, and the code of each."""
    hits = ((match.start(), match["code"], match["sign"] or match["word"]) for match in _CURRENCY.finditer(text))
    return [(start, code.upper() if code else _CURRENCIES[name.lower()]) for start, code, name in hits]


_READERS: dict[str, Callable[[re.Match[str], date], Any]] = {
    "date": _date, "period": _period, "time": _time, "duration": _count, "money": _number, "percent": _number,
    "ordinal": _ordinal, "number": _number,
}  # fmt: skip
_FINDERS = [(kind, pattern(kind, "mentions", **_PARTS), _READERS.get(kind, _text)) for kind in ENGLISH["mentions"]]

# Names

_CAPITAL = r"[^\W\d_a-z]\w*(?:['’](?!s\b)\w+)*"
_NAME = re.compile(
    rf"(?<![\w'’])({_CAPITAL}(?:[ -](?:(?:de|da|do|dos|van|von|der|den|la|del|di|bin|al) )?{_CAPITAL})*)"
)
_SUBJECT = pattern("subject")
"""Text whose presence after the first word of a sentence shows that this capitalised word is a name."""
_LETTERS = re.compile(r"([^\W\d_]{2,})(['’]s\b)?")
_CUES = listed("name_cues")
_NO_NAME = {*words(ENGLISH["words"]["no_name"]), "i'm", "i'd", *_MONTHS, *_DAYS}


def _capitalised(text: str, name_stems: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yields the positions of names: capitalised words, except for one that is capitalised only because it begins a sentence, and
    except for words of tools' names."""
    for match in _NAME.finditer(text):
        start, end = match.span(1)
        first, *other_words = match[1].split(" ")
        if _begins_sentence(text, start) and (
            not _may_be_name(first, name_stems) or not (other_words or _SUBJECT.match(text, end))
        ):
            start += len(first) + 1
        while start < end and (_is_no_name(first := text[start:end].split(" ", maxsplit=1)[0]) or first.islower()):
            start += len(first) + 1
        if start < end and not name_stems.issuperset(stems(text[start:end])):
            yield start, end


def _uncommon(text: str, tool_stems: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yields the positions of names typed without capitals: two or more words in a row that no tool uses, or one such word with
    an 's or after a word like "for"."""
    run: list[re.Match[str]] = []
    for match in [*_LETTERS.finditer(text), None]:
        is_name = match is not None and _may_be_name(match[1], tool_stems)
        follows = match and run and not run[-1][2] and text[run[-1].end() : match.start()] == " "
        if run and not (follows and is_name):
            start = run[0].start()
            cue = words(text[max(0, start - 20) : start])[-1:]
            if len(run) > 1 or run[-1][2] or not _CUES.isdisjoint(cue):
                yield start, run[-1].end(1)
            run = []
        run += [match] if match and is_name else []


def _begins_sentence(text: str, position: int) -> bool:
    before = text[:position].rstrip()
    return not before or before[-1] in ".!?:\n"


def _may_be_name(word: str, common: frozenset[str]) -> bool:
    return not _is_no_name(word) and stem(word.lower()) not in VERBS and stem(word.lower()) not in common


def _is_no_name(word: str) -> bool:
    return word.lower() in STOPS or word.lower() in _NO_NAME
