"""Checks of everything that names a file or a chat of a bot, and the size of a file.

checked_path("memory/2026-05-03.md")  # the same path
checked_path("../SOUL.md")  # raises RequestError
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date

from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import GOALS, IDENTITY, LOGS, MOTIVATIONS, NOTES, SOUL

MOST_BYTES = 256 * 1024
"""The largest size of a file in UTF-8."""
MOST_FILES = 5_000
"""The largest number of files of a bot: one log a day for more than ten years."""
FILES = (SOUL, IDENTITY, GOALS, MOTIVATIONS)
"""The files that a persona has at most once."""

_LONGEST_PATH = 200
_LONGEST_OWNER = 250
_LONGEST_CHAT = 250
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_FORMS = f"{', '.join(FILES)}, {LOGS}YYYY-MM-DD.md, or {NOTES} and a name that ends with .md"


def checked_path(path: str) -> str:
    """Returns the path of a persona file, with its letters in their composed form. Raises `RequestError` for any other path."""
    path = unicodedata.normalize("NFC", path)
    if not is_path(path):
        raise RequestError(f"{path[:100]!r} is not the path of a persona file; name {_FORMS}", param="path")
    return path


def is_path(path: str) -> bool:
    """Returns True for a path that a persona file may have."""
    if len(path) > _LONGEST_PATH or has_controls(path):
        return False
    if path.startswith(LOGS):
        return _is_day(path.removeprefix(LOGS))
    folders = path.split("/")
    is_plain = all(part == part.strip() and part and not part.startswith(".") for part in folders)
    return path in FILES or (path.startswith(NOTES) and is_plain and "\\" not in path and path.endswith(".md"))


def checked_text(path: str, text: str) -> str:
    """Returns the text of a file. Raises `RequestError` if it is too long or cannot be stored."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise RequestError(f"{path} cannot be stored: it has half of a surrogate pair", param="text") from None
    if size > MOST_BYTES:
        raise RequestError(
            f"{path} would have {size:,} bytes; at most {MOST_BYTES:,} are allowed", param="text", code="too_long"
        )
    return text


def owner_prefix(tenant: str, bot: str) -> str:
    """Returns the beginning of the keys of everything that a bot of a tenant has. Raises `RequestError`."""
    if not bot or has_controls(tenant + bot) or len(tenant) + len(bot) > _LONGEST_OWNER:
        raise RequestError(f"there is no bot {bot[:64]!r} that could have files or chats", param="bot")
    return f"{tenant}\0{bot}\0"


def checked_chat(name: str) -> str:
    """Returns the name of a chat. Raises `RequestError`."""
    if not name or has_controls(name) or len(name) > _LONGEST_CHAT:
        raise RequestError(
            f"the name of a chat has 1 to {_LONGEST_CHAT} characters without control characters, not {name[:64]!r}",
            param="chat",
        )
    return name


def has_controls(text: str) -> bool:
    """Returns True if a text has control characters, invisible ones, or halves of surrogate pairs."""
    if text.isascii():
        return not text.isprintable()
    return any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text)


def _is_day(name: str) -> bool:
    day = name.removesuffix(".md")
    try:
        return name.endswith(".md") and _DAY.fullmatch(day) is not None and bool(date.fromisoformat(day))
    except ValueError:
        return False
