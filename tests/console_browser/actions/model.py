"""The model of these tests: it does what the message says, so that each test decides what happens."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any, Literal

from toolcaddie.testing import calls, paced, refuse, say

_CALL = re.compile(r"^call (\S+) (\{.*\})$", re.MULTILINE)
_LONGEST_WAIT = 60.0


class Gate(asyncio.Semaphore):
    """A gate before each piece of a slow answer, which another thread opens."""

    def __init__(self) -> None:
        super().__init__(0)
        self._pieces = threading.Semaphore(0)

    async def acquire(self) -> Literal[True]:
        await asyncio.to_thread(self._pieces.acquire, timeout=_LONGEST_WAIT)
        return True

    def open(self, pieces: int) -> None:
        """Lets so many pieces pass."""
        self._pieces.release(pieces)


class Model:
    """Answers `call TOOL {...}` with calls, one for each such line; `slowly TEXT` with this text, when the gate is opened; what
    tools have answered with `Done: ` and that; `fail TEXT` with an error; and everything else with `You wrote: ` and that."""

    def __init__(self) -> None:
        self._gate = Gate()

    def close(self) -> Gate:
        """Returns the gate before the next slow answers, which is closed."""
        self._gate = Gate()
        return self._gate

    def __call__(self, body: Any) -> Any:
        last = body["messages"][-1]
        text = last["content"]
        if last["role"] == "tool":
            return say(f"Done: {text}")
        if requests := _CALL.findall(text):
            return calls(*requests, ids=[""] * len(requests))
        if text.startswith("fail "):
            return refuse(400, text)
        if text.startswith("slowly "):
            return paced(say(text.removeprefix("slowly ")), self._gate)
        return say(f"You wrote: {text}")
