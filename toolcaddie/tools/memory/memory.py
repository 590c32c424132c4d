"""The memory of all bots of a host: reads files and chats as they change, searches them, and shows lines of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from toolcaddie.core.bots import ChatKey, ChatTurn, is_group_chat
from toolcaddie.core.personas import LOGS, NOTES, PersonaFile, PersonaKey
from toolcaddie.guards.aside import aside
from toolcaddie.ports import Chats, PersonaFiles
from toolcaddie.tools.memory.index import ChunkIndex
from toolcaddie.tools.memory.reading import chunks_of, file_lines, person_of, session_path, turn_lines
from toolcaddie.tools.memory.values import Chunk, Excerpt, Line, SearchAnswer
from toolcaddie.tools.memory.visibility import Reader
from toolcaddie.util.bounded import Bounded

_MOST_BOTS = 32
"""The largest number of bots whose chunks are in memory; those of others are made again when they are searched."""
_AT_ONCE = 128
"""The number of chunks that are indexed in one step, so that other work beside the event loop gets its turn."""


@dataclass(slots=True)
class _Document:
    """A file or chat as it is indexed."""

    version: object
    """The version of a file, or the messages of a chat by their digests."""
    person: str = ""
    stamps: tuple[int, ...] = ()


@dataclass(slots=True)
class _BotMemory:
    """The index of one bot, and what is in it."""

    index: ChunkIndex = field(default_factory=ChunkIndex)
    documents: dict[str, _Document] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Memory:
    """Searches daily logs, notes and stored chats, each person only what `visibility` permits."""

    def __init__(self, personas: PersonaFiles, chats: Chats) -> None:
        self._personas = personas
        self._chats = chats
        self._bots: Bounded[PersonaKey, _BotMemory] = Bounded(_MOST_BOTS)

    async def search(self, key: PersonaKey, reader: Reader, query: str, *, most: int, least: float) -> SearchAnswer:
        """Returns the chunks that fit a query."""
        memory = self._bots.put_if_absent(key, _BotMemory())
        async with memory.lock:
            await self._refresh(key, reader, memory)
            matches = await aside(memory.index.search, query, reader.sees, most=most, least=least)
        return SearchAnswer(matches=matches)

    async def excerpt(self, key: PersonaKey, reader: Reader, path: str, *, first: int, most: int) -> Excerpt | None:
        """Returns the lines of a file or chat that the reader may see. None: there is no such path, or none of its lines is
        theirs to read."""
        lines = [line for line in await self._lines(key, path) if reader.sees(line.label)]
        if not lines:
            return None
        rest = [line for line in lines if line.number >= first]
        return Excerpt(lines=rest[:most], more=rest[most].number if len(rest) > most else None)

    async def _lines(self, key: PersonaKey, path: str) -> Sequence[Line]:
        if path.startswith((LOGS, NOTES)):
            file = next((each for each in await self._personas.paths(key, path) if each.path == path), None)
            return [] if file is None else await aside(file_lines, file)
        for chat in await self._chats.names(key.tenant, key.bot):
            if session_path(chat) == path:
                turns = await self._chats.turns(ChatKey(tenant=key.tenant, bot=key.bot, chat=chat))
                return await aside(_chat_lines, chat, turns)
        return []

    # --- what has changed ----------------------------------------------------------------------------------------------

    async def _refresh(self, key: PersonaKey, reader: Reader, memory: _BotMemory) -> None:
        """Brings the index to the present: new versions of files, and the messages of chats that the reader may see."""
        present: set[str] = set()
        for prefix in (LOGS, NOTES):
            for file in await self._personas.paths(key, prefix):
                present.add(file.path)
                known = memory.documents.get(file.path)
                if known is None or known.version != file.version:
                    chunks = await aside(_file_chunks, file)
                    await _replace(memory, file.path, _Document(file.version), chunks)
        for chat in await self._chats.names(key.tenant, key.bot):
            path = session_path(chat)
            present.add(path)
            known = memory.documents.get(path)
            if known is None or reader.group or (not is_group_chat(chat) and known.person == reader.who):
                await self._refresh_chat(key, chat, path, memory)
        for path in [path for path in memory.documents if path not in present]:
            await _replace(memory, path, None, ())

    async def _refresh_chat(self, key: PersonaKey, chat: str, path: str, memory: _BotMemory) -> None:
        """All messages are compared, because a message may be erased or changed where it is."""
        turns = tuple(await self._chats.turns(ChatKey(tenant=key.tenant, bot=key.bot, chat=chat)))
        version = hash(tuple((turn.role, turn.text, turn.at, turn.who, turn.taint) for turn in turns))
        known = memory.documents.get(path)
        if known is None or known.version != version:
            chunks = await aside(lambda: chunks_of(path, _chat_lines(chat, turns)))
            await _replace(memory, path, _Document(version, person=person_of(turns)), chunks)


async def _replace(memory: _BotMemory, path: str, document: _Document | None, chunks: Sequence[Chunk]) -> None:
    """Puts the chunks of a document in place of its earlier ones. Chunks that stay the same are not indexed again."""
    before = memory.documents.pop(path, None)
    old = {} if before is None else dict(zip(memory.index.chunks(before.stamps), before.stamps, strict=True))
    stamps = {chunk: old.pop(chunk) for chunk in chunks if chunk in old}
    new = [chunk for chunk in chunks if chunk not in stamps]
    await aside(memory.index.change, tuple(old.values()), ())
    for start in range(0, len(new), _AT_ONCE):
        part = new[start : start + _AT_ONCE]
        stamps.update(zip(part, await aside(memory.index.change, (), part), strict=True))
    if document is not None:
        document.stamps = tuple(stamps.values())
        memory.documents[path] = document


def _file_chunks(file: PersonaFile) -> list[Chunk]:
    return chunks_of(file.path, file_lines(file))


def _chat_lines(chat: str, turns: Sequence[ChatTurn]) -> list[Line]:
    person = person_of(turns)
    lines: list[Line] = []
    for turn in turns:
        lines += turn_lines(chat, turn, person, number=len(lines) + 1)
    return lines


_MEMORIES: WeakKeyDictionary[PersonaFiles, Memory] = WeakKeyDictionary()


def memory_over(personas: PersonaFiles, chats: Chats) -> Memory:
    """Returns the memory over these files and chats, the same one for all who ask: its index takes room."""
    memory = _MEMORIES.get(personas)
    if memory is None:
        memory = _MEMORIES[personas] = Memory(personas, chats)
    return memory
