"""Makes a schema smaller: without some keywords, and with shorter descriptions."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from toolcaddie.core.schema.encoding import shorten
from toolcaddie.sources.openapi.keywords import NAMED, PLAIN

_MAPS = frozenset({*NAMED, "$defs"})
_DATA = frozenset({*PLAIN, "required", "type", "$ref"})


class Cut(Struct, frozen=True, kw_only=True):
    """What a schema loses."""

    keywords: frozenset[str] = frozenset()
    longest_text: int | None = None
    """The largest number of characters of a description."""

    def applied(self, schema: Any) -> Any:
        """Returns the schema, or a copy without what is cut."""
        if self == WHOLE:
            return schema
        if isinstance(schema, list):
            return [self.applied(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        return {
            keyword: self._value(keyword, value) for keyword, value in schema.items() if keyword not in self.keywords
        }

    def _value(self, keyword: str, value: Any) -> Any:
        if keyword == "description" and self.longest_text is not None and isinstance(value, str):
            return shorten(value, self.longest_text)
        if keyword in _DATA:
            return value
        if keyword in _MAPS and isinstance(value, dict):
            return {name: self.applied(each) for name, each in value.items()}
        return self.applied(value)


WHOLE = Cut()
"""Loses nothing."""
