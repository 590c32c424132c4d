"""Looks into sources that are made of others."""

from __future__ import annotations

from collections.abc import Iterator

from toolcaddie.ports import ToolSource, WrappingSource


def all_sources(source: ToolSource) -> Iterator[ToolSource]:
    """Yields a source, and all those that it is made of at this moment."""
    yield source
    if isinstance(source, WrappingSource):
        for each in source.wrapped:
            yield from all_sources(each)
