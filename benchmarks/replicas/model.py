"""The scripted model behind the servers. Its answers depend on the conversation alone, so a repeated question gets the same one.

A request is `ID: chat`, `ID: read` or `ID: write`; the last two make the model call a tool once, and `ID: twice` makes it call
the reading tool twice at once. It says `done ID:`, or `unknown ID:` if the result of a call does not say that it is done. Some
answers are faults: the upstream refuses, breaks off, or answers with something that is no JSON.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

from toolcaddie.testing import calls, cut, garbage, refuse, say

KINDS = {"chat": 0.70, "read": 0.20, "write": 0.10}
"""Kinds of requests, with their shares."""


def request_text(request: str, kind: str) -> str:
    return f"{request}: {kind} {'read ' if kind == 'twice' else ''}an entry of the book of entries"


_MOST_IN_A_ROW = 2


class Model:
    """Answers requests of the chat-completions wire. `faults`: the share of requests that fail. A request fails at most twice in
    a row, so that its third attempt is answered: a model that never answers is another test."""

    def __init__(self, faults: float) -> None:
        self._faults = faults
        self._random = random.Random(7)
        self.failed = 0
        self._in_a_row: Counter[str] = Counter()
        """Faults since the last answer, by request."""

    def __call__(self, body: Mapping[str, Any]) -> Any:
        messages = body["messages"]
        request, kind, *_ = next(each["content"] for each in reversed(messages) if each["role"] == "user").split()
        if self._random.random() < self._faults and self._in_a_row[request] < _MOST_IN_A_ROW:
            self.failed += 1
            self._in_a_row[request] += 1
            return self._random.choice((refuse(503), refuse(500), garbage(), cut(say("nothing"), after=1)))
        self._in_a_row.pop(request, None)
        results = [message["content"] for message in messages if message["role"] == "tool"]
        if kind == "chat" or results:
            return say(f"{'done' if all(map(_is_done, results)) else 'unknown'} {request}")
        tool, entry = f"{'read' if kind == 'twice' else kind}_entry", request.rstrip(":")
        entries = (entry, f"{entry}-2") if kind == "twice" else (entry,)
        return calls(*[(tool, {"entry": each}) for each in entries])


def _is_done(result: str) -> bool:
    """Returns True for a result of a tool of `tools.py`, and False for what is told of a call that was cut off."""
    return result.startswith("written: ") or result.endswith(" is in the book")
