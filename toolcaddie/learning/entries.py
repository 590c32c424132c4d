"""Log entries: the words of a request, the tools that it called, and its principal."""

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
    """A tool that is recognised by its name, or after a renaming by the rest of its definition."""

    name: str
    digest: str = ""
    """`digest_of` the tool; empty: only its name was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """A request and the tools that served it."""

    words: QueryWords
    tools: tuple[CalledTool, ...]
    principal: Principal | None = None
    """The caller; None: an entry of the operator's own log, which teaches for every caller."""
    group: str = ""
    """Equal for requests of one conversation, which are not independent evidence; empty: a conversation of its own."""
    at: float = 0.0
    """Seconds since the epoch; 0: unknown, and never too old."""


def digest_of(tool: Tool) -> str:
    """Returns a digest of description and input schema; empty if neither distinguishes the tool from others."""
    if not tool.description.strip() and not tool.input_schema.get("properties"):
        return ""
    return hashlib.sha256(canonical_json((tool.description, tool.input_schema))).hexdigest()[:24]


def called(tool: Tool) -> CalledTool:
    return CalledTool(name=tool.name, digest=digest_of(tool))


class ToolLookup:
    """Finds the tools of log entries in one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._names = {tool.name: position for position, tool in enumerate(catalog.tools)}
        self._digests = [digest_of(tool) for tool in catalog.tools]
        self._unique: dict[str, int | None] = {}
        for position, digest in enumerate(self._digests):
            self._unique[digest] = None if digest in self._unique else position
        self._unique[""] = None

    def position(self, tool: CalledTool) -> int | None:
        """Returns the tool's position in the catalog, or None if it is gone.

        Name and digest are compared first; then a digest that only one tool has, for a renamed one; then the name alone, for
        one whose definition has changed.
        """
        by_name = self._names.get(tool.name)
        if by_name is not None and self._digests[by_name] == tool.digest:
            return by_name
        by_digest = self._unique.get(tool.digest)
        return by_name if by_digest is None else by_digest
