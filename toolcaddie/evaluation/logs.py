"""Turns labelled requests into log entries, so that the memory can learn from them as if runs had called these tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.presets import SelectionSettings
from toolcaddie.core.selection import SelectionQuery
from toolcaddie.evaluation.datasets import LabelledRequest
from toolcaddie.learning import CalledTool, LogEntry, called
from toolcaddie.selection.query import query_words


def entries_of(
    requests: Iterable[LabelledRequest],
    catalog: Catalog,
    *,
    settings: SelectionSettings | None = None,
    principal: Principal | None = None,
) -> Iterator[LogEntry]:
    """Yields a log entry for each request that has a right tool. If the catalog lacks a tool, its entry has only the name."""
    selection_settings = settings or SelectionSettings()
    for request in requests:
        if not request.gold:
            continue
        words = query_words(
            SelectionQuery(messages=request.messages),
            window=selection_settings.window,
            window_user=selection_settings.window_user,
        )
        tools = ((name, catalog.get(name)) for name in sorted(request.gold))
        yield LogEntry(
            words=words,
            tools=tuple(CalledTool(name=name) if tool is None else called(tool) for name, tool in tools),
            principal=principal,
            group=request.group,
        )
