"""The HTTP server of one process: it says when it listens, drains after SIGTERM, and cuts requests that last too long."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import uvicorn

from toolcaddie.doors.cli.accepting import Acceptor, Share
from toolcaddie.util.log import Logger

log = Logger(__name__)

GRACE_SECONDS = 10
"""Seconds after a signal in which open requests may end; then they are cancelled, and the trail is still written."""
CUT_SECONDS = 3
"""Seconds that cancelled requests have to record their cancellation."""
_LOOK_SECONDS = 0.02
"""Seconds between two checks of the open connections at shutdown."""


class Server(uvicorn.Server):
    """A server that calls `started` as soon as it listens, `stopping` when it stops, and `cutting` before it cancels requests. A
    signal stops the server and not the process, so that the trail can still be written.

    The first SIGTERM calls `draining`, and stops the server `drain_seconds` later; another one stops it at once."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        started: Callable[[], None],
        stopping: Callable[[], None],
        cutting: Callable[[], None],
        draining: Callable[[], None],
        drain_seconds: float,
        share: Share | None,
    ) -> None:
        """`share`: the listener that this process shares with other workers; None: uvicorn has one of its own."""
        super().__init__(config)
        self._share = share
        self._acceptor: Acceptor | None = None
        self._on_started = started
        self._on_stopping = stopping
        self._on_cutting = cutting
        self._on_draining = draining
        self._drain_seconds = drain_seconds
        self._cut_tasks: set[asyncio.Task[None]] = set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn for SIGTERM and SIGINT, between two steps of the loop."""
        if sig != signal.SIGTERM or not self._drain_seconds:
            super().handle_exit(sig, frame)
            return
        seconds, self._drain_seconds = self._drain_seconds, 0.0
        self._on_draining()
        log.info("draining", seconds=seconds)
        loop = asyncio.get_running_loop()
        loop.call_soon_threadsafe(loop.call_later, seconds, super().handle_exit, sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._share is not None:
            self._acceptor = Acceptor(self._share, self._protocol, lambda: len(self.server_state.connections))
            self._acceptor.start()
        self._on_started()

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times in a second."""
        if self._acceptor is not None:
            self._acceptor.count()
        return await super().on_tick(counter)

    def _protocol(self) -> asyncio.Protocol:
        """Returns the protocol of a new connection, as uvicorn makes it."""
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops the server. Open requests have `GRACE_SECONDS` to end, or until a second signal; then they are cancelled, and
        `CUT_SECONDS` to send an answer and record their end."""
        if self._acceptor is not None:
            self._acceptor.stop()
        self._on_stopping()
        time_is_up = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._cut)
        await super().shutdown(sockets)
        time_is_up.cancel()
        self._cut()
        with suppress(TimeoutError):
            async with asyncio.timeout(CUT_SECONDS):
                await self._until_gone()

    def _cut(self) -> None:
        """Cancels all open requests, each once. A cancelled request answers its client and records its end."""
        under_way = set(self.server_state.tasks) - self._cut_tasks
        if under_way:
            self._on_cutting()
        for task in under_way:
            task.cancel()
        self._cut_tasks |= under_way

    async def _until_gone(self) -> None:
        """Waits until the last bytes are sent, because a slow client reads them some time after they were written."""
        while self.server_state.tasks or self.server_state.connections:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(_LOOK_SECONDS)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own method raises each signal again once the server has stopped. That would kill the process before the
        # trail and the database are closed.
        before = {kind: signal.signal(kind, self.handle_exit) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)
