"""The scripted model of the kill tests. Its answers depend on the conversation alone, so that a repeated question gets the same
answer.

The request `REQUEST-ID: write N` makes the model write the entries REQUEST-ID-1 to REQUEST-ID-N with one call per round, count
the entries, and say that it is done. If an entry is in the file of effects twice, two calls wrote it.
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
    """Returns the text of a client's request."""
    return f"{request}: write {entries}"


async def answer_on_wire(body: Mapping[str, Any]) -> Reply:
    """Returns the answer to a chat-completions request, after a short random time."""
    await asyncio.sleep(random.uniform(0, _SLOWEST))
    messages = body["messages"]
    text = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    return _answer(text, sum(message["role"] == "tool" for message in messages))


async def answer_in_process(request: Any) -> Reply:
    """Returns the answer to a `ModelRequest`, after a short random time."""
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
