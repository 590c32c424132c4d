"""Sessions: several messages from one bot to another, in one chat. There is one document for each pair of bots of a person.

The rounds of a pair count across its sessions, so a new session begins no new count. After the last one the pair pauses, and then
the count begins again. A pair that has not talked for the life of a session is forgotten with its count.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolcaddie.core.control import Principal
from toolcaddie.core.errors import RequestError, StorageError
from toolcaddie.ports import Store
from toolcaddie.tools.team.settings import TeamSettings

_KIND = "team-pair"
_CHATS = "session:"
"""Beginning of the names of chats of sessions."""
_DIGEST = re.compile(r"[0-9a-f]{16}")
_TRIES = 8
"""The largest number of times that a write is repeated because another call wrote at the same moment."""


class Round(Struct, frozen=True, kw_only=True):
    """A message of a session."""

    session: str
    number: int
    """Counts from 1 since the last pause."""


class _Pair(Struct, frozen=True, kw_only=True):
    session: str = ""
    """The open session; empty: there is none."""
    rounds: tuple[str, ...] = ()
    """The works of the rounds since the last pause. A repeated call has the same work, and is no further round."""
    visible: int = 0
    """Visible messages of the open session."""
    last: float = 0.0


class Sessions:
    """Counts the rounds of pairs of bots, and knows their open sessions."""

    def __init__(self, store: Store, settings: TeamSettings, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    async def enter(self, asker: Principal, target: str, work: str, *, session: str, visible: bool) -> Round:
        """Counts a round before it begins, and opens a session if `session` is empty. Raises `RequestError` for a session that
        this person and pair do not have, during a pause, and for too many visible messages."""
        for _ in range(_TRIES):
            before, pair = await self._read(asker, target)
            if work not in pair.rounds:
                pair = self._with_round(pair, target, work, session=session, visible=visible)
                if not await self._write(asker, target, pair, expected=before):
                    continue
            return Round(session=pair.session, number=pair.rounds.index(work) + 1)
        raise StorageError(f"the session with {target} is changed by others all the time")

    async def leave(self, asker: Principal, target: str) -> None:
        """Notes the end of a round, from which the pause and the life of the session are counted."""
        for _ in range(_TRIES):
            before, pair = await self._read(asker, target)
            if before is None or await self._write(asker, target, replace(pair, last=self._clock()), expected=before):
                return

    async def end(self, asker: Principal, session: str) -> str:
        """Ends a session and returns the bot that it was with. The rounds stay counted. Raises `RequestError`."""
        target = target_of(session)
        for _ in range(_TRIES):
            before, pair = await self._read(asker, target)
            if pair.session != session:
                raise _no_session(session)
            if await self._write(asker, target, replace(pair, session="", visible=0), expected=before):
                return target
        raise StorageError(f"the session with {target} is changed by others all the time")

    def _with_round(self, pair: _Pair, target: str, work: str, *, session: str, visible: bool) -> _Pair:
        settings, now = self._settings, self._clock()
        if session and session != pair.session:
            raise _no_session(session)
        if len(pair.rounds) >= settings.rounds:
            wait = pair.last + settings.cooldown - now
            if wait > 0:
                raise RequestError(
                    f"you have had {settings.rounds} answers of {target} in a row; work with them, or ask it in {wait:.0f} s",
                    code="limit",
                )
            pair = replace(pair, rounds=())
        if not session:
            pair = replace(pair, session=_session(target, work), visible=0)
        if visible and pair.visible >= settings.visible_turns:
            raise RequestError(
                f"this session has {settings.visible_turns} messages in the group already; continue it without visible",
                code="limit",
            )
        return replace(pair, rounds=(*pair.rounds, work), visible=pair.visible + visible, last=now)

    async def _read(self, asker: Principal, target: str) -> tuple[bytes | None, _Pair]:
        """Returns the document of a pair, and its content. A pair that has not talked for the life of a session is a new one."""
        document = await self._store.get(_KIND, _key(asker, target))
        if document is None:
            return None, _Pair()
        pair = msgspec.json.decode(document, type=_Pair)
        return document, pair if self._clock() - pair.last < self._settings.session_ttl else _Pair()

    async def _write(self, asker: Principal, target: str, pair: _Pair, *, expected: bytes | None) -> bool:
        ttl = max(self._settings.session_ttl, self._settings.cooldown) + self._settings.step_timeout
        document = msgspec.json.encode(pair)
        return await self._store.compare_and_set(_KIND, _key(asker, target), document, expected=expected, ttl=ttl)


async def open_sessions(store: Store) -> frozenset[str]:
    """Returns the sessions of all pairs that may be continued, and perhaps some that have ended by themselves a moment ago."""
    sessions: set[str] = set()
    cursor: str | None = None
    while True:
        page = await store.scan(_KIND, cursor=cursor)
        sessions.update(msgspec.json.decode(document.value, type=_Pair).session for document in page.documents)
        cursor = page.cursor
        if cursor is None:
            return frozenset(sessions)


def session_chat(session: str) -> str:
    """Returns the name of the chat of a session."""
    return f"{_CHATS}{session}"


def session_of(chat: str, bot: str) -> str:
    """Returns the session of which this is the chat with a bot; empty: it is another chat."""
    session = chat.removeprefix(_CHATS)
    is_session = session != chat and target_of(session) == bot and _DIGEST.fullmatch(session.rpartition("-")[2])
    return session if is_session else ""


def target_of(session: str) -> str:
    """Returns the bot of a session, which is part of its id."""
    return session.rpartition("-")[0]


def _session(target: str, work: str) -> str:
    """Returns the id of a session: the same again if the call that opened it is repeated."""
    return f"{target}-{hashlib.sha256(work.encode()).hexdigest()[:16]}"


def _key(asker: Principal, target: str) -> str:
    """Returns the key of a pair: of one person, so that nobody finds a session of another."""
    parts = [asker.tenant, asker.id, asker.bot, target]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _no_session(session: str) -> RequestError:
    return RequestError(
        f"there is no open session {session[:100]!r}; send without sessionId to open one", param="sessionId"
    )
