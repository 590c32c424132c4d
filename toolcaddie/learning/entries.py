"""Entries of the learning log: the words of a request, the tools that it called, and its principal."""

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
    """A tool that an entry called. It is found in a catalog by its name, or, if it was renamed, by the rest of its definition."""

    name: str
    digest: str = ""
    """The result of `digest_of` for the tool; empty: only the name was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """A request and the tools that served it."""

    words: QueryWords
    tools: tuple[CalledTool, ...]
    principal: Principal | None = None
    """The caller; None: an entry of the operator's own log, from which every caller learns."""
    group: str = ""
    """Identity of the conversation. Requests of the same conversation are not independent evidence. Empty: the request is a
    conversation by itself."""
    at: float = 0.0
    """Time of the request in seconds since the epoch; 0: unknown, so the entry is never too old."""


def digest_of(tool: Tool) -> str:
    """Returns a digest of a tool's description and input schema; empty if the tool has neither a description nor parameters,
    because the digest would then be that of many tools."""
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
        for position, digest in enumerate(self._digests):  # None: several tools have this digest
            self._unique[digest] = None if digest in self._unique else position
        self._unique[""] = None

    def position(self, tool: CalledTool) -> int | None:
        """Returns the tool's position in the catalog, or None if the catalog no longer has the tool.

        The tool with the same name and digest is taken; otherwise the only tool with this digest, which was renamed; otherwise
        the tool with this name, whose definition has changed.
        """
        by_name = self._names.get(tool.name)
        if by_name is not None and self._digests[by_name] == tool.digest:
            return by_name
        by_digest = self._unique.get(tool.digest)
        return by_name if by_digest is None else by_digest
