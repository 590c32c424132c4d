"""Listens to a channel, again after each failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from toolcaddie.core.errors import StorageError, ToolcaddieError
from toolcaddie.doors.channels.station import Station
from toolcaddie.util.log import Logger

log = Logger(__name__)

_WAITS: Sequence[float] = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds before a channel that failed is listened to again."""
_STEADY_SECONDS = 60.0
"""Time after which a failure counts as the first one again."""


async def listen_forever(station: Station) -> None:
    """Listens to a channel until it is cancelled; returns if the channel only has a webhook. Raises `StorageError` if this
    process no longer leads."""
    loop, failures = asyncio.get_running_loop(), 0
    while True:
        begun = loop.time()
        try:
            await station.service.listen()
        except StorageError:
            raise
        except ToolcaddieError as error:
            failures = 0 if loop.time() - begun > _STEADY_SECONDS else failures
            wait = _WAITS[min(failures, len(_WAITS) - 1)]
            log.error("channel_interrupted", channel=station.name, error=str(error), wait=wait)
        except Exception:  # code of another package: the other channels go on
            failures, wait = len(_WAITS), _WAITS[-1]
            log.exception("channel_broke", channel=station.name, wait=wait)
        else:
            return
        failures += 1
        await asyncio.sleep(wait)
