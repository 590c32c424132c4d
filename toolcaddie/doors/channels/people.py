"""Who may talk to the bot of a channel: nobody, until the settings or an operator say so.

A person is allowed by the list `allow`, or by pairing: a stranger gets a code, and an operator who knows the person accepts it
with `toolcaddie channels pair CODE`. A group is allowed by the list `groups`; then all its members may talk to the bot there.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from toolcaddie.core.channels import Incoming
from toolcaddie.core.errors import RequestError
from toolcaddie.ports import Store

EVERYBODY = "*"
"""In the list `allow`: whoever writes may talk to the bot."""

_PAIRED, _CODES, _ASKERS, _CHATS = "channel.paired", "channel.code", "channel.asker", "channel.chat"
_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
"""Letters and digits that nobody takes for another one."""
_CODE_LENGTH = 8
_CODE_SECONDS = 3_600.0
"""Time for which a code can be accepted, and in which the same person gets no other one."""
_MOST_CODES = 50
"""The largest number of open codes of a channel."""
_PAGE = 200


class Pairing(Struct, frozen=True, kw_only=True):
    """A person who may talk to a bot, or asks for it."""

    channel: str
    person: str
    name: str
    """The name that the person has in the channel; it proves nothing."""
    at: float
    """Seconds since the epoch."""


class Pairings:
    """The pairings and the open codes, in a store."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    async def allows(self, channel: str, person: str) -> bool:
        return await self._store.get(_PAIRED, _place(channel, person)) is not None

    async def note_chat(self, channel: str, message: Incoming) -> None:
        """Notes that a person writes in a chat whose id is not the person's own."""
        if not message.group and message.chat != message.person:
            await self._store.put(_CHATS, _place(channel, message.chat), message.person.encode())

    async def person_in(self, channel: str, chat: str) -> str:
        """Returns the person who wrote in a chat last; of a chat about which nothing is noted, its id."""
        person = await self._store.get(_CHATS, _place(channel, chat))
        return chat if person is None else person.decode()

    async def new_code(self, channel: str, message: Incoming) -> str | None:
        """Returns a code for a stranger; None: the person has one, or too many codes are open."""
        open_codes = await self._store.scan(_ASKERS, prefix=f"{channel}\0", limit=_MOST_CODES)
        if len(open_codes.documents) >= _MOST_CODES:
            return None
        code = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LENGTH))
        pairing = Pairing(channel=channel, person=message.person, name=message.name, at=self._clock())
        place = _place(channel, message.person)
        if not await self._store.compare_and_set(_ASKERS, place, code.encode(), expected=None, ttl=_CODE_SECONDS):
            return None
        await self._store.put(_CODES, code, msgspec.json.encode(pairing), ttl=_CODE_SECONDS)
        return code

    async def accept(self, code: str) -> Pairing:
        """Lets the person of a code talk to the bot. Raises `RequestError` for an unknown code."""
        code = code.strip().upper()
        value = await self._store.get(_CODES, code) if code.isascii() and len(code) == _CODE_LENGTH else None
        if value is None or not await self._store.delete(_CODES, code):
            raise RequestError(
                f"no person has the pairing code {code[:16]!r}; a code is valid for an hour and counts once",
                param="code",
                code="unknown_code",
            )
        pairing = msgspec.json.decode(value, type=Pairing)
        place = _place(pairing.channel, pairing.person)
        await self._store.put(_PAIRED, place, value)
        await self._store.delete(_ASKERS, place)
        return pairing

    async def end(self, channel: str, person: str) -> bool:
        """Ends a pairing. Returns False if there was none."""
        return await self._store.delete(_PAIRED, _place(channel, person))

    async def all(self, channel: str) -> Sequence[Pairing]:
        """Returns the pairings of a channel."""
        pairings: list[Pairing] = []
        cursor: str | None = None
        while True:
            page = await self._store.scan(_PAIRED, prefix=f"{channel}\0", cursor=cursor, limit=_PAGE)
            pairings += [msgspec.json.decode(document.value, type=Pairing) for document in page.documents]
            cursor = page.cursor
            if cursor is None:
                return pairings


def _place(channel: str, person: str) -> str:
    return f"{channel}\0{person}"
