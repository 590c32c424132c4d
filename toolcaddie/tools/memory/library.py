"""The memories of all bots: follows their files and chats, and searches them.

An index is brought up to date before each search. Only files with a new version and messages that were added since are made into
chunks. If reading all files and names takes more than ten milliseconds, because a bot has very much memory, it is done less
often, so that it takes a twentieth of the time at most.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct

from toolcaddie.core.bots import ChatKey, ChatTurn, is_group_chat
from toolcaddie.core.errors import ConfigError, ProviderError
from toolcaddie.core.personas import LOGS, NOTES, PersonaFile, PersonaKey
from toolcaddie.embedders.prepared import Prepared
from toolcaddie.guards.aside import aside
from toolcaddie.parts import Parts
from toolcaddie.ports import Chats, PersonaFiles
from toolcaddie.tools.memory.index import MemoryIndex
from toolcaddie.tools.memory.ranking import WEIGHTS, Weights, ranked
from toolcaddie.tools.memory.reading import chunks_of, file_lines, person_of, session_path, turn_lines
from toolcaddie.tools.memory.segment import Floats
from toolcaddie.tools.memory.values import Line, SearchAnswer
from toolcaddie.tools.memory.visibility import Reader
from toolcaddie.util.bounded import Bounded, Limit
from toolcaddie.util.log import Logger

log = Logger(__name__)

MOST_CHUNKS = 100_000
"""The largest number of chunks of a bot that are searched."""
MOST_QUERY = 2_000
"""The number of characters of a query that are read."""

_MOST_BOTS = 64
_MOST_BYTES = 1024 * 1024 * 1024
"""The size of all indexes together, from which on those that were not used for longest are dropped."""
_CHEAP = 0.01
_SHARE = 20
_VECTORS_AT_ONCE = 256
"""The largest number of chunks that get a vector of the embedder in one search."""
_WORDS_ALONE = "The embedder did not answer, so these hits were reached by words and by the built-in table of meanings."


class _Chat(Struct, kw_only=True):
    """How far a chat was read."""

    turns: int = 0
    last: ChatTurn | None = None
    person: str = ""
    lines: int = 0
    tail: list[Line] = []
    """The lines of the last chunk, which grows."""


class _Memory:
    """The index of a bot, and what was read into it."""

    def __init__(self) -> None:
        self.index = MemoryIndex()
        self.lock = asyncio.Lock()
        self.versions: dict[str, int] = {}
        self.chats: dict[str, _Chat] = {}
        self.read_at = float("-inf")
        self.took = 0.0
        self.left_out = False

    def put_file(self, file: PersonaFile) -> None:
        self.index.remove(file.path)
        self._add(file.path, file_lines(file))
        self.versions[file.path] = file.version

    def drop_file(self, path: str) -> None:
        self.index.remove(path)
        del self.versions[path]

    def drop_chat(self, name: str) -> None:
        self.index.remove(session_path(name))
        self.chats.pop(name, None)

    def put_turns(self, name: str, turns: Sequence[ChatTurn]) -> None:
        """Adds the messages that follow those of the chat that were read."""
        chat = self.chats.setdefault(name, _Chat())
        if not is_group_chat(name):
            chat.person = person_of(turns, chat.person)
        new: list[Line] = []
        for turn in turns:
            added = turn_lines(name, turn, chat.person, number=chat.lines + 1)
            chat.lines += len(added)
            new += added
        path = session_path(name)
        if chat.tail:
            self.index.remove(path, first=chat.tail[0].number)
        chat.tail = self._add(path, [*chat.tail, *new])
        chat.turns, chat.last = chat.turns + len(turns), turns[-1]

    def _add(self, path: str, lines: list[Line]) -> list[Line]:
        """Adds the chunks of some lines, and returns the lines of the last one."""
        chunks = chunks_of(path, lines)
        if len(self.index) + len(chunks) > MOST_CHUNKS:
            self.left_out = True
            return []
        self.index.add(chunks)
        return [line for line in lines if line.number >= chunks[-1].first] if chunks else []


class _Held(Struct, frozen=True, kw_only=True, eq=False):
    memory: _Memory
    size: int


class Library:
    """Searches the memories of bots. It is used in one event loop at a time. `cheap`: seconds of reading files and names below
    which it is done at every search."""

    def __init__(
        self,
        personas: PersonaFiles,
        chats: Chats,
        embedder: Prepared | None = None,
        *,
        weights: Weights = WEIGHTS,
        cheap: float = _CHEAP,
    ) -> None:
        self.personas = personas
        self.chats = chats
        self._embedder = embedder
        self._weights = weights
        self._cheap = cheap
        self._clock: Callable[[], float] = time.monotonic
        self._held: Bounded[PersonaKey, _Held] = Bounded(_MOST_BOTS, Limit(_MOST_BYTES, lambda held: held.size))

    @classmethod
    def of(cls, parts: Parts) -> Library:
        """Returns the library of a host, the same one for all who ask, because its indexes take room.

        Raises `ConfigError` if the host has no files or chats of bots."""
        if parts.personas is None or parts.chats is None:
            missing = "files" if parts.personas is None else "chats"
            raise ConfigError(
                f"source memory: this host keeps no {missing} of bots; set [storage], pass Parts(personas=..., chats=...), "
                "or set search = false"
            )
        library = _LIBRARIES.get(parts.personas)
        if library is None:
            embedder = None if parts.embedder is None else Prepared(parts.embedder)
            library = _LIBRARIES[parts.personas] = cls(parts.personas, parts.chats, embedder)
        return library

    async def search(self, key: PersonaKey, query: str, reader: Reader, *, most: int, least: float) -> SearchAnswer:
        """Returns the best chunks that the reader may see. `least`: the lowest score."""
        held = self._held.get(key) or self._held.put_if_absent(key, _Held(memory=_Memory(), size=0))
        memory = held.memory
        async with memory.lock:
            await self._follow(key, memory)
            query = query[:MOST_QUERY]
            vector, note = await self._vector(query)
            matches = await aside(
                ranked, memory.index, query, reader, most=most, least=least, vector=vector, weights=self._weights
            )
        if memory.left_out:
            note = f"{note} Only {MOST_CHUNKS:,} parts of this memory are searched.".strip()
        return SearchAnswer(matches=matches, note=note)

    def index_of(self, key: PersonaKey) -> MemoryIndex | None:
        """Returns the index of a bot, to be measured; None: nothing was searched yet."""
        held = self._held.peek(key)
        return None if held is None else held.memory.index

    # --- following files and chats ------------------------------------------------------------------------------------

    async def _follow(self, key: PersonaKey, memory: _Memory) -> None:
        """Brings an index up to date."""
        began = self._clock()
        if memory.took > self._cheap and began < memory.read_at + _SHARE * memory.took:
            return
        spent = await self._follow_files(key, memory) + await self._follow_chats(key, memory)
        await aside(memory.index.settle)
        memory.read_at, memory.took = self._clock(), spent
        if self._embedder is not None:
            await self._embed(memory, self._embedder)
        held = self._held.peek(key)
        size = await aside(lambda: memory.index.size)
        if held is None or held.memory is memory:
            self._held.put(key, _Held(memory=memory, size=size))

    async def _follow_files(self, key: PersonaKey, memory: _Memory) -> float:
        began = self._clock()
        files = [*await self.personas.paths(key, LOGS), *await self.personas.paths(key, NOTES)]
        spent = self._clock() - began
        for path in memory.versions.keys() - {file.path for file in files}:
            await aside(memory.drop_file, path)
        for file in reversed(files):
            if memory.versions.get(file.path) != file.version:
                await aside(memory.put_file, file)
        return spent

    async def _follow_chats(self, key: PersonaKey, memory: _Memory) -> float:
        began = self._clock()
        names = await self.chats.names(key.tenant, key.bot)
        spent = self._clock() - began
        for name in memory.chats.keys() - set(names):
            await aside(memory.drop_chat, name)
        for name in names:
            began = self._clock()
            turns = await self._new_turns(ChatKey(tenant=key.tenant, bot=key.bot, chat=name), memory)
            spent += self._clock() - began
            if turns:
                await aside(memory.put_turns, name, turns)
        return spent

    async def _new_turns(self, key: ChatKey, memory: _Memory) -> Sequence[ChatTurn]:
        """Returns the messages that were added. The last one that is known is read too: if it is no longer where it was, messages
        were erased. Then, and if another person writes in a private chat, the whole chat is read again."""
        chat = memory.chats.get(key.chat)
        if chat is None:
            return await self.chats.turns(key)
        turns = await self.chats.turns(key, after=chat.turns - 1)
        is_same = is_group_chat(key.chat) or person_of(turns[1:], chat.person) == chat.person
        if turns and turns[0] == chat.last and is_same:
            return turns[1:]
        await aside(memory.drop_chat, key.chat)
        return await self.chats.turns(key)

    # --- vectors of the embedder --------------------------------------------------------------------------------------

    async def _vector(self, query: str) -> tuple[Floats | None, str]:
        """Returns the vector of a query, or None and what to say about that."""
        if self._embedder is None:
            return None, ""
        await self._embedder.prepare([query])
        if self._embedder.is_down:
            return None, _WORDS_ALONE
        vector = (await aside(self._embedder.embed_requests, [query]))[0]
        return (vector, "") if np.any(vector) else (None, "")

    async def _embed(self, memory: _Memory, embedder: Prepared) -> None:
        """Makes the vectors of some chunks that have none. The rest follow with the next searches."""
        places = memory.index.without_vectors(_VECTORS_AT_ONCE)
        texts = [segment.chunks[row].text for segment, row in places]
        if not texts:
            return
        try:
            await embedder.prepare_lasting(texts, written=False)
        except (ProviderError, ConfigError) as error:
            log.warning("the embedder of the memory failed", error=str(error))
            return
        vectors = await aside(embedder.embed, texts)
        for (segment, row), vector in zip(places, vectors, strict=True):
            segment.deep[row] = vector


_LIBRARIES: WeakKeyDictionary[PersonaFiles, Library] = WeakKeyDictionary()
"""The library of each host, by its files."""
