"""Reads YAML with the types of JSON. It takes the events of PyYAML's parser and makes the values itself, because PyYAML's own
loader crashes the process at deeply nested text, reads `no` as False and `2020-01-01` as a date, and a few lines of aliases can
stand for a billion values."""

from __future__ import annotations

import re
from typing import Any

import yaml

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_INTEGER = re.compile(r"[-+]?[0-9]{1,400}\Z")
_OTHER_BASE = re.compile(r"0o[0-7]{1,400}\Z|0x[0-9a-fA-F]{1,400}\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class _Builder:
    """Makes one value of a stream of events. Aliases share the value of their anchor, and count with its whole size."""

    def __init__(self, most: int, deepest: int) -> None:
        self._most, self._deepest = most, deepest
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._open: list[tuple[Any, str | None, int]] = []
        """Containers that are not complete, each with its anchor and the number of values before it."""
        self._keys: list[str | None] = []
        """For each open container the key that waits for its value."""
        self._size = 0
        self.value: Any = None

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._count(1)
            value = _scalar(event)
            self._keep(event.anchor, value, 1)
            self._place(value, event.value)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin({}, event.anchor)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin([], event.anchor)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            value, anchor, before = self._open.pop()
            self._keys.pop()
            self._keep(anchor, value, self._size - before)
            self._place(value, None)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise ValueError(f"the alias *{event.anchor[:40]} has no complete anchor before it")
            value, size = self._anchors[event.anchor]
            self._count(size)
            self._place(value, value if isinstance(value, str) else None)

    def _count(self, values: int) -> None:
        self._size += values
        if self._size > self._most:
            raise ValueError(f"it has more than {self._most:,} values")

    def _keep(self, anchor: str | None, value: Any, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)

    def _begin(self, container: Any, anchor: str | None) -> None:
        if len(self._open) >= self._deepest:
            raise ValueError(f"it has more than {self._deepest} nested levels")
        if self._open and isinstance(self._open[-1][0], dict) and self._keys[-1] is None:
            raise ValueError("a key is a list or an object; only texts are keys in JSON")
        self._open.append((container, anchor, self._size))
        self._keys.append(None)
        self._count(1)

    def _place(self, value: Any, text: str | None) -> None:
        """Puts a value into the open container; `text` is its text if it can be a key."""
        if not self._open:
            self.value = value
            return
        container = self._open[-1][0]
        if isinstance(container, list):
            container.append(value)
        elif (key := self._keys[-1]) is None:
            if text is None:
                raise ValueError("a key is a list or an object; only texts are keys in JSON")
            self._keys[-1] = text
        else:
            self._keys[-1] = None
            if key == "<<" and isinstance(value, dict):
                container.update({name: each for name, each in value.items() if name not in container})
            else:
                container[key] = value


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.style or not event.implicit[0]:  # in quotes, or with a tag
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        return int(text)
    if _OTHER_BASE.match(text):
        return int(text, 0)
    return float(text) if _FLOAT.match(text) else text


def load(text: str, *, most: int, deepest: int) -> Any:
    """Returns the value of a YAML text that has one document. Raises `ValueError`."""
    builder = _Builder(most, deepest)
    parser = _PARSER(text)
    documents = 0
    try:
        while parser.check_event():
            event = parser.get_event()
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                raise ValueError("it contains several documents")
            builder.take(event)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())[:300]) from error
    finally:
        parser.dispose()
    return builder.value
