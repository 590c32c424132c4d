"""One connection to a bus, in one event loop, by `dbus-fast`. Only `bus` imports this file, when a connection is opened.

Nobody is asked for a password on behalf of a call, and no service is started by one: either could let a call hang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dbus_fast import BusType, DBusFastError, Message, MessageFlag, MessageType
from dbus_fast.aio import MessageBus
from dbus_fast.unpack import unpack_variants

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.dbus.messages import DBusRefusedError, Method, Reply, Signal
from toolcaddie.tools.host.words import words

_BROKEN = (OSError, EOFError, ValueError, LookupError, DBusFastError)
"""Errors of a connection that ends, or whose other side is no D-Bus."""
_CLOSING_SECONDS = 2.0


class Link:
    """Make one with `connect`. `place`: the bus as people read it."""

    def __init__(self, bus: MessageBus, place: str, on_lost: Callable[[], None]) -> None:
        self._bus = bus
        self._place = place
        self._on_lost = on_lost
        self._watcher = asyncio.create_task(self._watch())

    @property
    def is_open(self) -> bool:
        return bool(self._bus.connected)

    def receive(self, on_signal: Callable[[Signal], None]) -> None:
        """Calls `on_signal` with each signal that comes."""

        def take(message: Message) -> None:
            if message.message_type is MessageType.SIGNAL:
                on_signal(
                    Signal(
                        sender=message.sender or "",
                        path=message.path or "",
                        interface=message.interface or "",
                        member=message.member or "",
                        body=message.body,
                    )
                )

        self._bus.add_message_handler(take)

    async def call(self, method: Method) -> Reply:
        """Returns the reply. Raises `DBusRefusedError` if it is an error, and `HostError` if the connection ends."""
        message = Message(
            destination=method.destination,
            path=method.path,
            interface=method.interface,
            member=method.member,
            signature=method.signature,
            body=list(method.body),
            flags=MessageFlag.NO_AUTOSTART,
        )
        try:
            reply = await self._bus.call(message)
        except _BROKEN as error:
            raise HostError(f"the connection to {self._place} was lost: {_problem(error)}") from error
        if reply is None:
            raise HostError(f"the connection to {self._place} was closed before {method.member} was answered")
        if reply.message_type is MessageType.ERROR:
            name = reply.error_name or ""
            reason = reply.body[0] if reply.body and isinstance(reply.body[0], str) else name
            raise DBusRefusedError(words(reason), name=name)
        return Reply(body=unpack_variants(reply.body), sender=reply.sender or "")

    async def close(self) -> None:
        self._bus.disconnect()
        await asyncio.wait({self._watcher}, timeout=_CLOSING_SECONDS)

    async def _watch(self) -> None:
        """Waits for the end of the connection, whatever its reason."""
        await asyncio.gather(self._bus.wait_for_disconnect(), return_exceptions=True)  # type: ignore[no-untyped-call]
        self._on_lost()


_REMEDY = "this needs a machine that systemd has booted, or the address of a bus in the settings"


async def connect(address: str, place: str, *, on_lost: Callable[[], None]) -> Link:
    """Returns a connection to the bus at an address; empty: to the system bus. `on_lost` is called when it has ended. Raises
    `HostError`."""
    try:
        bus = await MessageBus(address or None, bus_type=BusType.SYSTEM).connect()
    except _BROKEN as error:
        raise HostError(f"there is no D-Bus at {place}: {_problem(error)}; {_REMEDY}") from error
    return Link(bus, place, on_lost)


def _problem(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return words(reason or error, nothing=type(error).__name__)
