"""Telephone numbers in the form of E.164 (`+525512345678`), as people and models write them and as logs may show them."""

from __future__ import annotations

import re

import phonenumbers
from phonenumbers import NumberParseException, PhoneNumberFormat, PhoneNumberType

_MOST_CHARACTERS = 40
_WRITTEN = re.compile(r"\+[0-9][0-9 ().\-/]*")
"""A number with its country code. Signs of other alphabets, extensions and addresses such as `tel:` are none."""
_LAST = 3
"""Digits of a number that may be shown."""

_NO_COUNTRY = "001"
"""Stands for numbers that belong to no country, such as those of satellites."""
_COSTLY = frozenset({PhoneNumberType.PREMIUM_RATE, PhoneNumberType.SHARED_COST})


class NumberError(Exception):
    """A text that is no number that could be called; the message says why."""


def e164(text: str) -> str:
    """Returns a number in the form of E.164. Raises `NumberError` for one that does not exist or costs more than a call."""
    written = text.strip()
    if len(written) > _MOST_CHARACTERS or not _WRITTEN.fullmatch(written):
        raise NumberError("it must begin with + and the country code, and have only digits after it: +525512345678")
    try:
        number = phonenumbers.parse(written, None)
    except NumberParseException as error:
        raise NumberError("it has no known country code") from error
    if not phonenumbers.is_valid_number(number):
        raise NumberError("there is no such number in its country; check its digits")
    if phonenumbers.number_type(number) in _COSTLY:
        raise NumberError("it is a number at a special rate, and such numbers are never called")
    return phonenumbers.format_number(number, PhoneNumberFormat.E164)


def country_of(number: str) -> str:
    """Returns the country of a number as two letters (`MX`); of a number of no country, its country code (`+800`)."""
    parsed = phonenumbers.parse(number, None)
    region = phonenumbers.region_code_for_number(parsed)
    return f"+{parsed.country_code}" if region in (None, _NO_COUNTRY) else region


def is_country(name: str) -> bool:
    """Returns True for the two letters of a country that has telephone numbers."""
    return name in phonenumbers.SUPPORTED_REGIONS


def masked(number: str) -> str:
    """Returns a number of which only the last three digits can be read."""
    return f"•••{number[-_LAST:]}"
