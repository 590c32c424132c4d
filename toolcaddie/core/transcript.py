"""Digests of conversations, for clients of the gateway that send the whole conversation with every request without a name for it.

Such a client sends the last answer back in its next request. So the state of a conversation is stored under the digest of the
conversation with that answer, and the next request finds it there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from toolcaddie.core.control import Principal
from toolcaddie.core.message import Message
from toolcaddie.core.meta_names import EXECUTE_TOOL
from toolcaddie.core.run import PendingCall, RunResult, Transcript
from toolcaddie.core.tool import JsonObject, ToolCall

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


def without_calls(messages: Sequence[Message], again: Message) -> tuple[Message, ...]:
    """Returns the messages without the last calls in them and their results, if `again`, which follows later, makes these calls
    too: it waited for a person with some of its calls while others had a result."""
    at = next((number for number in reversed(range(len(messages))) if messages[number].tool_calls), None)
    if at is None or not all(call in again.tool_calls for call in messages[at].tool_calls):
        return tuple(messages)
    ids = {call.id for call in messages[at].tool_calls}
    return (*messages[:at], *(message for message in messages[at + 1 :] if message.tool_call_id not in ids))


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
    reason, name = item.decision.reason if item.decision else "", _tool_name(item.call)
    return f"{name} ({reason})" if reason else name


def _tool_name(call: ToolCall) -> str:
    """Returns the name of the tool that a call runs, also if it runs it through `execute_tool`."""
    if call.name != EXECUTE_TOOL:
        return call.name
    try:
        return msgspec.json.decode(call.arguments, type=_Executed).tool_name
    except msgspec.DecodeError:
        return call.name


class _Executed(msgspec.Struct):
    """The arguments of `execute_tool`, as far as they are read here."""

    tool_name: str
