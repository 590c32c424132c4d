"""Waits for an event for some time, in a way that can always be cancelled.

`asyncio.wait_for` cannot, before Python 3.12: it forgets a cancellation that comes together with the event.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def wait_up_to(seconds: float, event: asyncio.Event) -> None:
    """Returns when the event is set, or after so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
