"""The document of a file: its newest version, and the earlier ones as differences.

An earlier version is what it has in place of the middle of the next one. So a day's log, to which a line is added at a time,
takes little more space with its versions than without, and a single document can be changed by one compare-and-set.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from toolcaddie.core.errors import StorageError
from toolcaddie.core.personas import Author, PersonaFile


class _Document(Struct, frozen=True, kw_only=True):
    newest: PersonaFile
    earlier: Raw = Raw(b"[]")
    """`_Earlier` versions, the newest first. They are decoded only if somebody wants them."""


class _Earlier(Struct, frozen=True, kw_only=True, omit_defaults=True):
    version: int
    at: float
    author: Author
    note: str = ""
    deleted: bool = False
    start: int
    """Number of characters with which this version and the next one begin alike."""
    end: int
    """Number of characters with which both end alike."""
    middle: str
    """The text between these."""


_encode = msgspec.json.Encoder().encode
_document = msgspec.json.Decoder(_Document)
_earlier = msgspec.json.Decoder(list[_Earlier])


def newest_of(document: bytes) -> PersonaFile:
    """Returns the newest version. Raises `StorageError` for a document that cannot be read."""
    return _decoded(document).newest


def versions_of(document: bytes) -> list[PersonaFile]:
    """Returns all versions, the oldest first. Raises `StorageError`."""
    stored = _decoded(document)
    versions, following = [stored.newest], stored.newest.text
    for each in _earlier_of(stored):
        following = following[: each.start] + each.middle + following[len(following) - each.end :]
        versions.append(_file(stored.newest.path, each, following))
    return versions[::-1]


def with_version(document: bytes | None, newest: PersonaFile, *, keep: int) -> bytes:
    """Returns the document with a further version. `keep`: the largest number of earlier versions; the oldest ones drop out."""
    if document is None:
        return _encode(_Document(newest=newest))
    stored = _decoded(document)
    earlier = [_difference(stored.newest, newest.text), *_earlier_of(stored)]
    return _encode(_Document(newest=newest, earlier=Raw(_encode(earlier[:keep]))))


def of_versions(versions: Sequence[PersonaFile]) -> bytes:
    """Returns the document of these versions, the oldest first."""
    document: bytes | None = None
    for version in versions:
        document = with_version(document, version, keep=len(versions))
    assert document is not None, "a document has at least one version"
    return document


def _difference(old: PersonaFile, following: str) -> _Earlier:
    start = _equal_characters(old.text, following)
    end = _equal_characters(old.text[start:][::-1], following[start:][::-1])
    return _Earlier(
        version=old.version,
        at=old.at,
        author=old.author,
        note=old.note,
        deleted=old.deleted,
        start=start,
        end=end,
        middle=old.text[start : len(old.text) - end],
    )


def _file(path: str, earlier: _Earlier, text: str) -> PersonaFile:
    return PersonaFile(
        path=path,
        text=text,
        version=earlier.version,
        at=earlier.at,
        author=earlier.author,
        note=earlier.note,
        deleted=earlier.deleted,
    )


def _equal_characters(one: str, other: str) -> int:
    """Returns the number of characters with which two texts begin alike, by halving, which compares whole pieces at once."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _decoded(document: bytes) -> _Document:
    try:
        return _document.decode(document)
    except msgspec.MsgspecError as error:
        raise StorageError(f"a persona file cannot be read: {error}") from error


def _earlier_of(stored: _Document) -> list[_Earlier]:
    try:
        return _earlier.decode(stored.earlier)
    except msgspec.MsgspecError as error:
        raise StorageError(f"the versions of {stored.newest.path} cannot be read: {error}") from error
