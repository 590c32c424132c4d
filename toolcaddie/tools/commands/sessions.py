"""Sessions: commands that run in the background, with the output that nobody has read yet."""

from __future__ import annotations

import asyncio
import codecs
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from toolcaddie.core.errors import SandboxError
from toolcaddie.ports import Command, Outcome, RunningCommand, Sandbox
from toolcaddie.util.random_ids import random_id

Owner = tuple[str, ...]
"""Who may see a session: tenant, bot and conversation."""

_FINISHED_MOST = 50
"""Finished sessions of one caller that are kept; the oldest go first."""
_CALLERS = 8
"""How many callers' sessions run, or are kept, together before tenants have to share them."""


def caller_of(owner: Owner) -> Owner:
    """Returns whose sessions are counted together: those of a person or chat, in whatever conversation."""
    return owner[:4]


class Unread:
    """Output that nobody has read yet. Of more than `most` characters, the newest are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: deque[str] = deque()
        self._size = 0
        self._dropped = 0
        new = codecs.getincrementaldecoder("utf-8")
        self._decoders = {"stdout": new(errors="replace"), "stderr": new(errors="replace")}

    def add(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self._append(self._decoders[stream].decode(data))

    def taken(self) -> tuple[str, int]:
        """Returns the text and the number of characters that were dropped before it, and forgets both."""
        text, dropped = "".join(self._pieces), self._dropped
        self._pieces.clear()
        self._size = self._dropped = 0
        return text, dropped

    def _append(self, text: str) -> None:
        self._pieces.append(text)
        self._size += len(text)
        while self._size > self._most:
            oldest = self._pieces.popleft()
            extra = min(len(oldest), self._size - self._most)
            self._size -= extra
            self._dropped += extra
            if extra < len(oldest):
                self._pieces.appendleft(oldest[extra:])


@dataclass(slots=True, kw_only=True, eq=False)
class Session:
    """A command in the background."""

    id: str
    owner: Owner
    text: str
    """The command line."""
    only_reads: bool
    started: float
    running: RunningCommand
    unread: Unread
    outcome: Outcome | None = None
    """None: it is still running."""
    failure: str = ""
    """The reason why it ended without an outcome."""
    ended: float | None = None
    watch: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def is_running(self) -> bool:
        return self.ended is None


class Sessions:
    """All sessions of a source. Each owner sees only its own.

    At most `most` of a caller run at once. When eight times as many run together, a tenant may start another one only if it has
    less than an equal share of them, and when sixteen times as many run, nobody may.
    """

    def __init__(
        self, *, most: int, finished_ttl: float, output_chars: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._finished_ttl = finished_ttl
        self._output_chars = output_chars
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._starting: list[Owner] = []
        self._closings = 0

    async def start(
        self, owner: Owner, text: str, sandbox: Sandbox, command: Command, *, only_reads: bool
    ) -> Session | None:
        """Starts a command. Returns None if as many run already as may. Raises `SandboxError` if it cannot be started."""
        if not self._has_room(owner):
            return None
        unread, closings = Unread(self._output_chars), self._closings
        self._starting.append(owner)
        try:
            running = await sandbox.start(command, unread.add)
        finally:
            self._starting.remove(owner)
        if self._closings != closings:
            await running.kill()
            raise SandboxError("the tools were closed meanwhile, so the command was killed")
        session = Session(
            id=f"session_{random_id()}",
            owner=owner,
            text=text,
            only_reads=only_reads,
            started=self._clock(),
            running=running,
            unread=unread,
        )
        self._sessions[session.id] = session
        session.watch = asyncio.create_task(self._watch(session))
        return session

    def _has_room(self, owner: Owner) -> bool:
        owners = [*self._starting, *(session.owner for session in self._sessions.values() if session.is_running)]
        if sum(caller_of(each) == caller_of(owner) for each in owners) >= self._most:
            return False
        together = self._most * _CALLERS
        if len(owners) < together:
            return True
        tenants = Counter(each[0] for each in owners)
        share = max(1, together // len({*tenants, owner[0]}))
        return tenants[owner[0]] < share and len(owners) < 2 * together

    def of(self, owner: Owner) -> Sequence[Session]:
        """Returns the sessions of an owner, the oldest first."""
        self._forget()
        return [session for session in self._sessions.values() if session.owner == owner]

    def get(self, owner: Owner, session_id: str) -> Session | None:
        """Returns a session of an owner; None if that owner has none of this id."""
        self._forget()
        session = self._sessions.get(session_id)
        return session if session is not None and session.owner == owner else None

    def seconds(self, session: Session) -> float:
        """Returns for how long a session has run."""
        return (self._clock() if session.ended is None else session.ended) - session.started

    async def kill(self, session: Session) -> None:
        """Kills a session. Returns when everything that it started is dead and its end is noted."""
        await session.running.kill()
        if session.watch is not None:
            await asyncio.wait({session.watch})

    def clear(self, session: Session) -> None:
        """Forgets a finished session."""
        self._sessions.pop(session.id, None)

    async def close(self) -> None:
        """Kills all sessions and forgets them."""
        self._closings += 1
        running = [session for session in self._sessions.values() if session.is_running]
        await asyncio.gather(*map(self.kill, running))
        self._sessions.clear()

    async def _watch(self, session: Session) -> None:
        """Notes the end of a session."""
        try:
            session.outcome = await session.running.wait()
        except SandboxError as error:
            session.failure = str(error)
        session.ended = self._clock()

    def _forget(self) -> None:
        """Forgets sessions that ended too long ago, and the oldest ones of callers and tenants of whom too many have ended."""
        oldest = self._clock() - self._finished_ttl
        finished = [session for session in self._sessions.values() if session.ended is not None]
        finished.sort(key=_end)
        callers = Counter(caller_of(session.owner) for session in finished)
        for session in finished:
            caller = caller_of(session.owner)
            if callers[caller] > _FINISHED_MOST or _end(session) <= oldest:
                callers[caller] -= 1
                self.clear(session)
        self._share_finished([session for session in finished if session.id in self._sessions])

    def _share_finished(self, finished: list[Session]) -> None:
        """Forgets the oldest sessions of the tenants with the most, until few enough are left of all together."""
        tenants = Counter(session.owner[0] for session in finished)
        for _ in range(len(finished) - _FINISHED_MOST * _CALLERS):
            [(tenant, _)] = tenants.most_common(1)
            session = next(each for each in finished if each.owner[0] == tenant)
            finished.remove(session)
            tenants[tenant] -= 1
            self.clear(session)


def _end(session: Session) -> float:
    return session.ended or 0.0
