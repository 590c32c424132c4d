"""Follows the stream of a background response, whichever process makes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from toolcaddie.doors.gateway.background import BackgroundResponses
from toolcaddie.doors.gateway.stored import Owner, StoredResponse, StoredResponses
from toolcaddie.wires.bodies import ENCODER
from toolcaddie.wires.responses.replay import replayed

_LOOK_SECONDS = 0.25
"""Seconds between two looks at a response that another process makes."""
_WAITING = b": the response is still being made\n\n"
"""A comment in an event stream, so that no proxy takes the connection for a dead one."""
_LAST_LOOKS = 8
"""Number of looks for the last events of a stream that was followed; they are stored a moment after the response."""


async def followed(
    stored: StoredResponses, background: BackgroundResponses, response_id: str, owner: Owner, place: int = 0
) -> AsyncIterator[bytes]:
    """Yields the events of a response from a place on, as they come. Of a response that is not a stream, they come at its end.

    If another process took the response over, its events begin again, and a client that is further gets the last one.
    """
    lease = at = 0
    while True:
        job = background.job(response_id, owner)
        if job is not None and job.streams:
            async for data in job.follow(place):
                place += len(_pieces(data))
                yield data
            if not job.handed_over:
                return
        current = await stored.get(response_id, owner)
        current = None if current is None else await background.current(current, owner)
        if current is None:  # it was deleted meanwhile
            return
        if not current.unfinished:
            yield _rest(await _events(stored, current, owner, looks=_LAST_LOOKS if at else 1), place, current)
            return
        if current.lease != lease:
            lease, at = current.lease, 0
        live = await stored.live(response_id, owner, at, lease=lease) if current.deferred else None
        if live is None:
            yield _WAITING
            await asyncio.sleep(_LOOK_SECONDS)
            continue
        pieces = _pieces(live)
        fresh = pieces[max(0, place - at) :]
        at += len(pieces)
        if fresh:
            place += len(fresh)
            yield b"".join(fresh)


async def _events(stored: StoredResponses, ended: StoredResponse, owner: Owner, *, looks: int) -> Sequence[bytes]:
    """Returns the events of a response that has ended: as they were sent, or made from the response."""
    for look in range(looks):
        if (sent := await stored.events(ended.response["id"], owner)) is not None:
            return _pieces(sent)
        if look + 1 < looks:
            await asyncio.sleep(_LOOK_SECONDS)
    return _pieces(replayed(ENCODER.encode(ended.response), who="this server"))


def _rest(pieces: Sequence[bytes], place: int, ended: StoredResponse) -> bytes:
    return b"".join(pieces[min(place, len(pieces) - 1) if ended.deferred else place :])


def _pieces(events: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in events.split(b"\n\n") if event]
