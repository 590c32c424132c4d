"""The scripted model: its answers follow from the conversation alone, so that a repeated question gets the same answer.

A request says `REQUEST-ID: write N`; the model writes the entries REQUEST-ID-1 to REQUEST-ID-N, one a round, counts them,
and says that it is done. An entry that is in the book twice was written by two calls.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.testing import call, say
from toolcaddie.testing.script import Reply

ASKED = re.compile(r"^(?P<request>\S+): write (?P<entries>\d+)$")
_SLOWEST = 0.05


def request_text(request: str, entries: int) -> str:
    """What a client says."""
    return f"{request}: write {entries}"


async def answer_on_wire(body: Mapping[str, Any]) -> Reply:
    """The answer to a chat-completions request."""
    await asyncio.sleep(random.uniform(0, _SLOWEST))
    messages = body["messages"]
    text = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    return _answer(text, sum(message["role"] == "tool" for message in messages))


async def answer_in_process(request: Any) -> Reply:
    """The answer to a `ModelRequest`."""
    await asyncio.sleep(random.uniform(0, _SLOWEST))
    messages: Sequence[Any] = request.messages
    text = next(message.text for message in reversed(messages) if message.role == "user")
    return _answer(text, sum(message.role == "tool" for message in messages))


def _answer(text: str, results: int) -> Reply:
    asked = ASKED.match(text)
    assert asked is not None, text
    if results < int(asked["entries"]):
        return call("write_entry", {"entry": f"{asked['request']}-{results + 1}"})
    if results == int(asked["entries"]):
        return call("count_entries", {})
    return say("done")
