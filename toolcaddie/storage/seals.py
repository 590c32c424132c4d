"""The hashes of the chain over the rows of the trail.

Each row has a link: the hash of its content and of the link of the row before. So a change of any row shows in the links of all
later rows. The link of the last row is in the head of the chain, and the head is sealed by a hash of its own. With a key, every
hash is an HMAC, which nobody without the key can make; without a key, the hashes are plain SHA-256.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from typing import Any

from toolcaddie.util.replacing import replace

MIN_KEY = 32
"""Smallest length of a key in bytes."""

_NUMBERS = struct.Struct(">qqdIII")
_PLACE = struct.Struct(">qqI")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The end of the chain. `position`: id of the last row; `link`: the link of that row."""

    trail: str
    """Random name of this trail, by which an anchor of another database is recognised."""
    first: int
    """Id of the first row of the chain. Rows with lower ids were written by versions without a chain."""
    position: int
    link: bytes
    key_id: str
    """Short name of the key; empty: the hashes are made without a key."""

    @property
    def is_unsealed(self) -> bool:
        """Returns True if no row was written since a migration made the chain. Only a head of a database that is older than the
        chain has no link."""
        return self.position < self.first and not (self.link or self.key_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Neighbouring rows that a pruning removed. `link`: the link of the last of them, with which the chain goes on."""

    first: int
    last: int
    link: bytes


class Sealer:
    """Makes the hashes of a chain. `key` None: without a key."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self.key_id = "" if key is None else self._hash(b"name").hex()[:16]

    def __repr__(self) -> str:
        return f"Sealer(key_id={self.key_id!r})"

    def start(self, trail: str, first: int) -> bytes:
        """Returns the link before the first row."""
        return self._hash(b"start", _PLACE.pack(first, 0, 0), _bytes(trail))

    def begun(self, head: Head) -> Head:
        """Returns the head of a chain without rows, to be sealed."""
        return replace(head, link=self.start(head.trail, head.first), key_id=self.key_id)

    def link(self, previous: bytes, row: tuple[int, str, int, float, str, str]) -> bytes:
        """Returns the link of a row. `row`: its id, `run_id`, `seq`, `at`, `kind` and `data`.

        Raises `TypeError`, `AttributeError` or `struct.error` for values of other types, which only a changed row can have.
        """
        position, run_id, seq, at, kind, data = row
        texts = run_id.encode(), kind.encode(), data.encode()
        numbers = _NUMBERS.pack(position, seq, at, *map(len, texts))
        return self._hash(b"row", previous, numbers, *texts)

    def head(self, head: Head) -> bytes:
        """Returns the seal of a head."""
        place = _PLACE.pack(head.first, head.position, len(head.link))
        return self._hash(b"head", place, head.link, _bytes(f"{head.trail}/{head.key_id}"))

    def gap(self, trail: str, gap: Gap) -> bytes:
        """Returns the seal of the record of removed rows."""
        return self._hash(b"gap", _PLACE.pack(gap.first, gap.last, len(gap.link)), gap.link, _bytes(trail))

    def _hash(self, kind: bytes, *parts: bytes) -> bytes:
        content = b"\0".join((kind, b"".join(parts)))
        if self._key is None:
            return hashlib.sha256(content).digest()
        return hmac.digest(self._key, content, "sha256")


def same(one: Any, other: Any) -> bool:
    """Returns True if two hashes are equal. The comparison takes the same time for all hashes."""
    return isinstance(one, bytes) and isinstance(other, bytes) and hmac.compare_digest(one, other)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
