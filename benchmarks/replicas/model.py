"""The scripted model behind the servers. Its answers depend on the conversation alone, so a repeated question gets the same one.

A request is `ID: chat`, `ID: read` or `ID: write`; the last two make the model call a tool once, and `ID: twice` makes it call
the reading tool twice at once. Some answers are faults: the upstream refuses, breaks off, or answers with something that is no
JSON.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from toolcaddie.testing import calls, cut, garbage, refuse, say

KINDS = {"chat": 0.70, "read": 0.20, "write": 0.10}
"""Kinds of requests, with their shares."""


def request_text(request: str, kind: str) -> str:
    return f"{request}: {kind} {'read ' if kind == 'twice' else ''}an entry of the book of entries"


class Model:
    """Answers requests of the chat-completions wire. `faults`: the share of requests that fail."""

    def __init__(self, faults: float) -> None:
        self._faults = faults
        self._random = random.Random(7)
        self.failed = 0

    def __call__(self, body: Mapping[str, Any]) -> Any:
        if self._random.random() < self._faults:
            self.failed += 1
            return self._random.choice((refuse(503), refuse(500), garbage(), cut(say("nothing"), after=1)))
        messages = body["messages"]
        request, kind, *_ = next(each["content"] for each in reversed(messages) if each["role"] == "user").split()
        if kind == "chat" or any(message["role"] == "tool" for message in messages):
            return say(f"done {request}")
        tool, entry = f"{'read' if kind == 'twice' else kind}_entry", request.rstrip(":")
        entries = (entry, f"{entry}-2") if kind == "twice" else (entry,)
        return calls(*[(tool, {"entry": each}) for each in entries])
