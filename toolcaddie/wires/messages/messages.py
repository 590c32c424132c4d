"""Conversion of conversations between Anthropic's Messages API and our messages, in both directions.

`where` is the path of a message or block in the request, for error messages.

The API requires alternating turns that begin with the user's, a result for every call at the start of the next turn, ids
of a limited alphabet that never repeat, and no empty text. Other APIs allow more, and a conversation may have begun with any of
them. It is converted without loss; a message that the API cannot express is refused with an error that names it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcaddie.core.content import Content
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message
from toolcaddie.core.tool import ToolCall
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.messages.content import (
    MESSAGES,
    TEXT,
    Block,
    read_blocks,
    refused,
    speaks,
    text_block,
    write_blocks,
)

THINKING = frozenset({"thinking", "redacted_thinking"})
NOT_JSON = "INVALID_JSON"
"""The key under which a call's arguments are sent if they are not JSON, as the API's guide recommends."""

_CALL, _RESULT = "tool_use", "tool_result"
_REFERENCE, _ADDITION = "tool_reference", "tool_addition"
_RESULT_FIELDS = frozenset({"type", "tool_use_id", "content", "is_error"})
_NO_TEXT = "(empty message)"
"""Text of a required turn without text: the API refuses empty turns and empty texts."""
_NO_RESULT = "There is no result: the turn was interrupted before this call was answered."
_NO_REASON = "The tool failed and gave no reason."
_MAX_ID = 64
_MAX_NAME = 128
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_ARGUMENTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation in the form of the API, as `conversation` returns it."""

    system: list[Block]
    messages: list[Block]
    revealed_early: frozenset[str]
    """Tools that cannot be deferred, because the conversation reveals them at a place where the API has no `tool_addition`."""
    adds: bool
    """True if tools are added between messages, which is a beta feature of the API."""


def conversation(
    messages: Sequence[Message], *, author: str, mid_system: bool = False, deferred: Collection[str] = ()
) -> Conversation:
    """Returns the conversation for the model `author` (see `Message.author`). Answers of this model are sent back unchanged.

    `mid_system`: the model accepts system messages within the conversation; otherwise they become notes in the user's turn.
    `deferred`: the tools that are hidden until a message reveals them. Raises `RequestError` naming a message that this API
    cannot express.
    """
    head = 0
    while head < len(messages) and messages[head].role in ("system", "developer"):
        head += 1
    turns = _Turns(author=author, mid_system=mid_system, deferred=frozenset(deferred))
    system = [
        block for place, message in enumerate(messages[:head]) for block in write_blocks(message, f"messages[{place}]")
    ]
    turns.revealed_early.update(name for message in messages[:head] for name in message.revealed)
    for place in range(head, len(messages)):
        turns.add(messages[place], f"messages[{place}]")
    return Conversation(
        system=system, messages=turns.end(), revealed_early=frozenset(turns.revealed_early), adds=turns.adds
    )


class _Turns:
    """Builds the messages one after another. It collects the user's turn until the turn is complete, because the tool results
    in a turn must come first, whatever their order in the conversation was."""

    def __init__(self, *, author: str, mid_system: bool, deferred: frozenset[str]) -> None:
        self.revealed_early: set[str] = set()
        self.adds = False
        self._author = author
        self._mid_system = mid_system
        self._deferred = deferred
        self._messages: list[Block] = []
        self._results: list[Block] = []
        self._words: list[Block] = []
        self._notes: list[Block] = []
        """System messages that can be messages of their own if the user's turn ends with them."""
        self._added: list[Block] = []
        """Tools that are revealed after the user's turn."""
        self._open: list[tuple[str, str]] = []
        """Calls without a result so far: the id in our messages, and the id that is sent."""
        self._used: set[str] = set()

    def add(self, message: Message, where: str) -> None:
        if message.role == "assistant":
            self._assistant(message, where)
        elif message.role in ("system", "developer"):
            self._system(write_blocks(message, where), message.revealed)
        elif message.role == "user":
            self._notes_within()
            self._words += write_blocks(message, where, media=True) or [text_block(_NO_TEXT)]
        elif message.role == "tool":
            self._notes_within()
            self._result(message, where)
        else:
            raise refused(f"{where}: messages with role {message.role!r} cannot be sent to this provider")

    def end(self) -> list[Block]:
        self._close_turn()
        if not self._messages or self._messages[0]["role"] != "user":
            self._messages.insert(0, {"role": "user", "content": [text_block(_NO_TEXT)]})
        last = self._messages[-1]["content"]
        if self._messages[-1]["role"] == "assistant" and last[-1]["type"] == TEXT:
            # The model continues this text; the API refuses one that ends with white space.
            last[-1] = {**last[-1], "text": last[-1]["text"].rstrip()}
        return self._messages

    # ---------------------------------------------------------------- the user's turn

    def _close_turn(self) -> None:
        self._results += [
            {"type": "tool_result", "tool_use_id": sent_id, "is_error": True, "content": _NO_RESULT}
            for _, sent_id in self._open
        ]
        content = self._results + self._words
        if content:
            self._messages.append({"role": "user", "content": content})
        if self._notes or self._added:
            self._messages.append({"role": "system", "content": self._notes + self._added})
        self._results, self._words, self._notes, self._added, self._open = [], [], [], [], []

    def _system(self, blocks: list[Block], revealed: Sequence[str]) -> None:
        behind = self._mid_system and bool(self._results or self._words or self._open)
        if behind:
            self._notes += blocks
            self._added += [
                {"type": "tool_addition", "tool": {"type": "tool_reference", "name": name}}
                for name in dict.fromkeys(revealed)
                if name in self._deferred
            ]
            self.adds = self.adds or bool(self._added)
        else:
            self._words += map(_note, blocks)
            self.revealed_early.update(revealed)

    def _notes_within(self) -> None:
        """Moves system messages into the user's turn, because the turn continues. A system message of its own may only follow a
        whole turn."""
        self._words += map(_note, self._notes)
        self._notes = []

    def _result(self, message: Message, where: str) -> None:
        sent_id = self._sent_id(message.tool_call_id)
        if sent_id is None:
            raise refused(
                f"{where}: the result for {message.tool_call_id!r} answers no call of the assistant's message before it"
            )
        answer = write_blocks(message, where, media=True)
        beside = message.extra if message.author == MESSAGES and message.extra else {}
        result: Block = {**beside, "type": "tool_result", "tool_use_id": sent_id}
        revealed = [name for name in dict.fromkeys(message.revealed) if name in self._deferred]
        if message.is_error:
            result |= {"is_error": True, "content": answer or _NO_REASON}
        elif revealed:  # a result that names tools may contain nothing else, so its text follows after all results
            result["content"] = [{"type": "tool_reference", "tool_name": name} for name in revealed]
            self._words += [text_block(f"Result of the call {sent_id}:"), *answer] if answer else []
        elif answer:
            result["content"] = answer
        self._results.append(result)

    def _sent_id(self, call_id: str | None) -> str | None:
        for place, (own_id, sent_id) in enumerate(self._open):
            if own_id == call_id:
                del self._open[place]
                return sent_id
        return None

    # ---------------------------------------------------------------- the assistant's turn

    def _assistant(self, message: Message, where: str) -> None:
        blocks = self._native_blocks(message) or _rebuilt(message, where)
        if not blocks:
            return
        self._close_turn()
        calls = [block for block in blocks if block["type"] == _CALL]
        for block, call in zip(calls, message.tool_calls, strict=True):
            block["id"] = self._fresh(call.id)
            self._open.append((call.id, block["id"]))
        if self._messages and self._messages[-1]["role"] == "assistant":
            self._messages[-1]["content"] += blocks
        else:
            self._messages.append({"role": "assistant", "content": blocks})

    def _native_blocks(self, message: Message) -> list[Block]:
        """Returns the message's native blocks; no blocks if another model wrote them or they do not match the calls.

        Blank texts are omitted: the API sometimes writes them, but refuses them in a request.
        """
        if not message.native or message.author not in (self._author, MESSAGES):
            return []
        blocks = [dict(block) for block in message.native if block.get("type") != TEXT or speaks(block.get("text"))]
        return blocks if sum(block["type"] == _CALL for block in blocks) == len(message.tool_calls) else []

    def _fresh(self, call_id: str) -> str:
        """Returns an unused id of the API's alphabet, the same in every request with the same conversation."""
        digest = hashlib.sha256(call_id.encode(errors="surrogatepass")).hexdigest()
        base = call_id if _ID.match(call_id) else f"call_{digest[:32]}"
        sent_id, number = base, 1
        while sent_id in self._used:
            number += 1
            sent_id = f"{base[: _MAX_ID - 8]}_{number}"
        self._used.add(sent_id)
        return sent_id


def _rebuilt(message: Message, where: str) -> list[Block]:
    return [*write_blocks(message, where), *(write_call(call) for call in message.tool_calls)]


def write_call(call: ToolCall) -> Block:
    name = call.name if len(call.name) <= _MAX_NAME else call.name[:_MAX_NAME]
    return {"type": _CALL, "id": call.id, "name": _NO_NAME.sub("_", name) or "_", "input": _input(call)}


def _input(call: ToolCall) -> Any:
    """Returns arguments as an object: unchanged, or as text under the key `NOT_JSON`."""
    if call.extra and "type" in call.extra:  # a custom call of chat completions: its input is text
        return {"input": call.arguments}
    try:
        _ARGUMENTS.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {NOT_JSON: call.arguments} if speaks(call.arguments) else {}
    return msgspec.Raw(call.arguments.encode())


def _note(block: Block) -> Block:
    """Returns a system message from the middle of a conversation as part of the user's turn."""
    return {**block, "text": f"<system_note>\n{block['text']}\n</system_note>"}


# ---------------------------------------------------------------- at a door


def read_conversation(system: Any, messages: Sequence[Any]) -> tuple[Message, ...]:
    """Returns a client's conversation. Results are messages of their own, as on all wires. An assistant's blocks are kept
    unchanged (`Message.native`), so that thinking keeps its signatures. Raises `RequestError` naming the field."""
    read = [Message(role="system", content=_content(system, "system"))] if system else []
    for place, item in enumerate(messages):
        read.extend(_read_message(item, f"messages.{place}"))
    return tuple(read)


def _read_message(item: Any, where: str) -> Iterator[Message]:
    role = item.get("role") if isinstance(item, Mapping) else None
    if role not in ("user", "assistant", "system"):
        raise RequestError(f"{where}.role: must be 'user', 'assistant' or 'system'", param=f"{where}.role")
    content = item.get("content")
    if isinstance(content, str):
        yield Message(role=role, content=content)
        return
    blocks = _checked_blocks(content, f"{where}.content")
    if role == "assistant":
        yield _read_answer(blocks, f"{where}.content")
    elif role == "user":
        yield from _read_turn(blocks, f"{where}.content")
    else:
        yield _read_note(blocks)


def _checked_blocks(content: Any, where: str) -> Sequence[Mapping[str, Any]]:
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise RequestError(f"{where}: must be a string or a list of blocks", param=where)
    for place, block in enumerate(content):
        if not isinstance(block.get("type"), str):
            raise RequestError(f"{where}.{place}.type: must name the type of the block", param=f"{where}.{place}.type")
    return content


def _content(content: Any, where: str) -> Content:
    return content if isinstance(content, str) else read_blocks(_checked_blocks(content, where))


def _read_turn(blocks: Sequence[Mapping[str, Any]], where: str) -> Iterator[Message]:
    """Yields a user's turn: each result as a message, and the blocks between two results as another."""
    words: list[Mapping[str, Any]] = []
    for place, block in enumerate(blocks):
        if block.get("type") != _RESULT:
            words.append(block)
            continue
        if words:
            yield Message(role="user", content=read_blocks(words))
            words = []
        yield _read_result(block, f"{where}.{place}")
    if words or not blocks:
        yield Message(role="user", content=read_blocks(words))


def _read_result(block: Mapping[str, Any], where: str) -> Message:
    """Returns a result as a message. Its references to tools become `revealed`: from then on the model sees these tools, which
    are deferred in the array. Other fields go to `extra`; `author` then says that they are fields of this API."""
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str):
        raise RequestError(f"{where}.tool_use_id: must name the call it answers", param=f"{where}.tool_use_id")
    inside = block.get("content") or ""
    parts = [] if isinstance(inside, str) else _checked_blocks(inside, f"{where}.content")
    words = [part for part in parts if part.get("type") != _REFERENCE]
    names = (part.get("tool_name") for part in parts if part.get("type") == _REFERENCE)
    extra = {name: value for name, value in block.items() if value is not None and name not in _RESULT_FIELDS}
    return Message(
        role="tool",
        tool_call_id=call_id,
        content=inside if isinstance(inside, str) else read_blocks(words) if words else "",
        is_error=block.get("is_error") is True,
        revealed=tuple(name for name in names if isinstance(name, str)),
        extra=extra or None,
        author=MESSAGES if extra else "",
    )


def _read_answer(blocks: Sequence[Mapping[str, Any]], where: str) -> Message:
    """Returns an earlier answer. Thinking without a signature, which only other models write, is omitted, because the API
    refuses it."""
    blocks = [block for block in blocks if block.get("type") != "thinking" or block.get("signature")]
    words = [block for block in blocks if block.get("type") not in (_CALL, *THINKING)]
    calls = [_read_call(block, f"{where}.{place}") for place, block in enumerate(blocks) if block.get("type") == _CALL]
    texts = [block for block in words if block.get("type") == TEXT]
    return Message(
        role="assistant",
        content=read_blocks(texts) if texts else None if calls else "",
        tool_calls=tuple(calls),
        native=tuple(blocks),
        author=MESSAGES,
    )


def _read_call(block: Mapping[str, Any], where: str) -> ToolCall:
    call_id, name, arguments = block.get("id"), block.get("name"), block.get("input", {})
    if not isinstance(call_id, str) or not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise RequestError(f"{where}: a tool_use must have an id, a name and an object as its input", param=where)
    raw = arguments.get(NOT_JSON) if len(arguments) == 1 else None
    text = raw if isinstance(raw, str) else ENCODER.encode(arguments).decode()
    return ToolCall(id=call_id, name=name, arguments=text)


def _read_note(blocks: Sequence[Mapping[str, Any]]) -> Message:
    """Returns a system message within the conversation, with the tools it adds."""
    added = [block.get("tool") for block in blocks if block.get("type") == _ADDITION]
    names = [tool.get("name") for tool in added if isinstance(tool, Mapping)]
    words = [block for block in blocks if block.get("type") != _ADDITION]
    return Message(
        role="system",
        content=read_blocks(words) if words else "",
        revealed=tuple(name for name in names if isinstance(name, str)),
    )
