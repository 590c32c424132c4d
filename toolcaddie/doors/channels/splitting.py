"""Splits long answers for services that limit the length of a message.

    split("one two three", 8) == ["one two", "three"]

Lengths are counted in UTF-16 units, as Telegram and WhatsApp count them: an emoji has two.
"""

from __future__ import annotations

_BORDERS = ("\n\n", "\n", " ")
"""The places at which a text is split, the best first."""
_SMALLEST_SHARE = 0.5
"""A border is used only if the part before it has at least this share of the longest length."""
_UNIT_OF_PLANE = 0x10000


def split(text: str, longest: int) -> list[str]:
    """Returns the parts of a text, none longer than `longest`, split at the end of a paragraph, a line or a word where there is
    one. Blanks at the borders are dropped; a text of blanks has no parts."""
    parts: list[str] = []
    rest = text.strip()
    while rest:
        head = _head(rest, longest)
        if len(head) < len(rest):
            head = head[: _border(head, rest)]
        parts.append(head.rstrip())
        rest = rest[len(head) :].lstrip()
    return parts


def units(text: str) -> int:
    """Returns the length of a text in UTF-16 units."""
    return len(text) + sum(1 for character in text if ord(character) >= _UNIT_OF_PLANE)


def _head(text: str, longest: int) -> str:
    """Returns the longest beginning of a text that has at most `longest` units, and at least one character."""
    head = text[:longest]
    while (excess := units(head) - longest) > 0 and len(head) > 1:
        head = head[: -max(1, excess // 2)]
    return head


def _border(head: str, text: str) -> int:
    """Returns the number of characters of `head` before the best place to split `text`."""
    for border in _BORDERS:
        if text.startswith(border, len(head)):
            return len(head)
        place = head.rfind(border)
        if place >= len(head) * _SMALLEST_SHARE:
            return place
    return len(head)
