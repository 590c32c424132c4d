"""The values of secrets that this process knows, such as keys of providers, and their removal from everything that it shows or
stores.

A part that reads a secret adds it to `KNOWN`; `parts.Secrets` does so for every variable that settings or plugins name. There is
one collection for the process, because a secret of one runtime must not appear in the log or trail of another one either.

A secret is found in plain text, and in the forms in which other programs write it: in URLs, in JSON, in JSON within JSON, in
HTML, in hexadecimal, and in base64, also as a part of a longer text that was encoded as a whole, and with line breaks.
"""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, TypeVar
from urllib.parse import quote, quote_plus

import msgspec

from toolcaddie.core.content import Audio, Image, Resource, Video
from toolcaddie.core.delivery import DeliveredTool, Delivery
from toolcaddie.core.message import RawBody
from toolcaddie.core.selection import SelectedTool, Selection
from toolcaddie.core.tool import Tool
from toolcaddie.util.lazy import LazySequence

_MEDIA = Image | Audio | Video | Resource

T = TypeVar("T")

REDACTED = "[redacted]"

SHORTEST = 8
"""Number of characters from which on a value is searched for. A shorter one, such as `test`, also occurs by chance."""
_SHORTEST_PART = 8
"""Smallest number of characters of base64 that is searched for."""


_ENDS = tuple((end, re.compile(rf"{re.escape(end)}(?<=[A-Za-z0-9+/_-]{{16}}{re.escape(end)})")) for end in "\n\r\\")
"""The first character of a line break, and the end of a line of base64. A text without one holds no base64 in several lines.
Three patterns, because a search for one character is faster."""
_BREAK = re.compile(r"(?:\r\n|\r|\n|\\r\\n|\\n)[ \t]*")
"""A line break, as it is or as JSON escapes it. In folded headers the next line begins with spaces."""
_WRAPPED = re.compile(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{16,}}+(?:{_BREAK.pattern}[A-Za-z0-9+/_-]++=*+)+")
"""Base64 in several lines, as mail and certificates have it."""


class KnownSecrets:
    """Secrets, and the removal of their values from texts and values. Any thread may add some."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._adding = threading.Lock()
        self._values: frozenset[str] = frozenset()
        self._forms: tuple[str, ...] = ()
        """Texts to remove, the longest first."""
        self._starts: frozenset[str] = frozenset()
        """The first characters of each of these texts."""
        self._beginnings: frozenset[str] = frozenset()
        """The beginnings of these texts; empty until a stream is split."""
        self.add(*values)

    def __repr__(self) -> str:
        return f"KnownSecrets({len(self._values)})"

    def add(self, *values: str | None) -> None:
        """Adds secrets. Values that are shorter than 8 characters are ignored."""
        new = {value for value in values if value is not None and len(value.strip()) >= SHORTEST} - self._values
        if not new:
            return
        with self._adding:
            forms = {*self._forms, *(form for value in new for form in _forms(value))}
            self._values |= new
            # First, so that a thread that sees the new forms sees their beginnings too.
            self._starts = frozenset(form[:SHORTEST] for form in forms)
            self._beginnings = frozenset()
            self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    @property
    def longest(self) -> int:
        """Returns the number of characters of the longest form of a secret."""
        return len(self._forms[0]) if self._forms else 0

    def redact(self, text: str) -> str:
        """Returns the text without the secrets. A block of lines whose base64 holds a secret is removed as a whole."""
        if not self._forms:
            return text
        if self._may_hold(text):
            for form in self._forms:
                if form in text:
                    text = text.replace(form, REDACTED)
        has_end = "\n" in text or "\r" in text or "\\" in text
        if has_end and any(end in text and pattern.search(text) for end, pattern in _ENDS):
            text = _WRAPPED.sub(self._without_wrapped, text)
        return text

    def _without_wrapped(self, block: re.Match[str]) -> str:
        joined = _BREAK.sub("", block[0])
        return REDACTED if any(form in joined for form in self._forms) else block[0]

    def _may_hold(self, text: str) -> bool:
        """Returns False if no secret is in the text. It looks at each place of a short text, which takes less time than to search
        for each of many forms."""
        if len(text) >= len(self._forms):
            return True
        return any(text[place : place + SHORTEST] in self._starts for place in range(len(text) - SHORTEST + 1))

    def redact_bytes(self, content: bytes) -> bytes:
        """Returns the content without the secrets, if it is text; other content is returned as it is."""
        if not self._forms or not content:
            return content
        try:
            return self.redact(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def clean(self, value: T) -> T:
        """Returns a copy of a value, such as an event, without the secrets in its texts; the same value if there are none.

        Names and definitions of tools are not searched, because they come from the sources and not from a run, nor are pictures
        and sounds.
        """
        if not self._forms:
            return value
        texts: list[str] = []
        holders: set[int] = set()
        _collect(value, texts.append, holders)
        text = "\0".join(texts)
        cleaned: T = value  # nearly always, so that nothing has to be copied
        if self.redact(text) != text:
            cleaned = self._clean(value)
        elif holders:
            cleaned = self._with_clean_body(value, holders)
        return cleaned

    def _with_clean_body(self, value: Any, holders: Collection[int]) -> Any:
        """Returns a copy of a value whose texts have no secrets. The `RawBody`s and `LazySequence`s in it are cleaned when they
        are read, because only then they are made. `holders`: the ids of the values that are or have one."""
        if id(value) not in holders:
            return value
        names = _searched(value.__class__)
        if not isinstance(names, tuple):
            return self._clean(value)
        changes = {
            name: clean
            for name in names
            if (clean := self._with_clean_body(old := getattr(value, name), holders)) is not old
        }
        return _changed(value, changes)

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, bytes):
            return self.redact_bytes(value)
        if isinstance(value, RawBody):
            return RawBody(wire=value.wire, fields=lambda: self._clean(value.fields))
        if isinstance(value, LazySequence):
            return LazySequence(lambda: self._clean(tuple(value)))
        if isinstance(value, Mapping):
            items = {self._clean(name): self._clean(item) for name, item in value.items()}
            return value if all(value.get(name) is item for name, item in items.items()) else items
        if isinstance(value, tuple | list):
            clean = [self._clean(item) for item in value]
            return value if all(map(_is, clean, value)) else type(value)(clean)
        names = _fields(value.__class__)
        if not names:
            return value
        changes = {name: clean for name in names if (clean := self._clean(old := getattr(value, name))) is not old}
        return _changed(value, changes) if changes else value

    def split(self, text: str) -> tuple[str, str]:
        """Returns the part of a streamed text that may be shown, without the secrets in it, and the end that may belong to a
        secret and must be split again together with what follows.

        The end is withheld even if it contains a whole secret, because that may be the beginning of a longer one.
        """
        if not self._forms:
            return text, ""
        cut = len(text) - self._beginning_at_end(text)
        while (earlier := self._start_of_divided(text, cut)) < cut:
            cut = earlier
        return self.redact(text[:cut]), text[cut:]

    def _beginning_at_end(self, text: str) -> int:
        """Returns the number of characters at the end of a text that may be the beginning of a secret."""
        if not self._beginnings:
            self._beginnings = frozenset(form[:size] for form in self._forms for size in range(1, len(form)))
        sizes = range(min(len(text), self.longest - 1), 0, -1)
        return next((size for size in sizes if text[-size:] in self._beginnings), 0)

    def _start_of_divided(self, text: str, cut: int) -> int:
        """Returns where a secret begins that a cut would divide; `cut` if there is none."""
        if cut == len(text):
            return cut
        places = (text.find(form, max(0, cut - len(form) + 1), cut + len(form) - 1) for form in self._forms)
        return min((place for place in places if place >= 0), default=cut)


KNOWN = KnownSecrets()
"""The secrets of this process."""


def _is(one: object, other: object) -> bool:
    return one is other


def _collect(value: Any, add: Callable[[str], None], holders: set[int]) -> bool:
    """Passes all texts of a value that are searched to `add`. If the value is or has a `RawBody` or a `LazySequence`, returns
    True, and adds the ids of the value and of those in it that have one to `holders`."""
    searched = _searched(value.__class__)
    if isinstance(searched, tuple):
        items: Iterable[Any] = [getattr(value, name) for name in searched]
    elif searched == "items":
        items = value
    elif searched == "mapping":
        items = (*value, *value.values())
    elif searched == "text":
        add(value)
        return False
    elif searched == "bytes":
        add(value.decode("utf-8", "replace"))
        return False
    else:
        holders.add(id(value))
        return True
    found = False
    for item in items:
        kind = item.__class__
        if kind is str:
            add(item)
        elif kind not in _WITHOUT_TEXT and _searched(kind) and _collect(item, add, holders):
            found = True
    if found:
        holders.add(id(value))
    return found


_WITHOUT_TEXT = frozenset({int, float, bool, type(None)})
"""Types of values without a text."""


@cache
def _searched(kind: type) -> tuple[str, ...] | Literal["text", "items", "mapping", "bytes", "later"]:
    """Returns where the texts of values of a type are: the names of the fields, or what else it is."""
    names = _fields(kind)
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, bytes):
        return "bytes"
    if issubclass(kind, RawBody | LazySequence):
        return "later"
    if issubclass(kind, Mapping):
        return "mapping"
    return "items" if issubclass(kind, tuple | list) else names


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """Returns the names of the fields of a dataclass or struct whose values are searched."""
    if issubclass(kind, Tool | DeliveredTool):
        return ()
    if issubclass(kind, SelectedTool):
        return ("reasons",)
    unsearched = next((name for kinds, name in _UNSEARCHED.items() if issubclass(kind, kinds)), "")
    return tuple(name for name in _all_fields(kind) if name != unsearched)


_UNSEARCHED: Mapping[Any, str] = {Delivery: "definitions", Selection: "dropped", _MEDIA: "data"}
"""Fields without a text of a run."""


def _all_fields(kind: type) -> tuple[str, ...]:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    return (
        tuple(field.name for field in dataclasses.fields(kind) if field.init) if dataclasses.is_dataclass(kind) else ()
    )


def _changed(value: Any, changes: Mapping[str, Any]) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changes)
    return dataclasses.replace(value, **changes)


def _forms(value: str) -> Iterator[str]:
    """Yields the forms in which a secret may be written."""
    plain = value.strip()
    for text in {value, plain}:
        yield text
        for ascii_only in (True, False):
            escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            yield escaped
            yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]
        yield repr(text)[1:-1]
        yield html.escape(text)
    raw = plain.encode("utf-8", "surrogatepass")
    for encoded in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield encoded
        yield _lower_escapes(encoded)
    yield raw.hex()
    yield raw.hex().upper()
    yield from _base64(raw)


def _lower_escapes(text: str) -> str:
    """Returns a text of a URL with its escapes in small letters: `%2F` becomes `%2f`."""
    first, *rest = text.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _base64(raw: bytes) -> Iterator[str]:
    """Yields what base64 makes of the secret, alone and within a longer text. There the characters at both ends depend on the
    neighbours, so they are omitted: three texts are left, for the three places at which the secret may begin."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(raw).decode().rstrip("=")
        for before in range(3):
            encoded = encode(b"\0" * before + raw).decode()
            start = -(-before * 8 // 6)
            end = (before + len(raw)) * 8 // 6
            if end - start >= _SHORTEST_PART:
                yield encoded[start:end]
