"""What a message mentions: names, dates, amounts and the like, each with its place in the text and a plain value."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal

from toolcaddie.samples.practice.words import STOP_WORDS, VERBS, fold, split_words, stem, words_of

Kind = Literal[
    "quote", "email", "url", "date", "period", "time", "duration", "money", "percent", "phone", "ordinal", "code",
    "number", "name",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A piece of the message from `start` to `end`.

    `value`: a date or time as ISO text, a period as a pair of them, a number for numbers, amounts, durations and ordinals
    (0 is the first, -1 the last), otherwise the text itself. `unit`: of a duration or counted period (`day`), an amount
    (`USD`).
    """

    kind: Kind
    text: str
    start: int
    end: int
    value: Any
    unit: str = ""

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


_NUMBER_NAMES = "zero one two three four five six seven eight nine ten eleven twelve"
_NUMBER_WORDS = {word: value for value, word in enumerate(_NUMBER_NAMES.split())}
_ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1, "1st": 0, "2nd": 1, "3rd": 2}
_CURRENCIES = {
    "$": "USD", "€": "EUR", "£": "GBP", "₹": "INR", "¥": "JPY", "dollar": "USD", "buck": "USD", "euro": "EUR",
    "pound": "GBP", "rupee": "INR", "yen": "JPY", "real": "BRL", "reais": "BRL", "peso": "MXN", "franc": "CHF",
    "dirham": "AED",
}  # fmt: skip
KNOWN_CURRENCIES = frozenset(_CURRENCIES.values())
_MONTHS = {name.lower(): n for n, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name.lower(): n for n, name in enumerate(calendar.month_abbr) if name and name != "May"}
_DAYS = {name.lower(): n for n, name in enumerate(calendar.day_name)}

_COUNT = rf"(?:\d{{1,4}}|{'|'.join(_NUMBER_WORDS)}|an?)"
_AMOUNT = r"\d{1,3}(?:,\d{3}){1,4}(?:\.\d{1,9})?|\d{1,15}(?:\.\d{1,9})?"
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DAY = "|".join(_DAYS)
_UNIT = r"minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?"


def find_mentions(
    text: str, *, today: date, known: Callable[[str], bool], common: Callable[[str], bool] | None = None
) -> tuple[Mention, ...]:
    """Every mention, in the order of the text, none overlapping another.

    `known` says of a stem that it stands in the name of a tool at hand: capitals do not make it a name then. `common`
    says that it stands anywhere in their descriptions: without capitals it is no name either.
    """
    taken: list[Mention] = []
    for finder in _FINDERS:
        for mention in finder(text, today):
            _take(mention, taken)
    for mention in _names(text, known, common or known):
        _take(mention, taken)
    return tuple(sorted(taken, key=lambda mention: mention.start))


def _take(mention: Mention, taken: list[Mention]) -> None:
    if all(mention.end <= other.start or other.end <= mention.start for other in taken):
        taken.append(mention)


def _plain(kind: Kind, pattern: str, flags: int = 0) -> Callable[[str, date], Iterator[Mention]]:
    """A finder whose value is the text of its one group, or all of it."""
    compiled = re.compile(pattern, flags)

    def find(text: str, today: date) -> Iterator[Mention]:
        for match in compiled.finditer(text):
            value = match[compiled.groups and 1].strip()
            yield Mention(kind=kind, text=value, start=match.start(), end=match.end(), value=value)

    return find


_ISO = re.compile(r"\b(\d{4})[-/](\d{1,2})[-/](\d{1,2})\b")
_SLASHED = re.compile(r"\b(\d{1,2})[/.](\d{1,2})[/.](\d{4})\b")
_NAMED_DATE = re.compile(
    rf"\b(?:(?P<m1>{_MONTH})\.? (?P<d1>\d{{1,2}})(?:st|nd|rd|th)?|(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m2>{_MONTH}))"
    r"(?:,? (?P<year>\d{4}))?\b",
    re.IGNORECASE,
)
_NEAR_DATE = re.compile(
    rf"\b(?P<day>today|tonight|tomorrow|yesterday)\b|\b(?:(?P<which>next|this|last|on) )?(?P<weekday>{_DAY})\b"
    rf"|\bin (?P<count>{_COUNT}) (?P<unit>days?|weeks?|months?)\b",
    re.IGNORECASE,
)


def _dates(text: str, today: date) -> Iterator[Mention]:
    for match in _ISO.finditer(text):
        yield from _date(match, int(match[1]), int(match[2]), int(match[3]))
    for match in _SLASHED.finditer(text):
        first, second = int(match[1]), int(match[2])
        day, month = (second, first) if second > 12 else (first, second)
        yield from _date(match, int(match[3]), month, day)
    for match in _NAMED_DATE.finditer(text):
        month = _MONTHS[(match["m1"] or match["m2"]).lower()]
        yield from _date(match, int(match["year"] or today.year), month, int(match["d1"] or match["d2"]))
    for match in _NEAR_DATE.finditer(text):
        day_found = _near(match, today)
        yield from _date(match, day_found.year, day_found.month, day_found.day)


def _date(match: re.Match[str], year: int, month: int, day: int) -> Iterator[Mention]:
    if year and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]:
        value = date(year, month, day).isoformat()
        yield Mention(kind="date", text=match[0], start=match.start(), end=match.end(), value=value)


def _near(match: re.Match[str], today: date) -> date:
    if match["day"]:
        return today + timedelta(days={"tomorrow": 1, "yesterday": -1}.get(match["day"].lower(), 0))
    if match["count"]:
        return shift(today, _count(match["count"]), match["unit"].lower().rstrip("s"))
    ahead = (_DAYS[match["weekday"].lower()] - today.weekday()) % 7
    which = (match["which"] or "").lower()
    if which == "last":
        return today - timedelta(days=7 - ahead if ahead else 7)
    return today + timedelta(days=ahead or (7 if which == "next" else 0))


def shift(day: date, count: int, unit: str) -> date:
    """`day` moved by so many days, weeks, months or years; the day of the month is cut to the month's end."""
    if unit in ("day", "week"):
        return day + timedelta(days=count * (7 if unit == "week" else 1))
    months = day.year * 12 + day.month - 1 + count * (12 if unit == "year" else 1)
    year, month = divmod(months, 12)
    year = min(max(year, 1), 9999)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


_PERIOD = re.compile(
    rf"\b(?P<which>this|next|last|past|previous|coming|current) (?:(?P<count>{_COUNT}) )?(?P<unit>days?|weeks?|months?|years?)\b"
    rf"|\bin (?P<month>{_MONTH})(?: (?P<year>[12]\d{{3}}))?\b",
    re.IGNORECASE,
)


def _periods(text: str, today: date) -> Iterator[Mention]:
    for match in _PERIOD.finditer(text):
        first, last = _period(match, today)
        value = (first.isoformat(), last.isoformat())
        unit = match["unit"].lower().rstrip("s") if match["count"] else ""
        yield Mention(kind="period", text=match[0], start=match.start(), end=match.end(), value=value, unit=unit)


def _period(match: re.Match[str], today: date) -> tuple[date, date]:
    if match["month"]:
        first = date(int(match["year"] or today.year), _MONTHS[match["month"].lower()], 1)
        return first, shift(first, 1, "month") - timedelta(days=1)
    which, unit = match["which"].lower(), match["unit"].lower().rstrip("s")
    if match["count"] or unit == "day":
        count = _count(match["count"] or "1")
        ahead = which in ("next", "coming")
        return (today, shift(today, count, unit)) if ahead else (shift(today, -count, unit), today)
    first = _begin(shift(today, {"next": 1, "coming": 1, "this": 0, "current": 0}.get(which, -1), unit), unit)
    return first, shift(first, 1, unit) - timedelta(days=1)


def _begin(day: date, unit: str) -> date:
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1, month=1 if unit == "year" else day.month)


_TIME = re.compile(
    r"\b(?P<h>\d{1,2})(?::(?P<m>\d{2}))?\s*(?P<half>am|pm)\b|\b(?P<h24>\d{1,2}):(?P<m24>\d{2})\b", re.IGNORECASE
)


def _times(text: str, today: date) -> Iterator[Mention]:
    for match in _TIME.finditer(text):
        hour, minute = int(match["h"] or match["h24"]), int(match["m"] or match["m24"] or 0)
        if match["half"]:
            hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
        if hour < 24 and minute < 60:
            value = f"{hour:02}:{minute:02}"
            yield Mention(kind="time", text=match[0], start=match.start(), end=match.end(), value=value)


_DURATION = re.compile(rf"\b(?P<count>{_COUNT})[ -](?P<unit>{_UNIT})\b", re.IGNORECASE)
_UNITS = {"min": "minute", "hr": "hour"}


def _durations(text: str, today: date) -> Iterator[Mention]:
    for match in _DURATION.finditer(text):
        unit = match["unit"].lower().rstrip("s")
        yield Mention(
            kind="duration", text=match[0], start=match.start(), end=match.end(),
            value=_count(match["count"]), unit=_UNITS.get(unit, unit),
        )  # fmt: skip


_MONEY = re.compile(
    rf"(?P<sign>[$€£₹¥])\s?(?P<n1>{_AMOUNT})|(?P<code1>\b[A-Z]{{3}})\s?(?P<n2>{_AMOUNT})\b"
    rf"|\b(?P<n3>{_AMOUNT})\s?(?:(?P<code2>[A-Z]{{3}})\b|(?P<word>dollar|buck|euro|pound|rupee|yen|real|reais|peso|franc|dirham)s?\b)"
)


def _money(text: str, today: date) -> Iterator[Mention]:
    for match in _MONEY.finditer(text):
        amount = number(match["n1"] or match["n2"] or match["n3"])
        unit = match["code1"] or match["code2"] or _CURRENCIES[match["sign"] or match["word"]]
        yield Mention(kind="money", text=match[0], start=match.start(), end=match.end(), value=amount, unit=unit)


def currency_codes(text: str) -> list[tuple[int, str]]:
    """Where the text names a currency, by code or by word, and its code; codes are three capitals, or follow from/to."""
    found = [(m.start(), m[1]) for m in re.finditer(r"(?<![A-Za-z])([A-Z]{3})(?![A-Za-z])", text)]
    found += [
        (m.start(), m[1].upper()) for m in re.finditer(r"\b(?:from|to|into|in) ([a-z]{3})\b(?! \w+s\b)", text)
        if m[1] not in STOP_WORDS
    ]  # fmt: skip
    for word, code in _CURRENCIES.items():
        pattern = rf"\b{word}s?\b" if word.isalpha() else re.escape(word)
        found += [(m.start(), code) for m in re.finditer(pattern, text, re.IGNORECASE)]
    return sorted(found)


_NUMBER = re.compile(
    rf"(?P<percent>(?P<p>{_AMOUNT})\s?(?:%|percent\b))|(?P<ordinal>\b(?:{'|'.join(_ORDINALS)})\b)"
    rf"|(?<![\w.])#?(?P<n>-?(?:{_AMOUNT}))(?![\w%])(?!\.\d)"
    rf"|\b(?P<word>{'|'.join(w for w in _NUMBER_WORDS if w != 'one')})\b",
    re.IGNORECASE,
)


def _numbers(text: str, today: date) -> Iterator[Mention]:
    for match in _NUMBER.finditer(text):
        kind: Kind = "number"
        if match["percent"]:
            kind, value = "percent", number(match["p"])
        elif match["ordinal"]:
            kind, value = "ordinal", _ORDINALS[match["ordinal"].lower()]
        else:
            value = number(match["n"]) if match["n"] else _NUMBER_WORDS[match["word"].lower()]
        yield Mention(kind=kind, text=match[0].lstrip("#"), start=match.start(), end=match.end(), value=value)


def _count(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBER_WORDS.get(text.lower(), 1)


def number(text: str) -> int | float:
    """A number as written, with or without thousands commas; whole ones as int."""
    value = float(text.replace(",", ""))
    return int(value) if value.is_integer() else value


_FINDERS: tuple[Callable[[str, date], Iterator[Mention]], ...] = (
    # The order decides who wins where two would overlap: what is marked beats what is guessed, the longer the shorter.
    _plain("quote", r"(?<!\w)[\"“”«']([^\"“”«»']{2,}?(?:['’]\w[^\"“”«»']*?)?)[\"“”»'](?!\w)"),
    _plain(
        "name",
        r"\b(?:called|named|titled)\s+(?![\"“'])([^,.;:\"?!]+?)(?=\s+(?:for|with|at|on|in|and|by|asking|saying|that|who|from|to|of|"
        r"as|due|starting|which|is)\b|[,.;:?!]|\s*$)",
    ),
    _plain("email", r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    _plain("url", r"\bhttps?://[^\s,;]+"),
    _dates,
    _periods,
    _times,
    _durations,
    _money,
    _plain("phone", r"(?<![\w-])\+?\(?\d[\d()\-. ]{5,}\d(?![\w-])"),
    _plain("code", r"\b(?=[A-Za-z-]*\d)(?=[\d-]*[A-Za-z])[A-Za-z\d]+(?:-[A-Za-z\d]+)*\b"),
    _plain("code", r"\b[A-Z]{4,}\b"),
    _numbers,
)

_CAPITAL = r"[^\W\d_a-z]\w*(?:['’](?!s\b)\w+)*"
_PARTICLE = r"(?:de|da|do|dos|van|von|der|den|la|del|di|bin|al)"
_NAME = re.compile(rf"(?<![\w'’])({_CAPITAL}(?:[ -](?:{_PARTICLE} )?{_CAPITAL})*)")
_SUBJECT = re.compile(r"['’]s\b| (?:has|have|had|is|was|will|just|wants?|needs?|\w+ed)\b")
"""What follows a name that begins a sentence, and no other word with a capital there."""

_LETTERS = re.compile(r"([^\W\d_]{2,})(['’]s\b)?")
_CUES = words_of("for of named called about to with from")
_NO_NAME = (
    words_of(
        "i i'm i'd it mr mrs ms dr what who that there here let he she how when where today tomorrow yesterday "
        "week month year everyone everybody someone"
    )
    | set(_MONTHS)
    | set(_DAYS)
)


def _names(text: str, known: Callable[[str], bool], common: Callable[[str], bool]) -> Iterator[Mention]:
    found = list(_capitalised(text, known))
    return iter(found or _uncommon(text, common))


def _uncommon(text: str, common: Callable[[str], bool]) -> Iterator[Mention]:
    """Names typed without capitals: words no tool knows, two or more in a row, or one with an 's or behind "for" and the like."""
    run: list[re.Match[str]] = []
    for match in [*_LETTERS.finditer(text), None]:
        follows = match is not None and run and not run[-1][2] and text[run[-1].end() : match.start()] == " "
        if run and not (follows and match and _may_be_name(match[1], common)):
            cue = (split_words(text[: run[0].start()]) or [""])[-1]
            if len(run) > 1 or run[-1][2] or cue in _CUES:
                yield _named(text[run[0].start() : run[-1].end(1)], run[0].start())
            run = []
        if match is not None and _may_be_name(match[1], common):
            run.append(match)


def _capitalised(text: str, known: Callable[[str], bool]) -> Iterator[Mention]:
    for match in _NAME.finditer(text):
        start, words = match.start(1), match[1]
        if _begins_sentence(text, start):
            first, _, rest = words.partition(" ")
            if not _may_be_name(first, known) or not (rest or _SUBJECT.match(text, match.end(1))):
                start, words = start + len(first) + 1, rest
        while words and (fold(words.split()[0]) in _NO_NAME or words[0].islower()):
            first, _, words = words.partition(" ")
            start += len(first) + 1
        if any(not known(stem(word)) for word in split_words(words)):
            yield _named(words, start)


def _named(text: str, start: int) -> Mention:
    return Mention(kind="name", text=text, start=start, end=start + len(text), value=text)


def _begins_sentence(text: str, position: int) -> bool:
    before = text[:position].rstrip()
    return not before or before[-1] in ".!?:\n"


def _may_be_name(word: str, known: Callable[[str], bool]) -> bool:
    folded = fold(word)
    return folded not in STOP_WORDS and folded not in _NO_NAME and stem(folded) not in VERBS and not known(stem(folded))
