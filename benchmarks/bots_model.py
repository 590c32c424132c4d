"""A scripted model for two bots, an assistant and a therapist, for walks through the product: it does what a person says in five
forms, and nothing else. It reads the conversation as any model does, so it knows only what the product sends.

- "Remember: FACT" saves the fact; "What do you know about THING?" searches the memory and says what it reads;
- "Remind me at TIME: TEXT" makes a job; "Ask BOT: TEXT" hands a message to another bot; "Run: LINE" runs a command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolcaddie.testing import Reply, call, say

_ORDERS = (
    (r"remember: (.+)", "save_memory", lambda match: {"fact": match[1]}),
    (r"what do you know about (.+)\?", "memory_search", lambda match: {"query": match[1], "minScore": 0}),
    (
        r"remind me at (\S+): (.+)",
        "cron",
        lambda match: {"action": "add", "text": match[2], "schedule": {"kind": "at", "at": match[1]}},
    ),
    (
        r"ask (\w+): (.+)",
        "collaborate",
        lambda match: {"action": "send", "targetBotId": match[1], "message": match[2]},
    ),
    (r"run: (.+)", "exec", lambda match: {"command": match[1]}),
)


def reply_to(body: Mapping[str, Any]) -> Reply:
    """Returns the answer to a request of the chat API: the call that the person's last message asks for, or what came of it."""
    messages = body["messages"]
    results = _results(messages)
    if results:
        return say(f"Result: {results[-1]}")
    text = _text(next(message for message in reversed(messages) if message["role"] == "user"))
    for pattern, name, arguments in _ORDERS:
        if match := re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            return call(name, arguments(match))
    return say(f"You said: {text}")


def _results(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the results of the calls after the person's last message."""
    last = max(at for at, message in enumerate(messages) if message["role"] == "user")
    return [_text(message) for message in messages[last:] if message["role"] == "tool"]


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
