"""Transactions of PackageKit: each is an object on the bus that reports by signals and ends with `Finished`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from toolcaddie.core.errors import HostError
from toolcaddie.tools.host.dbus import DBus, Method, Signal
from toolcaddie.tools.host.words import words

SERVICE = "org.freedesktop.PackageKit"
_INTERFACE = f"{SERVICE}.Transaction"
_HINTS = ("interactive=false", "background=false", "locale=C")
"""Nobody is asked for a password: a call that may not be made fails at once."""
_SUCCESS = 1
_ENDS = {2: "it failed", 3: "it was cancelled", 4: "a key is needed", 5: "a licence must be accepted"}
_CANCELLING_SECONDS = 3.0
_MOST_SIGNALS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A package that a transaction reported: `info` is PackageKit's number of what is true of it or is done to it."""

    info: int
    name: str
    version: str
    identifier: str
    """The text that means exactly this package in other transactions."""
    origin: str
    """The repository; `local` if the package was installed from a file."""


@dataclass(slots=True)
class _Transaction:
    """A transaction that is going on."""

    sender: str
    finished: asyncio.Future[int]
    packages: list[Reported] = field(default_factory=list)
    error: str = ""


class Transactions:
    """Runs transactions, several at once."""

    def __init__(self, bus: str, *, timeout: float) -> None:
        self._running: dict[str, _Transaction] = {}
        self._timeout = timeout
        self._bus = DBus(
            bus,
            timeout=timeout,
            match=f"type='signal',sender='{SERVICE}',interface='{_INTERFACE}'",
            on_signal=self._receive,
            on_lost=self._lose,
        )

    async def start(self) -> None:
        """Starts PackageKit unless it runs: it ends when it has nothing to do. Raises `HostError` if this machine has none."""
        (runs,) = (await self._bus.call(_of_the_bus("NameHasOwner", "s", SERVICE))).body
        if not runs:
            await self._bus.call(_of_the_bus("StartServiceByName", "su", SERVICE, 0))

    async def properties(self) -> dict[str, Any]:
        """Returns the properties of PackageKit, such as its version."""
        method = Method(
            destination=SERVICE,
            path="/org/freedesktop/PackageKit",
            interface="org.freedesktop.DBus.Properties",
            member="GetAll",
            signature="s",
            body=(SERVICE,),
        )
        (properties,) = (await self._bus.call(method)).body
        return dict(properties)

    async def run(self, member: str, signature: str, *body: Any, seconds: float | None = None) -> Sequence[Reported]:
        """Runs a transaction and returns the packages that it reported. Raises `HostError` with the reason if it fails, and if it
        takes too long, or the caller is cancelled, cancels it."""
        seconds = self._timeout if seconds is None else seconds
        create = Method(
            destination=SERVICE, path="/org/freedesktop/PackageKit", interface=SERVICE, member="CreateTransaction"
        )
        await self.start()
        reply = await self._bus.call(create)
        path = reply.body[0]
        transaction = _Transaction(reply.sender, asyncio.get_running_loop().create_future())
        self._running[path] = transaction
        try:
            async with asyncio.timeout(seconds):
                await self._call(path, "SetHints", "as", list(_HINTS))
                await self._call(path, member, signature, *body)
                end = await transaction.finished
        except BaseException as error:
            await self._cancel(path)
            if isinstance(error, TimeoutError):
                raise HostError(f"PackageKit did not finish within {seconds:g} s and was told to stop") from error
            raise
        finally:
            del self._running[path]
        if end != _SUCCESS or transaction.error:
            raise HostError(f"PackageKit did not do it: {transaction.error or _ENDS.get(end, f'it ended with {end}')}")
        return transaction.packages

    async def close(self) -> None:
        await self._bus.close()

    async def _call(self, path: str, member: str, signature: str = "", *body: Any) -> None:
        method = Method(
            destination=SERVICE, path=path, interface=_INTERFACE, member=member, signature=signature, body=body
        )
        await self._bus.call(method)

    async def _cancel(self, path: str) -> None:
        """Asks PackageKit to give a transaction up. It may have ended, or be at a step that it does not interrupt."""
        with suppress(HostError, TimeoutError):
            async with asyncio.timeout(_CANCELLING_SECONDS):
                await self._call(path, "Cancel")

    # --- signals ---------------------------------------------------------------------------------------------------------

    def _receive(self, signal: Signal) -> None:
        transaction = self._running.get(signal.path)
        if transaction is None or signal.sender != transaction.sender or transaction.finished.done():
            return
        match signal.member, signal.body:
            case "Package", [int(info), str(identifier), *_] if len(transaction.packages) < _MOST_SIGNALS:
                transaction.packages.extend(_reported(info, identifier))
            case "ErrorCode", [int(code), str(details), *_]:
                transaction.error = transaction.error or f"{words(details)} (error {code})"
            case "Finished", [int(end), *_]:
                transaction.finished.set_result(end)
            case "Destroy", _:
                _fail(transaction, "it dropped the transaction")

    def _lose(self) -> None:
        for transaction in self._running.values():
            _fail(transaction, "the connection to the message bus was lost")


def _of_the_bus(member: str, signature: str, *body: Any) -> Method:
    """Returns a call of the bus itself."""
    name, path = "org.freedesktop.DBus", "/org/freedesktop/DBus"
    return Method(destination=name, path=path, interface=name, member=member, signature=signature, body=body)


def _fail(transaction: _Transaction, reason: str) -> None:
    if not transaction.finished.done():
        transaction.error = reason
        transaction.finished.set_result(0)


def _reported(info: int, identifier: str) -> Sequence[Reported]:
    """Returns the package that an identifier means; nothing if it is none: `name;version;architecture;data`."""
    parts = identifier.split(";")
    if len(parts) != len(("name", "version", "architecture", "data")):
        return ()
    origin = parts[3].rpartition(":")[2]
    return (Reported(info=info, name=parts[0], version=parts[1], identifier=identifier, origin=origin),)
