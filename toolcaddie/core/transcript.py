"""Digests of conversations, for clients of the gateway that send the whole conversation with every request without a name for it.

Such a client sends the last answer back in its next request. So the state of a conversation is stored under the digest of the
conversation with that answer, and the next request finds it there.
"""

from __future__ import annotations

import hashlib

from toolcaddie.core.control import Principal
from toolcaddie.core.message import Message
from toolcaddie.core.run import PendingCall, RunResult, Transcript
from toolcaddie.core.tool import JsonObject

BETWEEN_ROUNDS = "\n\n"
"""Separator of the texts of two model calls."""

_REWRITTEN = ("system", "developer")
"""Roles whose text clients change from request to request (the time, the user's name). Digests do not contain it."""


def empty_digest(principal: Principal) -> str:
    """Returns the digest of a principal's conversation without messages.

    All digests begin with the owner, so equal conversations of two principals have different digests.
    """
    return digest_of(*principal.owner)


def extended(digest: str, message: Message) -> str:
    """Returns the digest of a conversation with one more message. It covers roles, texts and calls, without texts that clients
    rewrite."""
    if message.role in _REWRITTEN:
        return digest
    calls = [f"{call.id} {call.name}" for call in message.tool_calls]
    # A client may return the texts of an answer in several blocks or in one, so white space in answers does not count.
    text = "".join(message.text.split()) if message.role == "assistant" else message.text.strip()
    return digest_of(digest, message.role, text, message.tool_call_id or "", *calls)


def digest_of(*parts: str) -> str:
    return hashlib.blake2b("\n".join(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def next_name(transcript: Transcript, result: RunResult) -> str:
    """Returns the name of the conversation in its next request."""
    return transcript.name or extended(transcript.digest, visible_answer(result))


def visible_answer(result: RunResult, *, native: tuple[JsonObject, ...] = (), author: str = "") -> Message:
    """Returns the answer in the form in which the client will send it back. `native`, `author`: as in `Message`."""
    return Message(
        role="assistant",
        content=answer_text(result),
        tool_calls=result.client_calls,
        native=native,
        author=author,
    )


def answer_text(result: RunResult) -> str | None:
    """Returns the text for the caller: all texts that the model wrote in the run, as a stream shows them. If the run waits for a
    person, a note is appended, because plain HTTP has no other way to say so."""
    answers = (message.text for message in result.messages if message.role == "assistant")
    texts = [text for text in answers if text]
    if result.status == "pending":
        texts.append(approval_text(result))
    return BETWEEN_ROUNDS.join(texts) or (None if result.client_calls else "")


def approval_text(result: RunResult) -> str:
    """Returns the text for a caller whose run waits for a person: the calls, and what to do."""
    waiting = [item for item in result.state.pending if item.waiting == "approval"]
    calls = ", ".join(_waiting_call(item) for item in waiting)
    ids = [item.approval for item in waiting]
    looks = ", ".join(f"toolcaddie approvals show {each}" for each in ids)
    return (
        f"This needs a person's approval before it goes on: {calls}. Once it is read ({looks}) and answered (toolcaddie "
        f"approvals approve {' '.join(ids)}), write again and it continues. (run {result.run_id})"
    )


def _waiting_call(item: PendingCall) -> str:
    reason = item.decision.reason if item.decision else ""
    return f"{item.call.name} ({reason})" if reason else item.call.name
