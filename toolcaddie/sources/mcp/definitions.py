"""Turns the definitions that an MCP server sends into tools of a catalog. Whatever a server sends is checked here: sizes, names,
schemas. A definition that cannot be used is left out, and a sentence says why."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from toolcaddie.core.bounds import Bounds, beyond
from toolcaddie.core.catalog import check_tool
from toolcaddie.core.errors import CatalogError
from toolcaddie.core.schema import canonical_json, digest
from toolcaddie.core.tool import Tool, ToolAnnotations
from toolcaddie.sources.mcp.server import McpServer
from toolcaddie.sources.names import tool_names
from toolcaddie.util.replacing import replace
from toolcaddie.util.text import visible, visible_line

Kind = Literal["tool", "resource", "prompt"]

_LONGEST_SCHEMA = 256 * 1024
"""The largest size of a schema in bytes."""
_SHOWN_NAME = 80


class Definition(Struct, frozen=True, kw_only=True):
    """One thing that a server offers, as it was sent but without the types of the protocol's package."""

    name: str
    """The server's own name of it."""
    kind: Kind = "tool"
    uri: str = ""
    """Address of a resource without parameters."""
    title: str | None = None
    description: str = ""
    input_schema: Any = None
    output_schema: Any = None
    annotations: Mapping[str, Any] = {}

    @property
    def key(self) -> str:
        """Identifies the definition among all of its server."""
        return self.name if self.kind == "tool" else f"{self.kind}:{self.name}"


def digest_of(definition: Definition) -> str:
    """Returns the SHA-256 of everything that a model or a policy sees of a definition. Raises `ValueError` or `TypeError` if it
    is not JSON."""
    seen = {
        "name": definition.name,
        "kind": definition.kind,
        "uri": definition.uri,
        "title": definition.title,
        "description": definition.description,
        "input": definition.input_schema,
        "output": definition.output_schema,
        "annotations": dict(definition.annotations),
    }
    return hashlib.sha256(canonical_json(seen)).hexdigest()


class Offer(Struct, frozen=True, kw_only=True):
    """The usable definitions of a server, and sentences about the others."""

    tools: Sequence[tuple[Definition, Tool]] = ()
    problems: Sequence[str] = ()


def offer_of(definitions: Sequence[Definition], server: McpServer, bounds: Bounds) -> Offer:
    """Returns the tools for definitions of a server, in the server's order."""
    wanted = [each for each in definitions if _is_wanted(each, server)]
    prefix = server.name if server.prefix is None else server.prefix
    names = tool_names(prefix, (each.key for each in wanted), fallback=server.name)
    tools: list[tuple[Definition, Tool]] = []
    problems: list[str] = []
    keys: set[str] = set()
    for each in wanted:
        if each.key in keys:
            problems.append(f"{_shown(each)} is listed twice; the first one counts")
            continue
        keys.add(each.key)
        try:
            tools.append((each, _tool(each, names[each.key], server, bounds, problems)))
        except (CatalogError, ValueError, TypeError, RecursionError) as error:
            problems.append(f"{_shown(each)} is left out: {str(error)[:300]}")
    return Offer(tools=tuple(tools), problems=tuple(problems))


def _is_wanted(definition: Definition, server: McpServer) -> bool:
    name = definition.name
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in server.include) and not any(
        fnmatch.fnmatchcase(name, pattern) for pattern in server.exclude
    )


def _tool(definition: Definition, name: str, server: McpServer, bounds: Bounds, problems: list[str]) -> Tool:
    """Returns the tool of a definition. Raises `CatalogError` if it cannot be one."""
    _check_size(definition, bounds)
    tool = Tool(
        name=name,
        description=visible(definition.description),
        input_schema=definition.input_schema,
        output_schema=definition.output_schema,
        category=server.category or server.name,
        hints=(visible_line(definition.title),) if definition.title else (),
        source=server.name,
        annotations=_annotations(definition, trusted=server.trusted),
        timeout=server.timeout,
        untrusted=not server.trusted,
        backing=digest([server.url, server.command, server.args, server.cwd, definition.key]),
        original=definition.name if definition.name != name else "",
    )
    try:
        check_tool(tool)
    except CatalogError as error:
        if tool.output_schema is None:
            raise
        tool = replace(tool, output_schema=None)
        check_tool(tool)
        problems.append(f"{_shown(definition)} has an output schema that is left out: {str(error)[:300]}")
    return tool


def _check_size(definition: Definition, bounds: Bounds) -> None:
    if len(definition.description) > bounds.description:
        size = len(definition.description)
        raise CatalogError(beyond(f"its description has {size:,} characters", bounds.description, "description"))
    for schema in (definition.input_schema, definition.output_schema):
        if schema is not None and (size := len(canonical_json(schema))) > _LONGEST_SCHEMA:
            raise CatalogError(f"its schema has {size:,} bytes; at most {_LONGEST_SCHEMA:,} are accepted")


def _annotations(definition: Definition, *, trusted: bool) -> ToolAnnotations:
    """Returns the server's annotations. A server that is not trusted can make its tools look more dangerous, but not more
    harmless: its claims to be read-only, non-destructive or closed are not believed."""
    sent = definition.annotations
    title = definition.title or sent.get("title")
    read_only, destructive = _flag(sent, "read_only"), _flag(sent, "destructive")
    idempotent, open_world = _flag(sent, "idempotent"), _flag(sent, "open_world")
    if not trusted:
        read_only = None if read_only else read_only
        destructive = None if destructive is False else destructive
        idempotent = None if idempotent else idempotent
        open_world = None if open_world is False else open_world
    return ToolAnnotations(
        title=visible_line(title)[:_SHOWN_NAME] if isinstance(title, str) else None,
        read_only=read_only,
        destructive=destructive,
        idempotent=idempotent,
        open_world=open_world,
    )


def _flag(annotations: Mapping[str, Any], name: str) -> bool | None:
    value = annotations.get(name)
    return value if isinstance(value, bool) else None


def _shown(definition: Definition) -> str:
    return f"{definition.kind} {visible_line(definition.name)[:_SHOWN_NAME]!r}"
