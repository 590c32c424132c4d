"""Digests of conversations, for clients that send the whole conversation with every request and have no name for it.

Such a client sends the answer back in its next request. So the digest of the conversation with that answer is the name
under which the next request finds its stored state.
"""

from __future__ import annotations

import hashlib

from toolcaddie.core.control import Principal
from toolcaddie.core.message import Message
from toolcaddie.core.run import RunResult, Transcript

BETWEEN_ROUNDS = "\n\n"
"""Separator of the texts of two model calls."""

_REWRITTEN = ("system", "developer")
"""Roles whose text clients change from request to request (the time, the user's name): no part of a digest."""


def empty_digest(principal: Principal) -> str:
    """Returns the digest of a principal's conversation without messages.

    All digests begin with the owner, so equal conversations of two principals have different ones.
    """
    return digest_of(*principal.owner)


def extended(digest: str, message: Message) -> str:
    """Returns the digest of a conversation with one more message: roles, texts and calls, without parts that clients rewrite."""
    if message.role in _REWRITTEN:
        return digest
    calls = [f"{call.id} {call.name}" for call in message.tool_calls]
    return digest_of(digest, message.role, message.text.strip(), message.tool_call_id or "", *calls)


def digest_of(*parts: str) -> str:
    return hashlib.blake2b("\n".join(parts).encode(errors="surrogatepass"), digest_size=16).hexdigest()


def next_name(transcript: Transcript, result: RunResult) -> str:
    """Returns the name of the conversation in its next request."""
    return transcript.name or extended(transcript.digest, visible_answer(result))


def visible_answer(result: RunResult) -> Message:
    """Returns the answer in the form in which the client will send it back."""
    return Message(role="assistant", content=answer_text(result), tool_calls=result.client_calls)


def answer_text(result: RunResult) -> str | None:
    """Returns the text for the caller: all texts of the model in its rounds, as in a stream. For a run that waits for a
    person it includes a note, because plain HTTP has no other way to ask."""
    texts = [message.text for message in result.messages if message.role == "assistant" and message.text]
    if result.status == "pending":
        texts.append(approval_text(result))
    return BETWEEN_ROUNDS.join(texts) or (None if result.client_calls else "")


def approval_text(result: RunResult) -> str:
    waiting = ", ".join(item.call.name for item in result.state.pending if item.waiting == "approval")
    return f"This needs a person's approval before it goes on: {waiting} (run {result.run_id})."
