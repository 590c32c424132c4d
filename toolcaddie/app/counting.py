"""Counts the trail for the console while `toolcaddie serve` serves requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from toolcaddie.core.capabilities import Prices
from toolcaddie.core.errors import StorageError
from toolcaddie.storage.figures import Figures
from toolcaddie.util.log import Logger

log = Logger(__name__)

_EVERY = 2.0
"""Seconds between two looks at the trail, when everything in it is counted."""
_PAUSE = 0.05
"""Seconds between two steps through a long trail, so that requests have the database most of the time."""
_RETRY = 30.0
"""Seconds after a failure."""


@asynccontextmanager
async def counted(figures: Figures, prices_of: Callable[[str], Prices | None]) -> AsyncIterator[None]:
    """Counts the trail within the block. Several processes may do so at once: each row is counted once."""
    counting = asyncio.create_task(_count_forever(figures, prices_of))
    try:
        yield
    finally:
        counting.cancel()
        await asyncio.wait({counting})


async def _count_forever(figures: Figures, prices_of: Callable[[str], Prices | None]) -> None:
    """Counts until it is cancelled. A failure is logged, and what it left is counted later."""
    while True:
        try:
            progress = await figures.advance(prices_of)
            await asyncio.sleep(_PAUSE if progress.behind else _EVERY)
        except StorageError as error:
            log.warning("trail_not_counted", error=str(error))
            await asyncio.sleep(_RETRY)
