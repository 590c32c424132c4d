"""The actions of the tool `process` on one caller's sessions, and what the model reads of them."""

from __future__ import annotations

from typing import Any, Literal

from toolcaddie.core.errors import SandboxError
from toolcaddie.core.tool import ToolResult, failed
from toolcaddie.tools.commands.sessions import Owner, Session, Sessions

Action = Literal["list", "poll", "write", "kill", "clear"]


async def acted(action: Action, session_id: str, text: str, sessions: Sessions, owner: Owner) -> ToolResult:
    """Returns the result of an action."""
    if action == "list":
        return _listed(sessions, owner)
    session = sessions.get(owner, session_id)
    if session is None:
        known = ", ".join(each.id for each in sessions.of(owner)) or "none"
        return failed(f"There is no session {session_id[:64]!r} in this conversation. Its sessions: {known}.")
    match action:
        case "poll":
            return _polled(sessions, session)
        case "write":
            return await _written(session, text)
        case "kill":
            return await _killed(sessions, session)
        case "clear":
            return _cleared(sessions, session)


def described(session: Session, seconds: float) -> dict[str, Any]:
    """Returns the state of a session as a value."""
    outcome = session.outcome
    return {
        "session_id": session.id,
        "pid": session.running.pid,
        "command": session.text,
        "status": "running" if session.is_running else "finished",
        "exit_code": None if outcome is None else outcome.exit_code,
        "ending": None if session.is_running else outcome.ending if outcome is not None else "failed",
        "seconds": round(seconds, 1),
    }


def _listed(sessions: Sessions, owner: Owner) -> ToolResult:
    states = [described(session, sessions.seconds(session)) for session in sessions.of(owner)]
    lines = [f"{state['session_id']}: {_state(state)}: {state['command'][:200]}" for state in states]
    return ToolResult(
        content="\n".join(lines) or "There are no sessions in this conversation.", structured={"sessions": states}
    )


def _polled(sessions: Sessions, session: Session) -> ToolResult:
    text, dropped = session.unread.taken()
    state = described(session, sessions.seconds(session))
    parts = [f"Session {session.id}: {_state(state)}."]
    if session.failure:
        parts.append(session.failure)
    if dropped:
        parts.append(f"{dropped:,} older characters were dropped, because nobody had read them.")
    parts.append(f"New output:\n{text}" if text else "There is no new output.")
    return ToolResult(content="\n\n".join(parts), structured={**state, "output": text, "dropped_characters": dropped})


def _state(state: dict[str, Any]) -> str:
    """Returns the state of a session in words."""
    if state["status"] == "running":
        return f"running for {state['seconds']} s, PID {state['pid']}"
    if state["ending"] == "exited":
        return f"finished with exit code {state['exit_code']} after {state['seconds']} s"
    return f"ended after {state['seconds']} s ({state['ending']})"


async def _written(session: Session, text: str) -> ToolResult:
    if not text:
        return failed("write needs input: the text to send, with a line break at its end if the program reads lines.")
    if not session.is_running:
        return failed(f"Session {session.id} has finished, so it reads no input; poll it, or start it again with exec.")
    try:
        await session.running.write(text.encode(errors="replace"))
    except SandboxError as error:
        return failed(f"Session {session.id} took no input: {error}")
    return ToolResult(content=f"{len(text)} characters were written to session {session.id}. Poll it for the answer.")


async def _killed(sessions: Sessions, session: Session) -> ToolResult:
    if not session.is_running:
        return ToolResult(content=f"Session {session.id} had finished already.")
    await sessions.kill(session)
    return ToolResult(content=f"Session {session.id} was killed, with everything that it had started.")


def _cleared(sessions: Sessions, session: Session) -> ToolResult:
    if session.is_running:
        return failed(f"Session {session.id} is still running; kill it before you clear it.")
    sessions.clear(session)
    return ToolResult(content=f"Session {session.id} was cleared.")
