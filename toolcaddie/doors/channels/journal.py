"""The journal of messages: what has come, what was answered, and what of the answer was sent, on disk.

A message that comes has one document, whose key is the channel's id of the message, so it is recorded once. Its answer is written
into the same document before the first part is sent, and each part is ticked off when it was. Whatever a process leaves behind
when it dies is continued by the next one from there. A message that is sent without being an answer has such a document too.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from toolcaddie.core.channels import Button, Incoming
from toolcaddie.ports import Store
from toolcaddie.util.replacing import replace

_ROWS, _OPEN, _HANDED = "channel.message", "channel.open", "channel.handed"
"""Kinds of documents: the messages; a mark for each message that is not finished; and one for each that waits for the process
that runs the channels. A mark has the moment at which it was made."""
_KEPT_SECONDS = 8 * 86_400.0
"""Time for which a message is recognised when it is delivered again. WhatsApp repeats for seven days, Telegram for one."""
_MARK_SECONDS = 60.0
"""Age from which a mark without a row is removed."""
_PAGE = 200
_LONGEST_KEY = 200
_NOBODY = 0
"""Stands for the number of a process that would be in charge of a message."""


class Letter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text for a chat, in parts that are sent one after another."""

    chat: str
    parts: tuple[str, ...]
    handle: str = ""
    """`Incoming.handle` of the message that it answers."""
    buttons: tuple[Button, ...] = ()
    """Buttons below the last part."""
    sent: int = 0
    """Number of parts that were sent."""
    unasked: bool = False
    """True: the bot says it on its own, so it is not sent if the bot may not write to the chat any more."""


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored form of a message."""

    channel: str
    key: str
    at: float
    """Moment of its arrival, in seconds since the epoch."""
    owner: int
    """Number of the process in charge."""
    incoming: Incoming | None = None
    letter: Letter | None = None
    """None: it is not answered yet."""
    failed: str = ""
    """The reason why the letter was given up."""
    done: bool = False


class Entry(Struct, frozen=True):
    """A row, and its bytes in the store, for the next compare-and-set."""

    row: Row
    stored: bytes


class Lost(Exception):
    """Another process has taken over the message."""


class Journal:
    """The journal in a store. `clock` returns the seconds since the epoch."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    async def record(self, channel: str, message: Incoming, *, owner: int | None) -> Entry | None:
        """Records a message that came. `owner`: the number of this process, if it is to answer it; None: the process that runs
        the channels finds it. Returns None if the message came before."""
        row = Row(channel=channel, key=f"in:{message.key}", at=self._clock(), owner=owner or _NOBODY, incoming=message)
        return await self._new(row, handed=owner is None)

    async def write(self, channel: str, key: str, letter: Letter, *, owner: int) -> Entry | None:
        """Records a letter that answers no message. Returns None if there is one of that key which did not fail."""
        row = Row(channel=channel, key=f"out:{key}", at=self._clock(), owner=owner, letter=letter)
        if (entry := await self._new(row)) is not None:
            return entry
        place = _place(row)
        stored = await self._store.get(_ROWS, place)
        if stored is None or not msgspec.json.decode(stored, type=Row).failed:
            return None
        value = msgspec.json.encode(row)
        changed = await self._store.compare_and_set(_ROWS, place, value, expected=stored, ttl=_KEPT_SECONDS)
        return Entry(row, value) if changed else None

    async def answer(self, entry: Entry, letter: Letter) -> Entry:
        """Writes the answer of a message, before anything of it is sent."""
        return await self._change(entry, replace(entry.row, letter=letter))

    async def tick(self, entry: Entry) -> Entry:
        """Notes that the next part of the letter was sent; after the last one the message is finished."""
        letter = entry.row.letter
        assert letter is not None
        sent = letter.sent + 1
        if sent >= len(letter.parts):
            return await self.finish(entry)
        return await self._change(entry, replace(entry.row, letter=replace(letter, sent=sent)))

    async def finish(self, entry: Entry, *, failed: str = "") -> Entry:
        """Notes that nothing more is to be done for a message. Its texts are no longer stored."""
        done = replace(entry.row, done=True, failed=failed, incoming=None, letter=None)
        # Both are part of one commit. The row counts, so an open mark without an open row is only removed later.
        changed, _ = await asyncio.gather(
            self._change(entry, done), self._store.delete(_OPEN, _place(entry.row)), return_exceptions=False
        )
        return changed

    async def claim(self, entry: Entry, owner: int) -> Entry:
        """Puts this process in charge of a message. Raises `Lost` if another one was faster."""
        claimed = await self._change(entry, replace(entry.row, owner=owner), owner=owner)
        await self._store.delete(_HANDED, _place(entry.row))
        return claimed

    async def handed(self, channel: str) -> Sequence[Entry]:
        """Returns messages that other processes received, in the order of their arrival."""
        return await self._entries(_HANDED, channel)

    async def unfinished(self, channel: str) -> Sequence[Entry]:
        """Returns all messages that are not finished, in the order of their arrival."""
        return await self._entries(_OPEN, channel)

    async def _new(self, row: Row, *, handed: bool = False) -> Entry | None:
        place, value = _place(row), msgspec.json.encode(row)
        if await self._store.get(_ROWS, place) is not None:
            return None  # cheaper than the writes, and duplicates come often
        marks = [_OPEN, *([_HANDED] if handed else [])]
        # The marks are queued before the row, so no row is without them.
        *_, new = await asyncio.gather(
            *(self._store.put(kind, place, b"%d" % row.at, ttl=_KEPT_SECONDS) for kind in marks),
            self._store.compare_and_set(_ROWS, place, value, expected=None, ttl=_KEPT_SECONDS),
        )
        return Entry(row, value) if new else None

    async def _change(self, entry: Entry, row: Row, *, owner: int | None = None) -> Entry:
        """Writes the next state of a row. Raises `Lost`, or `StorageError` if this process has lost its lease."""
        value, number = msgspec.json.encode(row), owner or entry.row.owner or None
        if not await self._store.compare_and_set(
            _ROWS, _place(row), value, expected=entry.stored, ttl=_KEPT_SECONDS, owner=number
        ):
            raise Lost(row.key)
        return Entry(row, value)

    async def _entries(self, kind: str, channel: str) -> Sequence[Entry]:
        marks: dict[str, bytes] = {}
        cursor: str | None = None
        while True:
            page = await self._store.scan(kind, prefix=f"{channel}\0", cursor=cursor, limit=_PAGE)
            marks |= {document.key: document.value for document in page.documents}
            cursor = page.cursor
            if cursor is None:
                break
        entries: list[Entry] = []
        places = list(marks)
        for start in range(0, len(places), _PAGE):
            stored = await self._store.get_many(_ROWS, places[start : start + _PAGE])
            entries += [Entry(msgspec.json.decode(value, type=Row), value) for value in stored.values()]
            for place in places[start : start + _PAGE]:
                value = stored.get(place)
                # A mark is written a moment before its row.
                is_left = self._clock() - int(marks[place]) > _MARK_SECONDS if value is None else _is_done(value)
                if is_left:
                    await self._store.delete(kind, place)
        return sorted((entry for entry in entries if not entry.row.done), key=lambda entry: entry.row.at)


def _is_done(value: bytes) -> bool:
    return msgspec.json.decode(value, type=Row).done


def _place(row: Row) -> str:
    """Returns the key of a row's document."""
    key = row.key if len(row.key) <= _LONGEST_KEY else hashlib.sha256(row.key.encode()).hexdigest()
    return f"{row.channel}\0{key}"
