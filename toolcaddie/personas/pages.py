"""The pages of chats: their messages in parts of some fifty, and the keys of the messages on pages that are full.

    pages = Pages(store)
    last = await pages.last(chat_id)
    await pages.put(last, replace(last.page, turns=(*last.page.turns, turn)))

Pages lie under the random id of a chat. A page that is full is closed first and never gets another message; then the keys of its
messages are noted, each in a document of its own; then the next page begins. So the key of a message that is there already is in
the last page or among the noted ones, also if several processes add it at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolcaddie.core.bots import ChatTurn
from toolcaddie.core.errors import StorageError
from toolcaddie.ports import Store

S = TypeVar("S", bound=Struct)

PAGES, KEYS = "chat-page", "chat-key"
"""Kinds of the documents."""

_FULL_TURNS, _FULL_BYTES = 50, 64 * 1024
"""Sizes from which on a page is full. The last messages that were added to it together may exceed them."""
_SCANNED = 100
_NOTED = b"1"


class Page(Struct, frozen=True, kw_only=True):
    """A part of a chat."""

    first: int = 0
    """Number of messages on the pages before."""
    turns: tuple[ChatTurn, ...] = ()
    closed: bool = False

    @property
    def end(self) -> int:
        return self.first + len(self.turns)


class LastPage(Struct, frozen=True, kw_only=True):
    """The page to which messages are added."""

    number: int
    name: str
    document: bytes | None
    """None: the page does not exist yet."""
    page: Page
    before: Page | None
    """The page before, if it was read on the way."""

    @property
    def is_full(self) -> bool:
        document = self.document or b""
        return len(self.page.turns) >= _FULL_TURNS or len(document) >= _FULL_BYTES


class Pages:
    """The pages of all chats in `store`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def last(self, chat_id: str, *, at_least: int = 0) -> LastPage:
        """Returns the last page, or an empty one behind the last if that is closed. `at_least`: a page that exists, or the one
        behind it, from which on the last one is looked for."""
        number, before = at_least, None
        while True:
            name = _page_key(chat_id, number)
            document = await self._store.get(PAGES, name)
            page = Page(first=before.end if before else 0) if document is None else decoded(document, Page)
            if document is None or not page.closed:
                return LastPage(number=number, name=name, document=document, page=page, before=before)
            number, before = number + 1, page

    async def read(self, chat_id: str, numbers: Sequence[int]) -> Sequence[Page]:
        names = [_page_key(chat_id, number) for number in numbers]
        documents = await self._store.get_many(PAGES, names)
        return [decoded(documents[name], Page) for name in names if name in documents]

    async def single(self, chat_ids: Sequence[str]) -> Mapping[str, Sequence[ChatTurn]]:
        """Returns the messages of those chats that have one page only, by their ids."""
        names = {_page_key(chat_id, 0): chat_id for chat_id in chat_ids}
        documents = await self._store.get_many(PAGES, names)
        pages = {names[name]: decoded(document, Page) for name, document in documents.items()}
        return {chat_id: page.turns for chat_id, page in pages.items() if not page.closed}

    async def put(self, last: LastPage, page: Page) -> bool:
        """Replaces a page. Returns False if others have changed it meanwhile."""
        return await self._store.compare_and_set(PAGES, last.name, encoded(page), expected=last.document)

    async def remove(self, last: LastPage) -> None:
        await self._store.delete(PAGES, last.name)

    async def note(self, chat_id: str, turns: Sequence[ChatTurn]) -> None:
        """Notes the keys of messages, so that these are never added again."""
        await self._store.put_many(KEYS, {_noted_key(chat_id, turn.key): _NOTED for turn in turns if turn.key})

    async def missing(self, chat_id: str, last: Page, turns: Sequence[ChatTurn]) -> Sequence[ChatTurn]:
        """Returns those of the messages whose keys are not in the chat yet. `last`: its last page."""
        present = {turn.key for turn in last.turns if turn.key}
        keys = {_noted_key(chat_id, turn.key): turn.key for turn in turns if turn.key and turn.key not in present}
        if keys:
            present |= {keys[name] for name in await self._store.get_many(KEYS, keys)}
        return [turn for turn in _distinct(turns) if not turn.key or turn.key not in present]

    async def rewrite(self, chat_id: str, changes: Mapping[bytes, ChatTurn | None]) -> None:
        """Replaces messages on all pages, and counts them again. `changes`: the new messages by the old ones as `encoded`; None:
        removed."""
        first = number = 0
        while (document := await self._store.get(PAGES, name := _page_key(chat_id, number))) is not None:
            page = decoded(document, Page)
            turns = [changes.get(encoded(turn), turn) for turn in page.turns]
            changed = replace(page, first=first, turns=tuple(turn for turn in turns if turn is not None))
            if changed == page or await self._store.compare_and_set(PAGES, name, encoded(changed), expected=document):
                first, number = changed.end, number + 1

    async def erase(self, chat_id: str) -> None:
        for kind in (PAGES, KEYS):
            async for key, _ in scanned(self._store, kind, f"{chat_id}\0"):
                await self._store.delete(kind, key)


async def scanned(store: Store, kind: str, prefix: str) -> AsyncIterator[tuple[str, bytes]]:
    """Yields the keys and values of all documents of a kind whose keys begin with `prefix`."""
    cursor: str | None = None
    while True:
        page = await store.scan(kind, prefix=prefix, cursor=cursor, limit=_SCANNED)
        for document in page.documents:
            yield document.key, document.value
        cursor = page.cursor
        if cursor is None:
            return


encoded = msgspec.json.Encoder().encode


def decoded(document: bytes, kind: type[S]) -> S:
    """Returns a document of a chat. Raises `StorageError` if it cannot be read."""
    try:
        return msgspec.json.decode(document, type=kind)
    except msgspec.MsgspecError as error:
        raise StorageError(f"a chat cannot be read: {error}") from error


def _distinct(turns: Sequence[ChatTurn]) -> Sequence[ChatTurn]:
    """Returns the messages, of those with the same key the first one."""
    by_key = {turn.key or str(number): turn for number, turn in reversed(list(enumerate(turns)))}
    return [turn for number, turn in enumerate(turns) if by_key[turn.key or str(number)] is turn]


def _page_key(chat_id: str, number: int) -> str:
    return f"{chat_id}\0{number:08}"


def _noted_key(chat_id: str, key: str) -> str:
    return f"{chat_id}\0{hashlib.sha256(key.encode(errors='surrogatepass')).hexdigest()[:32]}"
