"""Random ids, made many at a time: to read random bytes is a system call at which another thread takes the interpreter, and a
server makes an id for each request."""

from __future__ import annotations

import os

_BYTES = 16
_AT_ONCE = 32

_unused: list[str] = []
"""Ids that were made and not given out. Each is given out once, because taking one from a list is atomic."""


def random_id() -> str:
    """Returns 32 random hexadecimal digits, which nobody can guess. Safe for many threads."""
    try:
        return _unused.pop()
    except IndexError:
        digits = os.urandom(_BYTES * _AT_ONCE).hex()
        size = 2 * _BYTES
        own, *others = [digits[at : at + size] for at in range(0, len(digits), size)]
        _unused.extend(others)
        return own


if hasattr(os, "register_at_fork"):  # a copy of this process would give out the same ids
    os.register_at_fork(after_in_child=_unused.clear)
