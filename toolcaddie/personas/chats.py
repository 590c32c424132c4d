"""The chats of bots in the store. Implements `ports.Chats`.

A chat is a head, a few bytes with the number of its last page, and pages of messages (`pages.py`). A message is added by a
compare-and-set of the last page, whatever the length of the chat.

A chat that is deleted, and begun again under its name, has another id and shares nothing with the former one, even if a process
dies in the middle.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolcaddie.core.bots import ChatKey, ChatTurn
from toolcaddie.core.errors import RequestError
from toolcaddie.personas.names import checked_chat, owner_prefix
from toolcaddie.personas.pages import LastPage, Page, Pages, decoded, encoded, scanned
from toolcaddie.personas.turns import ATTEMPTS, crowded, pause
from toolcaddie.ports import Store
from toolcaddie.util.random_ids import random_id
from toolcaddie.util.text import valid_text

HEADS = "chat"
"""Kind of the documents of chats; the key is tenant, bot and name."""
MOST_BYTES = 1024 * 1024
"""The largest size of a message."""

_READ = 100
"""The number of chats that are read at once."""
_BATCH = 500
"""The largest number of messages that are added together."""


class Head(Struct, frozen=True, kw_only=True):
    """The document of a chat."""

    id: str
    page: int = 0
    """The last page, or one before it: it is looked for from here on."""
    deleted: bool = False
    """True: its pages are being deleted."""


class StoredChats:
    """The chats of all bots in `store`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pages = Pages(store)

    async def turns(self, key: ChatKey, *, after: int = 0) -> Sequence[ChatTurn]:
        head = await self._head(key)
        if head is None or head.deleted:
            return ()
        last = await self._pages.last(head.id, at_least=head.page)
        pages = [last.page]
        number, step = last.number, 1
        while number > 0 and _is_wanted(pages[0], last.page.end, after):
            start = max(0, number - step)
            pages = [*await self._pages.read(head.id, range(start, number)), *pages]
            number, step = start, step * 2
        turns = [turn for page in pages for turn in page.turns]
        return turns[after:] if after < 0 else turns[max(0, after - pages[0].first) :]

    async def with_turns(self, tenant: str, bot: str) -> AsyncIterator[tuple[str, Sequence[ChatTurn]]]:
        """Yields the names of all chats of a bot with their messages. Short chats are read many at once."""
        cursor: str | None = None
        while True:
            prefix = owner_prefix(tenant, bot)
            page = await self._store.scan(HEADS, prefix=prefix, cursor=cursor, limit=_READ)
            heads = {each.key.removeprefix(prefix): decoded(each.value, Head) for each in page.documents}
            live = {name: head for name, head in heads.items() if not head.deleted}
            single = await self._pages.single([head.id for head in live.values()])
            for name, head in live.items():
                turns = single.get(head.id)
                if turns is None:
                    turns = await self.turns(ChatKey(tenant=tenant, bot=bot, chat=name))
                yield name, turns
            cursor = page.cursor
            if cursor is None:
                return

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
            async for name, value in scanned(self._store, HEADS, prefix)
            if not decoded(value, Head).deleted
        ]

    async def page(
        self, tenant: str, bot: str, *, cursor: str | None = None, limit: int
    ) -> tuple[Sequence[str], str | None]:
        """Returns at most `limit` names of chats, in their order, and the cursor of the next page; None: there is none."""
        prefix = owner_prefix(tenant, bot)
        page = await self._store.scan(HEADS, prefix=prefix, cursor=cursor, limit=limit)
        heads = [each for each in page.documents if not decoded(each.value, Head).deleted]
        return [each.key.removeprefix(prefix) for each in heads], page.cursor

    async def all(self) -> AsyncIterator[ChatKey]:
        """Yields the chats of all bots of all tenants, those included whose deletion was interrupted."""
        async for name, _ in scanned(self._store, HEADS, ""):
            tenant, bot, chat = name.split("\0")
            yield ChatKey(tenant=tenant, bot=bot, chat=chat)

    async def delete(self, key: ChatKey) -> bool:
        name = _name(key)
        for number in ATTEMPTS:
            document = await self._store.get(HEADS, name)
            if document is None:
                return False
            head = decoded(document, Head)
            marked = encoded(replace(head, deleted=True))
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
            await self._pages.note(head.id, [turns[number] for number in changes])
            await self._pages.rewrite(head.id, {encoded(turns[number]): new for number, new in changes.items()})
        raise crowded(f"the chat {key.chat!r}")

    # --- steps ---------------------------------------------------------------------------------------------------------

    async def _add(self, key: ChatKey, turns: Sequence[ChatTurn]) -> None:
        name = _name(key)
        for number in ATTEMPTS:
            head = await self._begun(name)
            last = await self._pages.last(head.id, at_least=head.page)
            if last.document is None and last.before is not None:
                await self._pages.note(head.id, last.before.turns)
            new = await self._pages.missing(head.id, last.page, turns)
            if not new:
                return
            if last.is_full:
                await self._pages.put(last, replace(last.page, closed=True))
                continue
            page = replace(last.page, turns=(*last.page.turns, *new))
            if await self._pages.put(last, page) and (
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
                if await self._store.compare_and_set(HEADS, name, encoded(head), expected=None):
                    return head
            elif not (head := decoded(document, Head)).deleted:
                return head
            else:
                await self._erase(name, head.id)
            await pause(number)
        raise crowded("this chat")

    async def _is_current(self, name: str, head: Head, last: LastPage) -> bool:
        """Notes a new page in the head. Returns False, and removes the page, if the chat was deleted meanwhile."""
        if last.number == head.page:
            document = await self._store.get(HEADS, name)
        else:
            moved = encoded(replace(head, page=last.number))
            if await self._store.compare_and_set(HEADS, name, moved, expected=encoded(head)):
                return True
            document = await self._store.get(HEADS, name)
        current = None if document is None else decoded(document, Head)
        if current is not None and current.id == head.id and not current.deleted:
            return True
        await self._pages.remove(last)
        return False

    async def _head(self, key: ChatKey) -> Head | None:
        document = await self._store.get(HEADS, _name(key))
        return None if document is None else decoded(document, Head)

    async def _erase(self, name: str, chat_id: str) -> None:
        await self._pages.erase(chat_id)
        document = await self._store.get(HEADS, name)
        if document is not None and decoded(document, Head).id == chat_id:
            # It expires at once, unless others have ended this deletion and begun a new chat meanwhile, whose head must stay.
            await self._store.compare_and_set(HEADS, name, document, expected=document, ttl=0.0)


def _is_wanted(first: Page, end: int, after: int) -> bool:
    """Returns True if messages before this page are asked for."""
    return first.first > (after if after >= 0 else end + after)


def _name(key: ChatKey) -> str:
    return owner_prefix(key.tenant, key.bot) + checked_chat(key.chat)
