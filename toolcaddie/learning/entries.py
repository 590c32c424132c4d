"""What is remembered of a request: what was said, what was called for it, by whom."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from toolcaddie.core.catalog import Catalog
from toolcaddie.core.control import Principal
from toolcaddie.core.schema import canonical_json
from toolcaddie.core.selection import QueryWords
from toolcaddie.core.tool import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTool:
    """A tool as it is known again later: by its name, and after a renaming by the rest of its definition."""

    name: str
    digest: str = ""
    """`digest_of` the tool; empty: its name is all that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """A request and the tools that served it."""

    words: QueryWords
    tools: tuple[CalledTool, ...]
    principal: Principal | None = None
    """Who asked; None: the operator's own log, which is for everybody."""
    group: str = ""
    """The same for requests of one conversation, which are no independent evidence; empty: it stands by itself."""
    at: float = 0.0
    """Seconds since the epoch; 0: not known, never too old."""


def digest_of(tool: Tool) -> str:
    """A digest of description and input schema; empty where these say nothing by which the tool could be told from others."""
    if not tool.description.strip() and not tool.input_schema.get("properties"):
        return ""
    return hashlib.sha256(canonical_json((tool.description, tool.input_schema))).hexdigest()[:24]


def called(tool: Tool) -> CalledTool:
    return CalledTool(name=tool.name, digest=digest_of(tool))


class Known:
    """Finds the tools of one catalog that log entries speak of."""

    def __init__(self, catalog: Catalog) -> None:
        self._names = {tool.name: position for position, tool in enumerate(catalog.tools)}
        self._digests = [digest_of(tool) for tool in catalog.tools]
        self._unique: dict[str, int | None] = {}
        for position, digest in enumerate(self._digests):
            self._unique[digest] = None if digest in self._unique else position
        self._unique[""] = None

    def position(self, tool: CalledTool) -> int | None:
        """By name and digest; else by a digest that one tool alone has, because it was renamed; else by name, because its
        definition was changed. None: it is gone."""
        named = self._names.get(tool.name)
        if named is not None and self._digests[named] == tool.digest:
            return named
        renamed = self._unique.get(tool.digest)
        return named if renamed is None else renamed
