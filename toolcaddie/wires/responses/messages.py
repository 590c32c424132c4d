"""Conversion between our types and the Responses API, in both directions: conversations, which are lists of items there
(messages, calls, results, reasoning), and definitions of tools.

The provider stores nothing, so every request contains the whole conversation. Items of an earlier answer are sent back unchanged
but without their ids. An id refers to a stored item: some servers look it up nevertheless and refuse the request if they do not
find it. No server needs the ids, because reasoning contains its own encrypted text.

Deferred definitions (`ModelRequest.deferred`) are not in `tools`, because there the model would see the name and description of
each. If a message reveals some of them, an item `additional_tools` with the whole definitions follows the message. So the
beginning of the conversation stays the same, and the provider's cache stays valid.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from toolcaddie.core.content import Content, Refusal, Text
from toolcaddie.core.errors import RequestError
from toolcaddie.core.message import Message, ModelRequest, Role, is_empty_note
from toolcaddie.core.tool import JsonObject, ToolCall
from toolcaddie.core.wire import client_author
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.responses.content import read_content, write_content, write_words
from toolcaddie.wires.responses.own_calls import (
    CUSTOM_CALL,
    FUNCTION_CALL,
    OUTPUTS,
    SEARCH_CALL,
    call_of,
    is_call,
    own_call,
)
from toolcaddie.wires.responses.own_forms import grouped, names_in, search_text

MESSAGE, REASONING = "message", "reasoning"
"""Types of items that are read and written, beside calls and their results."""
BETWEEN = "\n\n"
"""Separator in our text between two messages of one answer, or two paragraphs of a summary, which are separate in this API."""
CLIENT = client_author("responses")
"""The author of answers that a client sends back in this API's own items."""

_MAX_CALL_ID = 64
_MAX_NAME = 128
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_FORMS = 8192
_NO_PARAMETERS = {"type": "object", "properties": {}}
_INTERRUPTED = "There is no result: the call was interrupted before it had one."
_ROLES = ("assistant", "developer", "system", "user")
_STRINGS = {
    FUNCTION_CALL: ("call_id", "name", "arguments"),
    CUSTOM_CALL: ("call_id", "name", "input"),
    SEARCH_CALL: ("call_id",),
}
"""Fields of calls that must be strings."""


# ---------------------------------------------------------------- tools


class ToolForms:
    """Translates definitions of tools from the format of chat completions to that of this API (a form). An encoded definition is
    translated only once, because it cannot change.

    Raises `RequestError` for a definition that this API cannot express.
    """

    def __init__(self) -> None:
        self._forms: dict[int, tuple[msgspec.Raw, tuple[str, Any]]] = {}
        """Forms by the identity of the definition. Keeping the definition too ensures that no other object gets its identity."""

    def split(self, request: ModelRequest) -> tuple[list[tuple[str, Any]], dict[str, Any]]:
        """Returns two values: names and forms of the tools to send, and the forms of the deferred tools by name."""
        forms = [self._form(definition) for definition in request.tools]
        if not request.deferred:
            return forms, {}
        forms_to_send = [form for form in forms if form[0] not in request.deferred]
        return forms_to_send, {name: form for name, form in forms if name in request.deferred}

    def _form(self, definition: Any) -> tuple[str, Any]:
        if not isinstance(definition, msgspec.Raw):
            return _flat(definition)
        entry = self._forms.get(id(definition))
        if entry is None:
            if len(self._forms) >= _MAX_FORMS:
                self._forms.clear()
            name, form = _flat(msgspec.json.decode(definition))
            entry = self._forms[id(definition)] = (definition, (name, msgspec.Raw(ENCODER.encode(form))))
        return entry[1]


def _flat(definition: JsonObject) -> tuple[str, Any]:
    """Returns name and form of one definition. A tool that the provider runs itself has no name and stays
    unchanged."""
    kind = definition.get("type")
    if kind == "custom":
        raise RequestError("tools of type 'custom' cannot be sent to the Responses API from here", param="tools")
    if kind != "function":
        return "", definition
    function = definition.get("function", definition)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError("a tool of type 'function' has no name", param="tools")
    form = {
        "type": "function",
        **function,
        "parameters": function.get("parameters") or _NO_PARAMETERS,
        # If it is missing, the API sets it to true where the schema allows, and the model must then write every argument.
        "strict": function.get("strict") or False,
    }
    return function["name"], form


# ---------------------------------------------------------------- writing a conversation


class Conversation:
    """Builds the items of a conversation, message by message. Every call is followed by exactly one result."""

    def __init__(self, author: str, deferred: Mapping[str, Any], own_forms: Mapping[str, JsonObject]) -> None:
        self.items: list[Any] = []
        self.loaded: set[str] = set()
        """Names of the tools whose definitions are in the items so far."""
        self._author = author
        self._own_forms = own_forms
        self._deferred = deferred
        self._revealed: list[str] = []
        self._used: set[str] = set()
        self._open: dict[str, list[tuple[str, str]]] = {}
        """Calls of the last answer that have no result yet: for each id in our messages, the ids that were sent and the types of
        the calls."""

    def take(self, message: Message) -> None:
        if message.role == "tool":
            self._add_result(message)
            return
        self.close_turn()
        if message.role == "assistant":
            self._add_answer(message)
        elif message.role in ("system", "developer", "user"):
            self._add_message(message)
        else:
            raise RequestError(
                f"the Responses API does not accept messages with role {message.role!r}", param="messages"
            )

    def close_turn(self) -> None:
        """Ends a turn: adds a result to each call without one, then the revealed definitions."""
        for calls in self._open.values():
            self.items.extend(_output(call_id, kind, _INTERRUPTED) for call_id, kind in calls)
        self._open.clear()
        self._reveal(self._revealed)
        self._revealed.clear()

    def _reveal(self, names: Sequence[str]) -> None:
        new = [name for name in dict.fromkeys(names) if name in self._deferred and name not in self.loaded]
        if new:
            self.loaded.update(new)
            definitions = grouped([(name, self._deferred[name]) for name in new], self._own_forms)
            self.items.append({"type": "additional_tools", "role": "developer", "tools": definitions})

    def _add_message(self, message: Message) -> None:
        """Adds a message that is neither an answer nor a result. A message without text may only
        reveal tools, or be an item with the client's own definitions."""
        self._add_definitions(message)
        if not is_empty_note(message):
            self.items.append({"role": message.role, "content": write_content(message)})
        self._reveal(message.revealed)

    def _add_definitions(self, message: Message) -> None:
        """Adds the client's own item with definitions of tools."""
        for item in message.native if message.author == CLIENT else ():
            self.items.append({name: value for name, value in item.items() if name != "id"})
            self.loaded.update(names_in(item))

    def _add_result(self, message: Message) -> None:
        calls = self._open.get(message.tool_call_id or "")
        if not calls:
            raise RequestError(
                f"a result answers the call {message.tool_call_id!r}, which the answer before it did not make",
                param="messages",
            )
        call_id, kind = calls.pop(0)
        if kind == SEARCH_CALL and message.native:
            self._add_definitions(message)
            self.items[-1]["call_id"] = call_id
        else:
            self.items.append(_output(call_id, kind, write_content(message)))
        self._revealed.extend(message.revealed)

    def _add_answer(self, message: Message) -> None:
        own = message.native if message.author in (self._author, CLIENT) else ()
        calls = [item for item in own if is_call(item)]
        is_whole = bool(own) and len(calls) == len(message.tool_calls)
        if not is_whole:
            calls = [own_call(_call(call), self._own_forms) for call in message.tool_calls]
        ids = [self._sent_id(call.id, item["type"]) for call, item in zip(message.tool_calls, calls, strict=True)]
        if is_whole:
            self._add_own(own, ids)
            return
        words = write_words(message)
        if words:
            self.items.append({"role": "assistant", "content": words})
        self.items.extend({**item, "call_id": call_id} for item, call_id in zip(calls, ids, strict=True))

    def _add_own(self, native: Sequence[JsonObject], ids: Sequence[str]) -> None:
        """Adds the items of an answer unchanged."""
        self.items.extend(_returned(native, ids))
        for item in native:
            if item.get("type") == OUTPUTS[SEARCH_CALL]:
                self.loaded.update(names_in(item))

    def _sent_id(self, own_id: str, kind: str) -> str:
        """Returns the id to send with a call: `own_id`, or another one if `own_id` is too long or was used before."""
        digest = hashlib.sha256(own_id.encode(errors="surrogatepass")).hexdigest()
        call_id = own_id if 0 < len(own_id) <= _MAX_CALL_ID else f"call_{digest[:32]}"
        free, count = call_id, 1
        while free in self._used:
            count += 1
            free = f"{call_id[: _MAX_CALL_ID - 8]}_{count}"
        self._used.add(free)
        self._open.setdefault(own_id, []).append((free, kind))
        return free


def _returned(native: Sequence[JsonObject], ids: Sequence[str]) -> list[dict[str, Any]]:
    """Returns an answer's own items, in order, without ids, and without nulls, which some servers refuse in a request."""
    left = iter(ids)
    items: list[dict[str, Any]] = []
    for block in native:
        kind = block.get("type")
        item = {name: value for name, value in block.items() if value is not None}
        if is_call(item):
            item["call_id"] = next(left)
        elif kind == REASONING and not item.get("encrypted_content"):
            if item.get("content"):  # not encrypted: it came from a self-hosted server, which needs the id
                items.append(item)
            continue
        elif kind == MESSAGE and not item.get("content"):
            continue
        elif kind not in (MESSAGE, REASONING):
            items.append(item)
            continue
        item.pop("id", None)
        items.append(item)
    while items and items[-1]["type"] == REASONING:  # reasoning without a following item is refused
        items.pop()
    return items


def _call(call: ToolCall) -> JsonObject:
    arguments = call.arguments or "{}"
    if call.extra and "type" in call.extra:  # a custom call of chat completions: its input is not JSON
        arguments = ENCODER.encode({"input": call.arguments}).decode()
    name = _NO_NAME.sub("_", call.name)[:_MAX_NAME] or "_"
    return {"type": FUNCTION_CALL, "call_id": call.id, "name": name, "arguments": arguments}


def _output(call_id: str, kind: str, output: str | list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the result of a call of this type."""
    item: dict[str, Any] = {"type": OUTPUTS[kind], "call_id": call_id}
    if kind == SEARCH_CALL:
        return {**item, "execution": "client", "status": "completed", "tools": []}
    return {**item, "output": output}


# ---------------------------------------------------------------- reading a conversation


def read_items(items: Sequence[Any]) -> Iterator[Message]:
    """Yields the messages of a conversation. The items of one answer (reasoning, text, calls) become one message, which keeps
    them unchanged. Raises `RequestError` naming the field at fault."""
    answer: list[JsonObject] = []
    for index, item in enumerate(items):
        where = f"input[{index}]"
        if not isinstance(item, dict):
            raise RequestError(f"'{where}' must be an object", param=where)
        kind = item.get("type", MESSAGE)
        if kind == "item_reference":
            raise RequestError(
                f"'{where}' is of the type {kind!r}, which is not accepted here: send the items themselves",
                param=f"{where}.type",
            )
        if (read := _reader_of(item, kind)) is not None:
            if answer:
                yield _read_answer(answer)
                answer = []
            yield read(item, where)
        else:
            _check_answer_item(item, kind, where)
            answer.append({"type": kind, **item})
    if answer:
        yield _read_answer(answer)


def _reader_of(item: JsonObject, kind: Any) -> Callable[[JsonObject, str], Message] | None:
    """Returns the function that reads an item; None: the item is part of an answer."""
    if kind == OUTPUTS[SEARCH_CALL]:
        return _read_search if item.get("execution") == "client" else None
    if kind == "additional_tools":
        return _read_definitions
    if kind in (OUTPUTS[FUNCTION_CALL], OUTPUTS[CUSTOM_CALL]):
        return _read_output
    return _read_message if kind == MESSAGE and item.get("role") != "assistant" else None


def _read_definitions(item: JsonObject, where: str) -> Message:
    """Returns definitions of tools as a message without text; only this API sends it."""
    return Message(role="developer", content="", native=(item,), author=CLIENT)


def _read_search(item: JsonObject, where: str) -> Message:
    """Returns the result of a search for tools."""
    call_id = _call_id(item, where)
    return Message(role="tool", tool_call_id=call_id, content=search_text(item), native=(item,), author=CLIENT)


def _read_message(item: JsonObject, where: str) -> Message:
    if item.get("role") not in _ROLES:
        raise RequestError(f"'{where}.role' must be one of {', '.join(_ROLES)}", param=f"{where}.role")
    return Message(role=cast(Role, item["role"]), content=read_content(item.get("content"), f"{where}.content"))


def _read_output(item: JsonObject, where: str) -> Message:
    content = read_content(item.get("output"), f"{where}.output")
    return Message(role="tool", tool_call_id=_call_id(item, where), content=content)


def _call_id(item: JsonObject, where: str) -> str:
    call_id = item.get("call_id")
    if not isinstance(call_id, str):
        raise RequestError(f"'{where}.call_id' must name the call it answers", param=f"{where}.call_id")
    return call_id


def _check_answer_item(item: JsonObject, kind: Any, where: str) -> None:
    if not isinstance(kind, str):
        raise RequestError(f"'{where}.type' must be a string", param=f"{where}.type")
    for name in _STRINGS.get(kind, ()) if is_call({"type": kind, **item}) else ():
        if not isinstance(item.get(name), str):
            raise RequestError(f"'{where}.{name}' must be a string", param=f"{where}.{name}")
    if kind == MESSAGE:
        read_content(item.get("content"), f"{where}.content")


def _read_answer(items: Sequence[JsonObject]) -> Message:
    """Returns the items of one answer as a message."""
    calls = tuple(call_of(item) for item in items if is_call(item))
    contents = [read_content(item.get("content"), "content") for item in items if item["type"] == MESSAGE]
    texts = [_words_of(content) for content in contents]
    return Message(
        role="assistant",
        content=BETWEEN.join(filter(None, texts)) or (None if calls else ""),
        tool_calls=calls,
        native=tuple(items),
        author=CLIENT,
    )


def _words_of(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.text for block in content if isinstance(block, Text | Refusal))
