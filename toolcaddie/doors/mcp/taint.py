"""The taint of MCP clients: the untrusted tools whose results a client has read, with which its later calls are judged.

A client with a session is tainted until the session ends. Clients open a new session in the middle of a conversation, after a
pause or a restart, so a session begins with what its principal has read in the last hours. A client without sessions has only
that. What principals have read is in the database; sessions live in one process, and so does their taint.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcaddie.core.events import RunEvent, RunFinished
from toolcaddie.desk import ToolDesk
from toolcaddie.util.bounded import Bounded

CONVERSATION = "toolcaddie:mcp"
"""The conversation under which everything is stored that the MCP clients of a principal have read."""
_MOST_SESSIONS = 10_000
"""The largest number of sessions whose taint is in memory; a forgotten one begins again as a new session does."""


class SessionTaint:
    """The taint of sessions. `seconds`: the time for which a result taints clients without a session, and new sessions."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._read: Bounded[tuple[str, ...], tuple[str, ...]] = Bounded(_MOST_SESSIONS)

    async def before(self, desk: ToolDesk, session: str) -> Sequence[str]:
        """Returns the taint of the next call. `session`: the id of the client's session; empty: it has none."""
        key = _key(desk, session)
        read = self._read.get(key) if session else None
        if read is not None:
            return read
        recent = tuple(await desk.remembered_taint(seconds=self._seconds))
        return self._read.put_if_absent(key, recent) if session else recent

    def follow(self, desk: ToolDesk, session: str, event: RunEvent) -> None:
        """Adds to a session what a call of it has read, when the call has ended."""
        if isinstance(event, RunFinished):
            self.add(desk, session, event.result.state.taint)

    def add(self, desk: ToolDesk, session: str, names: Sequence[str]) -> None:
        """Adds untrusted tools to what a session has read."""
        if session:
            key = _key(desk, session)
            before = self._read.get(key) or ()
            self._read.put(key, tuple(dict.fromkeys((*before, *names))))


def _key(desk: ToolDesk, session: str) -> tuple[str, ...]:
    return (*desk.request.principal.owner, session)
