"""The chats of bots in the store, in pages. Implements `ports.Chats`.

A chat is a head, a few bytes with the number of its last page, and pages of some fifty messages. A message is added by a
compare-and-set of the last page, whatever the length of the chat. A page that is full is closed first and never gets another
message; then the keys of its messages are noted, each in a document of its own; then the next page begins. So the key of a
message that is there already is found in the last page or among the noted ones, also if several processes add it at once.

Pages lie under the random id of the chat. So a chat that is deleted, and begun again under its name, shares nothing with the
former one, even if a process dies in the middle.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolcaddie.core.bots import ChatKey, ChatTurn
from toolcaddie.core.errors import RequestError, StorageError
from toolcaddie.personas.names import checked_chat, owner_prefix
from toolcaddie.personas.turns import ATTEMPTS, crowded, pause
from toolcaddie.ports import Store
from toolcaddie.util.random_ids import random_id
from toolcaddie.util.text import valid_text

S = TypeVar("S", bound=Struct)

HEADS, PAGES, KEYS = "chat", "chat-page", "chat-key"
"""Kinds of the documents."""
MOST_BYTES = 1024 * 1024
"""The largest size of a message."""

_FULL_TURNS, _FULL_BYTES = 50, 64 * 1024
"""Sizes from which on a page is full. The last messages that were added to it together may exceed them."""
_BATCH = 500
"""The largest number of messages that are added together."""
_SCANNED = 100
_NOTED = b"1"


class Head(Struct, frozen=True, kw_only=True):
    """The document of a chat."""

    id: str
    page: int = 0
    """The last page, or one before it: it is looked for from here on."""
    deleted: bool = False
    """True: its pages are being deleted."""


class Page(Struct, frozen=True, kw_only=True):
    """A part of a chat."""

    first: int = 0
    """Number of messages on the pages before."""
    turns: tuple[ChatTurn, ...] = ()
    closed: bool = False

    @property
    def end(self) -> int:
        return self.first + len(self.turns)


_encode = msgspec.json.Encoder().encode


class StoredChats:
    """The chats of all bots in `store`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def turns(self, key: ChatKey, *, after: int = 0) -> Sequence[ChatTurn]:
        head = await self._head(key)
        if head is None or head.deleted:
            return ()
        last = await self._last_page(head)
        pages = [last.page]
        number, step = last.number, 1
        while number > 0 and _is_wanted(pages[0], last.page.end, after):
            start = max(0, number - step)
            pages = [*await self._pages(head.id, range(start, number)), *pages]
            number, step = start, step * 2
        turns = [turn for page in pages for turn in page.turns]
        return turns[after:] if after < 0 else turns[max(0, after - pages[0].first) :]

    async def add(self, key: ChatKey, turns: Sequence[ChatTurn]) -> None:
        turns = [replace(turn, text=valid_text(turn.text)) for turn in turns]
        if any(len(turn.text.encode()) > MOST_BYTES for turn in turns):
            raise RequestError(f"a message of a chat has at most {MOST_BYTES:,} bytes", param="text")
        for start in range(0, len(turns), _BATCH):
            await self._add(key, turns[start : start + _BATCH])

    async def names(self, tenant: str, bot: str) -> Sequence[str]:
        prefix = owner_prefix(tenant, bot)
        return [
            name.removeprefix(prefix)
            async for name, value in self._scanned(HEADS, prefix)
            if not _decoded(value, Head).deleted
        ]

    async def delete(self, key: ChatKey) -> bool:
        name = _name(key)
        for number in ATTEMPTS:
            document = await self._store.get(HEADS, name)
            if document is None:
                return False
            head = _decoded(document, Head)
            marked = _encode(replace(head, deleted=True))
            if await self._store.compare_and_set(HEADS, name, marked, expected=document):
                await self._erase(name, head.id)
                return not head.deleted
            await pause(number)
        raise crowded(f"the chat {key.chat!r}")

    async def rewrite(
        self, key: ChatKey, change: Callable[[Sequence[ChatTurn]], Mapping[int, ChatTurn | None]]
    ) -> None:
        """Changes messages where they are. `change` is given all messages and returns the new ones by number; None: removed. It
        is asked again until it changes nothing, because others add messages meanwhile."""
        for _ in ATTEMPTS:
            head = await self._head(key)
            turns = await self.turns(key)
            changes = change(turns)
            if head is None or not changes:
                return
            await self._note(head.id, [turns[number] for number in changes])
            await self._rewrite_pages(head.id, {_encode(turns[number]): new for number, new in changes.items()})
        raise crowded(f"the chat {key.chat!r}")

    # --- adding --------------------------------------------------------------------------------------------------------

    async def _add(self, key: ChatKey, turns: Sequence[ChatTurn]) -> None:
        name = _name(key)
        for number in ATTEMPTS:
            head = await self._begun(name)
            last = await self._last_page(head)
            if last.document is None and last.before is not None:
                await self._note(head.id, last.before.turns)
            new = await self._new(head.id, last.page, turns)
            if not new:
                return
            if last.document is not None and _is_full(last.document, last.page):
                await self._store.compare_and_set(
                    PAGES, last.name, _encode(replace(last.page, closed=True)), expected=last.document
                )
                continue
            page = _encode(replace(last.page, turns=(*last.page.turns, *new)))
            if await self._store.compare_and_set(PAGES, last.name, page, expected=last.document) and (
                last.document is not None or await self._is_current(name, head, last)
            ):
                return
            await pause(number)
        raise crowded(f"the chat {key.chat!r}")

    async def _begun(self, name: str) -> Head:
        """Returns the head of a chat, which is made if it is missing. A deletion that has not ended is ended first."""
        for number in ATTEMPTS:
            document = await self._store.get(HEADS, name)
            if document is None:
                head = Head(id=random_id())
                if await self._store.compare_and_set(HEADS, name, _encode(head), expected=None):
                    return head
            elif not (head := _decoded(document, Head)).deleted:
                return head
            else:
                await self._erase(name, head.id)
            await pause(number)
        raise crowded("this chat")

    async def _new(self, chat_id: str, last: Page, turns: Sequence[ChatTurn]) -> Sequence[ChatTurn]:
        """Returns the messages whose keys are not in the chat yet."""
        present = {turn.key for turn in last.turns if turn.key}
        keys = {_noted(chat_id, turn.key): turn.key for turn in turns if turn.key and turn.key not in present}
        if keys:
            present |= {keys[name] for name in await self._store.get_many(KEYS, keys)}
        return [turn for turn in _distinct(turns) if not turn.key or turn.key not in present]

    async def _is_current(self, name: str, head: Head, last: _Last) -> bool:
        """Notes a new page in the head. Returns False, and removes the page, if the chat was deleted meanwhile."""
        if last.number == head.page:
            document = await self._store.get(HEADS, name)
        else:
            moved = _encode(replace(head, page=last.number))
            if await self._store.compare_and_set(HEADS, name, moved, expected=_encode(head)):
                return True
            document = await self._store.get(HEADS, name)
        current = None if document is None else _decoded(document, Head)
        if current is not None and current.id == head.id and not current.deleted:
            return True
        await self._store.delete(PAGES, last.name)
        return False

    async def _note(self, chat_id: str, turns: Sequence[ChatTurn]) -> None:
        """Notes the keys of messages, so that these are never added again."""
        await self._store.put_many(KEYS, {_noted(chat_id, turn.key): _NOTED for turn in turns if turn.key})

    # --- pages ---------------------------------------------------------------------------------------------------------

    async def _head(self, key: ChatKey) -> Head | None:
        document = await self._store.get(HEADS, _name(key))
        return None if document is None else _decoded(document, Head)

    async def _last_page(self, head: Head) -> _Last:
        """Returns the last page, or an empty one behind the last if that is closed."""
        number, before = head.page, None
        while True:
            name = _page(head.id, number)
            document = await self._store.get(PAGES, name)
            page = Page(first=before.end if before else 0) if document is None else _decoded(document, Page)
            if document is None or not page.closed:
                return _Last(number=number, name=name, document=document, page=page, before=before)
            number, before = number + 1, page

    async def _pages(self, chat_id: str, numbers: Sequence[int]) -> Sequence[Page]:
        names = [_page(chat_id, number) for number in numbers]
        documents = await self._store.get_many(PAGES, names)
        return [_decoded(documents[name], Page) for name in names if name in documents]

    async def _rewrite_pages(self, chat_id: str, changes: Mapping[bytes, ChatTurn | None]) -> None:
        """Replaces messages on all pages, and counts them again."""
        first = number = 0
        while (document := await self._store.get(PAGES, name := _page(chat_id, number))) is not None:
            page = _decoded(document, Page)
            turns = [changes.get(_encode(turn), turn) for turn in page.turns]
            changed = replace(page, first=first, turns=tuple(turn for turn in turns if turn is not None))
            if changed == page or await self._store.compare_and_set(PAGES, name, _encode(changed), expected=document):
                first, number = changed.end, number + 1

    async def _erase(self, name: str, chat_id: str) -> None:
        for kind in (PAGES, KEYS):
            async for key, _ in self._scanned(kind, f"{chat_id}\0"):
                await self._store.delete(kind, key)
        document = await self._store.get(HEADS, name)
        if document is not None and _decoded(document, Head).id == chat_id:
            await self._store.delete(HEADS, name)

    async def _scanned(self, kind: str, prefix: str) -> AsyncIterator[tuple[str, bytes]]:
        cursor: str | None = None
        while True:
            page = await self._store.scan(kind, prefix=prefix, cursor=cursor, limit=_SCANNED)
            for document in page.documents:
                yield document.key, document.value
            cursor = page.cursor
            if cursor is None:
                return


class _Last(Struct, frozen=True, kw_only=True):
    """The page to which messages are added."""

    number: int
    name: str
    document: bytes | None
    """None: the page does not exist yet."""
    page: Page
    before: Page | None
    """The page before, if it was read on the way."""


def _is_wanted(first: Page, end: int, after: int) -> bool:
    """Returns True if messages before this page are asked for."""
    return first.first > (after if after >= 0 else end + after)


def _is_full(document: bytes, page: Page) -> bool:
    return len(page.turns) >= _FULL_TURNS or len(document) >= _FULL_BYTES


def _distinct(turns: Sequence[ChatTurn]) -> Sequence[ChatTurn]:
    """Returns the messages, of those with the same key the first one."""
    by_key = {turn.key or str(number): turn for number, turn in reversed(list(enumerate(turns)))}
    return [turn for number, turn in enumerate(turns) if by_key[turn.key or str(number)] is turn]


def _name(key: ChatKey) -> str:
    return owner_prefix(key.tenant, key.bot) + checked_chat(key.chat)


def _page(chat_id: str, number: int) -> str:
    return f"{chat_id}\0{number:08}"


def _noted(chat_id: str, key: str) -> str:
    return f"{chat_id}\0{hashlib.sha256(key.encode(errors='surrogatepass')).hexdigest()[:32]}"


def _decoded(document: bytes, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(document, type=kind)
    except msgspec.MsgspecError as error:
        raise StorageError(f"a chat cannot be read: {error}") from error
