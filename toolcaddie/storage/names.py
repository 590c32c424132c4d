"""Checks the kinds, keys and stream names of the store, and converts keys to and from the form in the tables.

PostgreSQL cannot store the character NUL in a text. So the characters 0 (NUL) and 1 are each stored as two other characters,
in a way that preserves the order of keys.
"""

from __future__ import annotations

from toolcaddie.core.errors import StorageError

MAX_KIND = 64
"""Largest number of characters of a kind."""
MAX_KEY = 512
"""Largest number of characters of a key. An index entry of PostgreSQL has at most 2,700 bytes, a character up to four."""

_LAST_BEFORE_SURROGATES = "\ud7ff"
_FIRST_AFTER_SURROGATES = "\ue000"
_LAST = "\U0010ffff"


def check_kind(kind: str) -> None:
    """Raises `StorageError` for a text that cannot be a kind."""
    if len(kind) > MAX_KIND or not kind.isascii() or "\0" in kind:
        raise StorageError(f"a kind is up to {MAX_KIND} ASCII characters without NUL, not {_abbreviated(kind)}")


def check_key(key: str) -> None:
    """Raises `StorageError` for a text that cannot be a key or the name of a stream."""
    if len(key) > MAX_KEY:
        raise StorageError(
            f"a key has up to {MAX_KEY} characters, and this one has {len(key):,}: {_abbreviated(key)}; use its digest"
        )
    if not key.isascii() and any("\ud800" <= character <= "\udfff" for character in key):
        raise StorageError(f"a key cannot hold half of a surrogate pair: {_abbreviated(key)}")


def stored_key(key: str) -> str:
    """Returns the key as it is stored. Raises `StorageError` for a text that cannot be a key."""
    check_key(key)
    return escaped(key)


def escaped(key: str) -> str:
    """Returns the same as `stored_key`, without a check of the key."""
    if "\0" not in key and "\1" not in key:
        return key
    return key.replace("\1", "\1\2").replace("\0", "\1\1")


def original_key(stored: str) -> str:
    """Returns the key that `stored_key` turned into this text."""
    return stored if "\1" not in stored else stored.replace("\1\1", "\0").replace("\1\2", "\1")


def after_prefix(prefix: str) -> str | None:
    """Returns the first text after all texts that begin with `prefix`; None: there is no such text."""
    prefix = prefix.rstrip(_LAST)
    if not prefix:
        return None
    last = prefix[-1]
    following = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else chr(ord(last) + 1)
    return prefix[:-1] + following


def _abbreviated(text: str) -> str:
    return ascii(text if len(text) <= MAX_KIND else f"{text[:MAX_KIND]}...")
