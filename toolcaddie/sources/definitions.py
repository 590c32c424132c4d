"""Tools without code: the definitions of a `.jsonl` file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolcaddie.core.catalog import Category, check_tool
from toolcaddie.core.errors import CatalogError, RequestError
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import JsonObject, Tool, ToolAnnotations, ToolResult, failed
from toolcaddie.ports import ClaimingSource, OpenableSource, ToolSource
from toolcaddie.util.replacing import replace
from toolcaddie.wires.chat.messages import read_definition

_SHOWN_ERRORS = 20
"""Largest number of wrong lines that an error names."""
_TRUNCATED = "Input data was truncated"
"""Message of msgspec for an incomplete document."""


class DefinitionSource:
    """Tools without code. They can be selected and shown; a call fails with the reason."""

    revision = 0

    def __init__(
        self,
        name: str,
        tools: Sequence[Tool],
        *,
        origin: str,
        categories: Sequence[Category] = (),
        claims: frozenset[str] = frozenset(),
    ) -> None:
        self.name = name
        self.claims = claims
        self._categories = tuple(categories)
        self._tools = tuple(tools)
        self._origin = origin

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def categories(self) -> Sequence[Category]:
        return self._categories

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        return failed(
            f"The tool {tool.name} cannot run here: {self._origin} holds its definition only, there is no code behind it."
        )


def frozen(source: ToolSource) -> ToolSource:
    """Returns the current definitions of a source that connects to something; any other source is returned unchanged."""
    if not isinstance(source, OpenableSource):
        return source
    claims = source.claims if isinstance(source, ClaimingSource) else frozenset()
    return DefinitionSource(
        source.name, source.tools(), origin=source.name, categories=source.categories(), claims=claims
    )


def read_jsonl(path: Path) -> ToolSource:
    """Returns the tools of a file with one definition in each line. Raises `CatalogError` naming file and lines.

    The error lists all wrong lines, so that a person can correct them at once.
    """
    tools: list[Tool] = []
    lines: dict[str, int] = {}
    errors: list[str] = []
    for number, line in _lines(path):
        place = f"{path}:{number}"
        try:
            tool = _tool(line, source=path.name)
            check_tool(tool)
        except (msgspec.DecodeError, UnicodeError, RecursionError, CatalogError, RequestError) as error:
            errors.append(f"{place}: {_error_sentence(error)}")
            continue
        if lines.setdefault(tool.name, number) != number:
            errors.append(f"{place}: tool {tool.name!r} is on line {lines[tool.name]} already; rename or remove one")
            continue
        tools.append(tool)
    if errors:
        more = f"\n... and {len(errors) - _SHOWN_ERRORS} more" if len(errors) > _SHOWN_ERRORS else ""
        raise CatalogError("\n".join(errors[:_SHOWN_ERRORS]) + more)
    if not tools:
        raise CatalogError(f"{path} holds no tools; write one JSON object a line with name, description and parameters")
    return DefinitionSource(path.name, tools, origin=str(path))


def _error_sentence(error: Exception) -> str:
    if str(error) == _TRUNCATED:
        return "the JSON is incomplete; write the whole object on this one line"
    if isinstance(error, msgspec.DecodeError):
        return f"{error}; write a JSON object with name, description and parameters on each line"
    return str(error)


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a .jsonl catalog in Toolcaddie's own form."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    category: str | None = None
    hints: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    core: bool = False
    read_only: bool | None = None
    destructive: bool | None = None


class _WireLine(msgspec.Struct, forbid_unknown_fields=True, tag_field="type", tag="function"):
    """A line in OpenAI's form, with Toolcaddie's additional fields beside `function`."""

    function: dict[str, Any]
    category: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields the lines of a file that are not blank, each with its number. Raises `CatalogError` if the file cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CatalogError(
            f"catalog {path} cannot be read: {error.strerror}; give the path of a .jsonl file"
        ) from error
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield number, line


def _tool(line: bytes, *, source: str) -> Tool:
    """Returns the tool of one line, in Toolcaddie's own form or in OpenAI's. `source`: the name of the source in the tool."""
    value = msgspec.json.decode(line)
    if isinstance(value, dict) and "function" in value:
        return _wire_tool(value, source)
    fields = msgspec.convert(value, _Line)
    return Tool(
        name=fields.name,
        description=fields.description,
        input_schema=_schema(fields.parameters),
        category=fields.category,
        hints=fields.hints,
        tags=fields.tags,
        core=fields.core,
        source=source,
        annotations=ToolAnnotations(read_only=fields.read_only, destructive=fields.destructive),
    )


def _wire_tool(value: dict[str, Any], source: str) -> Tool:
    """Returns the tool of a line in OpenAI's form."""
    line = msgspec.convert(value, _WireLine)
    tool = read_definition({"type": "function", "function": line.function}, "function")
    return replace(
        tool,
        category=line.category,
        source=source,
        annotations=ToolAnnotations(read_only=line.read_only, destructive=line.destructive),
    )


def _schema(parameters: dict[str, Any] | None) -> JsonObject:
    return {"type": "object", "properties": {}} if parameters is None else parameters
