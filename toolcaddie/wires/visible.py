"""The blocks of a run's answer for a client of the same wire (format of a model API) as the provider: its thinking, its texts and
calls with all of their fields, in their order. The wires of Messages and Responses use it.

A run asks the model in rounds, and the client sees one answer: the blocks of all rounds without the calls that ran inside. A
block is a content block of Messages, or an item of Responses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from toolcaddie.core.message import Message
from toolcaddie.core.tool import JsonObject, ToolCall

BETWEEN = "\n\n"
"""Separator of the texts of two rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of blocks in one API.

    `is_call` returns True for a call, whose id is in the field `call_id`. `new_call`, `new_text`: make a block. `text_of` returns
    the text that a block shows. `prefixed` returns a block with more text before its text.
    """

    is_call: Callable[[JsonObject], bool]
    call_id: str
    new_call: Callable[[ToolCall], JsonObject]
    new_text: Callable[[str], JsonObject]
    text_of: Callable[[JsonObject], str]
    prefixed: Callable[[JsonObject, str], JsonObject]


def visible_blocks(messages: Sequence[Message], calls: Sequence[ToolCall], ending: str, form: Form) -> list[JsonObject]:
    """Returns the blocks of an answer.

    `messages`: the messages of a run. `calls`: the calls for the client. `ending`: a text after all others; empty: none.
    """
    visible = {call.id: call for call in calls}
    blocks: list[JsonObject] = []
    answers = [message for message in messages if message.role == "assistant"]
    for message in answers:
        wrote = any(map(form.text_of, blocks))
        own = list(_blocks_of(message, visible, form, author=answers[-1].author))
        first = next((place for place, block in enumerate(own) if form.text_of(block)), None)
        if wrote and first is not None:
            own[first] = form.prefixed(own[first], BETWEEN)
        blocks += own
    if ending:
        blocks.append(form.new_text(ending))
    return blocks


def _blocks_of(message: Message, visible: dict[str, ToolCall], form: Form, *, author: str) -> Iterator[JsonObject]:
    """Yields the blocks of one message without the calls that are not visible."""
    native = message.native if message.author == author else ()
    if sum(map(form.is_call, native)) != len(message.tool_calls):
        native = ()
    calls = iter(message.tool_calls)
    for block in native:
        if not form.is_call(block):
            yield block
        elif (call := visible.get((made := next(calls)).id)) is not None:
            yield {**block, form.call_id: call.id} if call == made else form.new_call(call)
    if message.text and not any(map(form.text_of, native)):
        yield form.new_text(message.text)
    if not native:
        yield from (form.new_call(visible[made.id]) for made in message.tool_calls if made.id in visible)
