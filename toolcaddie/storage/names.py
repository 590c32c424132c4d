"""Kinds, keys and streams as the tables hold them.

PostgreSQL stores no NUL in a text. NUL becomes two other characters, in a way that preserves the order of keys.
"""

from __future__ import annotations

from toolcaddie.core.errors import StorageError

MAX_KIND = 64
MAX_KEY = 512
"""Characters. PostgreSQL's indexes hold 2,700 bytes, and a character takes up to four of them."""

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
            f"a key has up to {MAX_KEY} characters, this one {len(key):,}: {_abbreviated(key)}; store its digest"
        )
    if not key.isascii() and any("\ud800" <= character <= "\udfff" for character in key):
        raise StorageError(f"a key cannot hold half of a surrogate pair: {_abbreviated(key)}")


def stored_key(key: str) -> str:
    """Returns the key as it is stored. Raises `StorageError` for a text that cannot be a key."""
    check_key(key)
    return escaped(key)


def escaped(key: str) -> str:
    if "\0" not in key and "\1" not in key:
        return key
    return key.replace("\1", "\1\2").replace("\0", "\1\1")


def original_key(stored: str) -> str:
    """Returns the key that `stored_key` turned into this text."""
    return stored if "\1" not in stored else stored.replace("\1\1", "\0").replace("\1\2", "\1")


def after_prefix(prefix: str) -> str | None:
    """Returns the first text after all that begin with `prefix`; None: every later text begins with it."""
    prefix = prefix.rstrip(_LAST)
    if not prefix:
        return None
    last = prefix[-1]
    following = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else chr(ord(last) + 1)
    return prefix[:-1] + following


def _abbreviated(text: str) -> str:
    return ascii(text if len(text) <= MAX_KIND else f"{text[:MAX_KIND]}...")
