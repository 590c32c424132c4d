"""A check with one long conversation over many providers, for tests of providers (`check_conversation`).

A random generator with a fixed seed chooses the provider of each round, the answer of the model, and the results of its tools.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack

from toolcaddie.core.content import Content, Text
from toolcaddie.core.errors import ProviderProtocolError
from toolcaddie.core.message import Message, ModelReply
from toolcaddie.core.tool import ToolCall
from toolcaddie.ports import Provider
from toolcaddie.testing.provider_contract.answers import TOOLS
from toolcaddie.testing.provider_contract.asking import THINKING
from toolcaddie.testing.provider_contract.subject import (
    Subject,
    ask,
    in_order_and_once,
    nothing_refused,
    request_of,
    stage,
    user,
)
from toolcaddie.testing.script import Reply, calls, say
from toolcaddie.testing.upstream import ScriptedUpstream
from toolcaddie.util.replacing import replace

_MARK = re.compile(r"(?:said|argument|result)-\d+\.")


async def check_conversation(subjects: Sequence[Subject], *, seed: int, rounds: int = 8) -> None:
    """Checks that no word, argument or result is lost, doubled or reordered in a conversation over these providers.

    In each round, one of the providers sends the whole conversation to its server, which is as strict as the real one. No two
    subjects may have the same name of the provider and the same model. Raises `ContractError`."""
    chance = random.Random(seed)
    story = _Story(chance)
    async with AsyncExitStack() as stack:
        table = [(each, *await stack.enter_async_context(stage(each, lambda _: story.reply()))) for each in subjects]
        for _ in range(rounds):
            await _round(chance.choice(table), story, stream=chance.random() < 0.5)


async def _round(seat: tuple[Subject, Provider, ScriptedUpstream], story: _Story, *, stream: bool) -> None:
    subject, provider, upstream = seat
    request = request_of(subject, *story.messages, tools=TOOLS, params=THINKING, cache=stream)
    try:
        reply = await ask(provider, request, stream)
    except ProviderProtocolError:
        if story.valid:
            raise
        reply = None  # some APIs can express only arguments that are objects; their servers end such an answer with an error
    nothing_refused(upstream)
    in_order_and_once(upstream.requests[-1], story.marks)
    if reply is not None:
        story.continue_with(reply)


class _Story:
    """The conversation so far, and its marks: numbered words such as `said-3.`, which the next request must contain in order."""

    def __init__(self, chance: random.Random) -> None:
        self.messages: list[Message] = [Message(role="system", content="Be brief."), user("said-0.")]
        self.marks = ["said-0."]
        self.valid = True
        """True if all arguments of the last reply were JSON objects."""
        self._chance = chance
        self._numbers = iter(range(1, 1_000_000))
        self._ids: set[str] = set()

    def reply(self) -> Reply:
        """Returns an answer with text, up to four calls, or both, with or without reasoning. Some arguments are not JSON
        objects."""
        self.valid = True
        requested = [
            (self._chance.choice(TOOLS), self._arguments()) for _ in range(self._chance.choice((0, 1, 1, 2, 4)))
        ]
        text = f"said-{next(self._numbers)}." if not requested or self._chance.random() < 0.5 else None
        ids = [self._chance.choice(("", "twice", f"call_{next(self._numbers)}")) for _ in requested]
        reply = calls(*requested, ids=ids, text=text) if requested else say(text or "")
        return replace(reply, reasoning="Which one?" if self._chance.random() < 0.6 else "")

    def _arguments(self) -> str:
        mark = f"argument-{next(self._numbers)}."
        if self._chance.random() < 0.8:
            return self._chance.choice((f'{{"note":"{mark}"}}', f'{{"note":"é {mark}", "more":[1,{{}}]}}'))
        self.valid = False
        return self._chance.choice((f'{{"note":"{mark}', f'["{mark}"]', mark))

    def continue_with(self, reply: ModelReply) -> None:
        """Appends the reply and the results of its calls, and a message of the user if there were no calls, or by chance."""
        own_calls = tuple(replace(each, id=self._own_id(each)) for each in reply.message.tool_calls)
        self._append(replace(reply.message, tool_calls=own_calls), *(self._result(each) for each in own_calls))
        if not own_calls or self._chance.random() < 0.2:
            self._append(user(f"said-{next(self._numbers)}."))

    def _own_id(self, call: ToolCall) -> str:
        own_id = call.id if call.id not in self._ids else f"call_again_{next(self._numbers)}"
        self._ids.add(own_id)
        return own_id

    def _result(self, call: ToolCall) -> Message:
        text = f"result-{next(self._numbers)}." if self._chance.random() < 0.9 else ""
        content: Content = self._chance.choice((text, (Text(text=text),)))
        return Message(role="tool", tool_call_id=call.id, content=content, is_error=self._chance.random() < 0.3)

    def _append(self, *messages: Message) -> None:
        self.messages += messages
        self.marks += (mark for message in messages for mark in _marks_of(message))


def _marks_of(message: Message) -> Iterator[str]:
    yield from _MARK.findall(message.text)
    for call in message.tool_calls:
        yield from _MARK.findall(call.arguments)
