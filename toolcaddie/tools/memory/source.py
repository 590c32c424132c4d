"""The source `memory`: what its tools answer.

Memory is untrusted text: it may quote a page, a tool or another person, so it stands between markers and taints the run. The one
exception is a result whose every line is the reader's own: this person said it, or the bot told this person, while nothing
untrusted had been read (`trust=clean`). Such words did not taint the run in which they were said, so to read them again brings in
nothing that a stranger wrote, and the result counts as `own_words`. A single line of somebody else, of a message in a group or of
unknown origin ends the exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolcaddie.core.catalog import Category
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import PersonaKey
from toolcaddie.core.run import RunContext
from toolcaddie.core.tool import Tool, ToolResult, failed
from toolcaddie.guards.markers import marked
from toolcaddie.tools.memory.definitions import CATEGORY, GET, LINES, RESULTS, SCORE, SEARCH, get_tool, search_tool
from toolcaddie.tools.memory.getting import checked_place, visible_lines
from toolcaddie.tools.memory.library import Library
from toolcaddie.tools.memory.values import Line, Match
from toolcaddie.tools.memory.visibility import Reader

_MOST_TEXT = 60_000
"""The largest number of characters that `memory_get` returns."""


class MemorySource:
    """Implements `ports.ClaimingSource`. `library` None: search is switched off, and there are no tools."""

    name = "memory"
    revision = 0

    def __init__(self, library: Library | None) -> None:
        self._library = library
        self._tools = () if library is None else (search_tool(self.name), get_tool(self.name))
        self.claims = frozenset(tool.name for tool in self._tools)

    def tools(self) -> Sequence[Tool]:
        return self._tools

    def categories(self) -> Sequence[Category]:
        return (CATEGORY,) if self._tools else ()

    async def call_tool(self, tool: Tool, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        if self._library is None:
            return failed("memory is not searched here", "revoked", own_words=True)
        try:
            key, reader = _key(context), Reader.of(context.principal, context.conversation)
            if tool.name == GET:
                return await _lines_of(self._library, key, reader, arguments)
            assert tool.name == SEARCH
            return await _hits_of(self._library, key, reader, arguments)
        except RequestError as error:
            return failed(str(error), "invalid_arguments", own_words=True)


async def _hits_of(library: Library, key: PersonaKey, reader: Reader, arguments: dict[str, Any]) -> ToolResult:
    query = str(arguments["query"]).strip()
    if not query:
        raise RequestError("the query is empty; say what to look for", param="query")
    most, least = int(arguments.get("maxResults", RESULTS)), float(arguments.get("minScore", SCORE))
    answer = await library.search(key, query, reader, most=most, least=least)
    note = f"\n{answer.note}" if answer.note else ""
    if not answer.matches:
        text = f"Nothing in memory fits with a score of at least {least:g}; try other words.{note}"
        return ToolResult(content=text, structured={"hits": [], "note": answer.note}, own_words=True)
    count = len(answer.matches)
    text = "\n\n".join(_shown(number, match) for number, match in enumerate(answer.matches, 1))
    return ToolResult(
        content=f"{count} hit{'s' * (count > 1)}, the best first; read on with {GET}.{note}\n{marked(text)}",
        structured={"hits": [_row(match) for match in answer.matches], "note": answer.note},
        own_words=all(reader.trusts(match.chunk.label) for match in answer.matches),
    )


async def _lines_of(library: Library, key: PersonaKey, reader: Reader, arguments: dict[str, Any]) -> ToolResult:
    path = checked_place(str(arguments["path"]))
    first, most = int(arguments.get("from", 1)), int(arguments.get("lines", LINES))
    lines = await visible_lines(library.personas, library.chats, key, path, reader)
    rest = [line for line in lines if line.number >= first]
    if not rest:
        raise RequestError(f"{path} ends with line {lines[-1].number}; read from an earlier one", param="from")
    shown = _fitting(rest[:most])
    text = "\n".join(f"{line.number}: {line.text[:_MOST_TEXT]}" for line in shown)
    more = f"; there is more from line {rest[len(shown)].number} on" if len(shown) < len(rest) else ""
    return ToolResult(
        content=f"Lines {shown[0].number} to {shown[-1].number}{more}.\n{marked(f'{path}{chr(10)}{text}')}",
        own_words=all(reader.trusts(line.label) for line in shown if line.text.strip()),
    )


def _fitting(lines: Sequence[Line]) -> Sequence[Line]:
    """Returns the first lines, as many as fit into a result, and at least one."""
    size = 0
    for place, line in enumerate(lines):
        size += len(line.text) + 8
        if place and size > _MOST_TEXT:
            return lines[:place]
    return lines


def _shown(number: int, match: Match) -> str:
    chunk = match.chunk
    head = f"{number}. {chunk.path}, lines {chunk.first} to {chunk.last}, score {match.score:.2f}, by {match.reason}"
    return f"{head}\n{chunk.text}"


def _row(match: Match) -> dict[str, Any]:
    chunk = match.chunk
    score = round(match.score, 3)
    return {"path": chunk.path, "from": chunk.first, "to": chunk.last, "score": score, "how": match.reason}


def _key(context: RunContext) -> PersonaKey:
    """Returns the owner of the memory. Raises `RequestError` for a request that is none of a bot."""
    if context.principal.bot is None:
        raise RequestError("only a bot has a memory, and this request names none", param="bot")
    return PersonaKey(tenant=context.principal.tenant, bot=context.principal.bot)
