"""Accepts connections on a socket that several processes share, for the workers of `toolcaddie serve`.

The servers of asyncio and uvloop accept all waiting connections at once, so the first worker that wakes up gets them all, and
keeps them as long as their clients do. Here a worker accepts one at a time, and lets a worker with fewer connections go first.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass

from toolcaddie.util.log import Logger

log = Logger(__name__)

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 1.0
"""Seconds without new connections after the system had no room for one."""
_COURTESY = 0.005
"""Seconds in which a worker with fewer connections may accept a new one. After that the others do so too, because that worker
may be busy, or gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a worker shares with the others."""

    listener: socket.socket
    counts: MutableSequence[int]
    """The number of connections of each worker, in memory of all processes."""
    place: int
    """The place of this worker in `counts`."""

    def count(self, connections: int) -> None:
        self.counts[self.place] = connections

    @property
    def is_ahead(self) -> bool:
        """True if another worker has fewer connections than this one."""
        counts = list(self.counts)
        return min(counts) < counts[self.place]


class Acceptor:
    """Accepts connections, whose protocols `protocol` makes. `open_connections` returns the number of those that are open."""

    def __init__(
        self, share: Share, protocol: Callable[[], asyncio.Protocol], open_connections: Callable[[], int]
    ) -> None:
        self._share = share
        self._listener = share.listener
        self._protocol = protocol
        self._open_connections = open_connections
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.count()
        self._listener.setblocking(False)
        self._look()

    def count(self) -> None:
        """Tells the other workers the number of connections. Called several times in a second, because connections end too."""
        self._share.count(self._open_connections() + len(self._opening))

    def stop(self) -> None:
        """Accepts no more connections, and closes the listener."""
        if self._pause is not None:
            self._pause.cancel()
        if self._listener.fileno() != -1:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()

    def _look(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener.fileno(), self._offered)

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._pause = self._loop.call_later(seconds, then)

    def _offered(self) -> None:
        """Accepts a connection, or leaves it to another worker."""
        self.count()
        if self._share.is_ahead:
            self._wait(_COURTESY, self._accept_late)
        else:
            self._accept()

    def _accept_late(self) -> None:
        """Accepts the connection if it is still there."""
        self._look()
        self._accept()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker was faster, or the client has left
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            log.error("no_connection_accepted", error=str(error), tries_again_in=_PAUSE)
            self._wait(_PAUSE, self._look)
            return
        task = self._loop.create_task(self._open(connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        self.count()

    async def _open(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self._loop.connect_accepted_socket(self._protocol, connection)
