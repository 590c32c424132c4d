"""Reads lines of a file or chat of a bot's memory, as far as a reader may see them."""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.bots import ChatKey, is_group_chat
from toolcaddie.core.errors import RequestError
from toolcaddie.core.personas import LOGS, NOTES, PersonaKey
from toolcaddie.personas.names import is_path
from toolcaddie.ports import Chats, PersonaFiles
from toolcaddie.tools.memory.reading import SESSIONS, file_lines, person_of, session_path, turn_lines
from toolcaddie.tools.memory.values import Line
from toolcaddie.tools.memory.visibility import Reader


def checked_place(path: str) -> str:
    """Returns the path. Raises `RequestError` if it is absolute, leaves the memory, or is none of a file or chat of memory."""
    shown = path[:100]
    if path.startswith(("/", "\\", "~")) or path[1:2] == ":":
        raise RequestError(
            f"{shown!r} is absolute; name a path of memory_search, such as {LOGS}2026-05-03.md", param="path"
        )
    if ".." in path:
        raise RequestError(
            f"{shown!r} has '..', which leads nowhere in memory; name a path of memory_search", param="path"
        )
    if not path.startswith((LOGS, NOTES, SESSIONS)) or (not path.startswith(SESSIONS) and not is_path(path)):
        raise RequestError(
            f"{shown!r} is no path of memory; there are {LOGS}YYYY-MM-DD.md, {NOTES}NAME.md and {SESSIONS}CHAT.md",
            param="path",
        )
    return path


async def visible_lines(
    personas: PersonaFiles, chats: Chats, key: PersonaKey, path: str, reader: Reader
) -> Sequence[Line]:
    """Returns the lines of a file or chat that a reader may see. Raises `RequestError` if there are none: what is hidden and what
    does not exist have the same answer."""
    lines = await (_chat_lines(chats, key, path) if path.startswith(SESSIONS) else _file_lines(personas, key, path))
    visible = [line for line in lines if reader.sees(line.label)]
    if not any(line.text.strip() for line in visible):
        raise RequestError(f"there is nothing to read in {path[:100]!r}; name a path of memory_search", param="path")
    return visible


async def _file_lines(personas: PersonaFiles, key: PersonaKey, path: str) -> Sequence[Line]:
    file = await personas.read(key, path)
    return [] if file is None else file_lines(file)


async def _chat_lines(chats: Chats, key: PersonaKey, path: str) -> Sequence[Line]:
    names = await chats.names(key.tenant, key.bot)
    name = next((name for name in names if session_path(name) == path), None)
    if name is None:
        return []
    turns = await chats.turns(ChatKey(tenant=key.tenant, bot=key.bot, chat=name))
    person = "" if is_group_chat(name) else person_of(turns)
    lines: list[Line] = []
    for turn in turns:
        lines += turn_lines(name, turn, person, number=len(lines) + 1)
    return lines
