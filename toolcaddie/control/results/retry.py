"""Middleware that retries failed calls of tools, if a second run does no harm."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from toolcaddie.control.idempotency import has_key
from toolcaddie.core.content import with_text
from toolcaddie.core.errors import ConfigError
from toolcaddie.core.tool import ToolResult
from toolcaddie.ports import CallNext, Invocation
from toolcaddie.util.log import Logger
from toolcaddie.util.replacing import replace

log = Logger(__name__)

FIRST_WAIT = 0.1
"""Seconds before the second try; the wait doubles from try to try."""

LONGEST_WAIT = 5.0
"""Largest number of seconds between two tries, before `JITTER`."""

JITTER = 0.3
"""Share of a wait that is added at random, so that calls that failed together are not retried together."""

_TEMPORARY = frozenset({"failed", "timeout"})
"""Kinds of errors that a second try may avoid; the other kinds would occur again."""


class Retry:
    """Repeats a failed call up to `max_retries` times, and says in the end how often it was tried.

    It repeats only if a second run does no harm: the tool is read-only or idempotent, or the call carries the tool's
    idempotency key. No try begins later than `within` seconds after the first, if that is set; the end of the run cancels
    the wait.

    `sleep` waits, `chance` returns a random number from 0 to 1, `clock` measures `within`; tests replace them. Runs around
    `ResultCheck` and `Timeout`: a result that `ResultCheck` refuses is retried, and every try has the whole timeout.
    """

    def __init__(
        self,
        max_retries: int = 3,
        *,
        within: float | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_retries < 0:
            raise ConfigError(f"max_retries must be 0 or more, not {max_retries}")
        self._max_retries = max_retries
        self._within = within
        self._sleep = sleep
        self._chance = chance
        self._clock = clock

    async def __call__(self, invocation: Invocation, call_next: CallNext) -> ToolResult:
        start = self._clock()
        result = await call_next(invocation)
        if result.error not in _TEMPORARY or not is_safe_to_repeat(invocation):
            return result
        tries = 1
        while result.error in _TEMPORARY and tries <= self._max_retries:
            wait = self._wait_after(tries)
            if self._within is not None and self._clock() + wait - start > self._within:
                break
            log.info("tool_retried", tool=invocation.tool.name, tries=tries, wait=wait, error=result.error)
            await self._sleep(wait)
            result = await call_next(invocation)
            tries += 1
        if tries == 1:
            return result
        note = f"\n[tried {tries} times]" if result.is_error else ""
        return replace(result, content=with_text(result.content, note) if note else result.content, tries=tries)

    def _wait_after(self, tries: int) -> float:
        # The exponent is bounded, because someone may configure thousands of tries.
        return float(min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(tries - 1, 16)) * (1 + JITTER * self._chance()))


def is_safe_to_repeat(invocation: Invocation) -> bool:
    """Returns True if a second run of this very call changes nothing more than the first."""
    tool = invocation.tool
    if tool.annotations.read_only or tool.annotations.idempotent:
        return True
    return has_key(tool, invocation.arguments)
