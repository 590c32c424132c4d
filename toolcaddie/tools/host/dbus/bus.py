"""A bus whose connection is opened at the first call, shared by all calls of an event loop, and opened again after it was lost.
It knows no service of the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.dbus.messages import Method, Reply, Signal, checked_address
from toolcaddie.tools.host.extra import loaded

if TYPE_CHECKING:  # of the extra `host`
    from toolcaddie.tools.host.dbus.link import Link

_CALLS_AT_ONCE = 64
"""The largest number of calls of a connection that wait for an answer; the others wait for their turn. A bus refuses more than
128 of one connection, unless it is set up otherwise."""


class DBus:
    """Calls methods of services. `address`: empty for the system bus. `match`: the rule of the signals that `on_signal` is called
    with; `on_lost` is called when a connection has ended, after which no signals come."""

    def __init__(
        self,
        address: str = "",
        *,
        timeout: float,
        match: str = "",
        on_signal: Callable[[Signal], None] = lambda signal: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._address = checked_address(address)
        self._timeout = timeout
        self._match = match
        self._on_signal = on_signal
        self._on_lost = on_lost
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._slots = asyncio.Semaphore(_CALLS_AT_ONCE)
        self._link: Link | None = None

    @property
    def place(self) -> str:
        """The bus as people read it."""
        return self._address or "the system bus"

    async def call(self, method: Method, *, timeout: float | None = None) -> Reply:
        """Returns the reply of a service. Raises `DBusRefusedError` if it answers with an error, and `HostError` if there is no
        answer within the time, no such service or no bus."""
        seconds = self._timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(seconds):
                return await self._answered(method)
        except TimeoutError as error:
            raise HostError(
                f"{method.destination} did not answer {method.member} within {seconds:g} s on {self.place}"
            ) from error

    async def close(self) -> None:
        """Closes the connection. A later call opens a new one."""
        link, self._link = self._link, None
        if link is not None and self._loop is asyncio.get_running_loop():
            await link.close()

    async def _answered(self, method: Method) -> Reply:
        link = await self._connected()
        async with self._slots:
            return await link.call(method)

    async def _connected(self) -> Link:
        """Returns the connection of the running event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a connection of another loop cannot be used, nor can its locks
            self._loop, self._opening, self._link = loop, asyncio.Lock(), None
            self._slots = asyncio.Semaphore(_CALLS_AT_ONCE)
        async with self._opening:
            if self._link is None or not self._link.is_open:
                self._link = await self._opened()
            return self._link

    async def _opened(self) -> Link:
        library = loaded("toolcaddie.tools.host.dbus.link", "D-Bus needs the package dbus-fast")
        link: Link = await library.connect(self._address, self.place, on_lost=self._on_lost)
        try:
            if self._match:
                link.receive(self._on_signal)
                await link.call(_add_match(self._match))
        except BaseException:
            await link.close()
            raise
        return link


def _add_match(rule: str) -> Method:
    name = "org.freedesktop.DBus"
    return Method(
        destination=name,
        path="/org/freedesktop/DBus",
        interface=name,
        member="AddMatch",
        signature="s",
        body=(rule,),
    )
